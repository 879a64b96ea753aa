"""The command as processes of their own, for what a process is the point of: signals and kills."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from income_client.testing import IncomeService

from .cli import Output, Ran, Terminal

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
    """A command that runs.

    Attributes:
        popen: the process.
        stdout: what came of standard output so far; of the terminal, where it goes there.
        stderr: the same of standard error.
    """

    def __init__(
        self, popen: "subprocess.Popen[bytes]", outputs: Mapping[int, Output], keys: int | None
    ) -> None:
        self.popen: Final = popen
        self._outputs = outputs
        self._keys = keys
        self._texts: dict[int, str] | None = None

    @property
    def stdout(self) -> Output:
        """Standard output so far; of the terminal, where it goes there."""
        return self._outputs.get(1) or self._outputs[0]

    @property
    def stderr(self) -> Output:
        """Standard error so far, likewise."""
        return self._outputs.get(2) or self._outputs[0]

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.popen.send_signal(number)

    def type(self, keys: str) -> None:
        """Press keys at its terminal, or write to its standard input."""
        assert self._keys is not None
        os.write(self._keys, keys.encode())

    def end_input(self) -> None:
        """Close its standard input."""
        if self._keys is not None:
            os.close(self._keys)
            self._keys = None

    def has_ended(self, seconds: float) -> bool:
        """Wait so long for its end, and say whether it came."""
        try:
            self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def wait(self) -> Ran:
        """Wait for its end, which is a negative status where a signal has ended it."""
        status = self.popen.wait(_PATIENCE)
        if self._texts is None:
            self._texts = {number: output.close() for number, output in self._outputs.items()}
        return Ran(
            status=status,
            stdout=self._texts.get(1, ""),
            stderr=self._texts.get(2, ""),
            screen=self._texts.get(0, ""),
        )

    def close(self) -> None:
        """Leave nothing of it."""
        self.end_input()
        self.popen.kill()
        self.wait()


@contextmanager
def started(
    *arguments: str,
    env: Mapping[str, str],
    command: tuple[str, ...] | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    terminal: Terminal | None = None,
    piped: bool = False,
    owns_terminal: bool = False,
) -> Iterator[Process]:
    """Run a process beside what happens inside; nothing of it is left afterwards.

    Args:
        *arguments: what follows ``income-client``.
        env: all of its variables.
        command: what is run in place of it.
        stdout: descriptor of standard output, in place of a pipe or the terminal.
        stderr: the same of standard error.
        terminal: what stands for a person's terminal; pipes unless given.
        piped: whether standard output is a pipe although there is a terminal.
        owns_terminal: whether Ctrl-C there sends a signal.
    """
    outputs: dict[int, Output] = {}
    with ExitStack() as given:

        def pipe(number: int) -> int:
            reading, writing = os.pipe()
            given.callback(os.close, writing)
            outputs[number] = Output(reading)
            return writing

        keys: int | None
        if terminal is None:
            source, keys = os.pipe()
            device = -1
        else:
            person, source = terminal.open()
            outputs[0], keys, device = Output(person), os.dup(person), source
        given.callback(os.close, source)
        prefix = [sys.executable, "-c", _OWN_TERMINAL] if owns_terminal else []
        popen = subprocess.Popen(
            [*prefix, *(COMMAND if command is None else command), *arguments],
            stdin=source,
            stdout=stdout if stdout is not None else pipe(1) if piped or device < 0 else device,
            stderr=stderr if stderr is not None else pipe(2) if device < 0 else device,
            env=env,
            cwd=ROOT,
            start_new_session=owns_terminal,
        )
    process = Process(popen, outputs, keys)
    try:
        yield process
    finally:
        process.close()


def run(*arguments: str, env: Mapping[str, str], command: tuple[str, ...] | None = None) -> Ran:
    """Run a process to its end, its output going to pipes."""
    with started(*arguments, env=env, command=command) as process:
        process.end_input()
        return process.wait()


@contextmanager
def file_for(path: Path) -> Iterator[int]:
    """Open a file as ``>>`` does, and give its descriptor."""
    with path.open("ab") as file:
        yield file.fileno()
