"""The command as processes of their own, for what a process is the point of: signals and kills."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from income_client.testing import IncomeService

from .streams import Ran, Streams

_SCRIPT: Final = shutil.which("income-client", path=str(Path(sys.executable).parent))
COMMAND: Final = [_SCRIPT] if _SCRIPT else [sys.executable, "-m", "income_client.cli"]
ROOT: Final = Path(__file__).parents[2]
_KEPT: Final = ("PATH", "HOME", "PYTHONPATH", "SYSTEMROOT", "LANG", "LC_ALL")
_OWN_TERMINAL: Final = (
    "import fcntl, os, sys, termios; "
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
"""Runs a command on a terminal that sends it a signal for Ctrl-C."""
_PATIENCE: Final = 50.0


def environment(service: IncomeService | None = None, /, **variables: str) -> dict[str, str]:
    """Return the variables of a shell, those that lead to a service, and these."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    settings = service.environment if service is not None else {}
    usual = {
        "PYTHONUTF8": "1",
        "TERM": "xterm-256color",
        # No folder: commands of one test are not found by those of another.
        "XDG_RUNTIME_DIR": os.devnull,
    }
    return {**kept, **usual, **settings, **variables}


class Process:
    """A command that runs as a process."""

    def __init__(self, popen: "subprocess.Popen[bytes]", streams: Streams) -> None:
        self._popen = popen
        self._streams = streams
        self.stdout: Final = streams.stdout
        self.stderr: Final = streams.stderr
        self.write: Final = streams.write

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._popen.send_signal(number)

    def has_ended(self, seconds: float) -> bool:
        """Wait so long for its end, and say whether it came."""
        try:
            self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def wait(self) -> Ran:
        """Wait for its end, which is a negative status where a signal has ended it."""
        return self._streams.ended(self._popen.wait(_PATIENCE))


@contextmanager
def started(
    *arguments: str,
    env: Mapping[str, str],
    command: tuple[str, ...] | None = None,
    owns_terminal: bool = False,
    ends_input: bool = False,
    **streams: Any,
) -> Iterator[Process]:
    """Run a process beside what happens inside; nothing of it is left afterwards.

    Args:
        *arguments: what follows ``income-client``.
        env: all of its variables.
        command: what is run in place of it.
        owns_terminal: whether Ctrl-C at its terminal sends a signal.
        ends_input: whether its standard input ends at once.
        **streams: what `Streams` takes.
    """
    ends = Streams(streams.pop("terminal", None), **streams)
    stdin, stdout, stderr = ends.descriptors
    prefix = [sys.executable, "-c", _OWN_TERMINAL] if owns_terminal else []
    popen = subprocess.Popen(
        [*prefix, *(COMMAND if command is None else command), *arguments],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=env,
        cwd=ROOT,
        start_new_session=owns_terminal,
    )
    ends.release()
    if ends_input:
        ends.end_input()
    process = Process(popen, ends)
    try:
        yield process
    finally:
        popen.kill()
        process.wait()


def run(*arguments: str, env: Mapping[str, str], command: tuple[str, ...] | None = None) -> Ran:
    """Run a process to its end, with nothing to read and its output going to pipes."""
    with started(*arguments, env=env, command=command, ends_input=True) as process:
        return process.wait()


@contextmanager
def file_for(path: Path) -> Iterator[int]:
    """Open a file as ``>>`` does, and give its descriptor."""
    with path.open("ab") as file:
        yield file.fileno()
