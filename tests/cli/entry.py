"""The command as a shell runs it: its own process, with pipes or on a pseudo-terminal."""

import fcntl
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

from attrs import frozen

_SCRIPT: Final = shutil.which("income-client", path=str(Path(sys.executable).parent))
COMMAND: Final = [_SCRIPT] if _SCRIPT else [sys.executable, "-m", "income_client.cli"]
_KEPT: Final = ("PATH", "HOME", "PYTHONPATH", "SYSTEMROOT", "LANG", "LC_ALL")
ROOT: Final = Path(__file__).parents[2]
_PATIENCE: Final = 5.0


def environment(**variables: str) -> dict[str, str]:
    """Return variables without those that speak of terminals, these added."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, "PYTHONUTF8": "1", "TERM": "xterm-256color", **variables}


def run(*arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run the command to its end, its output going to pipes."""
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        encoding="utf-8",
        env=environment(**variables),
        cwd=ROOT,
        check=False,
        timeout=50,
    )


def start(
    *arguments: str, stdout: int = subprocess.PIPE, stderr: int = subprocess.PIPE, **variables: str
) -> "subprocess.Popen[str]":
    """Start the command."""
    return subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=stdout,
        stderr=stderr,
        encoding="utf-8",
        env=environment(**variables),
        cwd=ROOT,
    )


@contextmanager
def running(*arguments: str, **options: Any) -> "Iterator[subprocess.Popen[str]]":
    """Run the command beside what happens inside; nothing of it is left afterwards."""
    process = start(*arguments, **options)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@frozen(kw_only=True)
class Shown:
    """What a command showed on a terminal, and what it wrote elsewhere."""

    status: int
    """Exit status."""
    screen: str
    """Everything that the terminal got."""
    piped: str
    """Standard output, where it was no terminal."""


class Terminal:
    """A pseudo-terminal that remembers what it is sent; a context manager.

    Args:
        rows: how many lines it has.
        width: how many columns.
    """

    def __init__(self, rows: int = 24, width: int = 80) -> None:
        self._master, self.device = pty.openpty()
        fcntl.ioctl(self.device, termios.TIOCSWINSZ, struct.pack("HHHH", rows, width, 0, 0))
        self._is_attended = False
        self._is_closed = False
        self._pieces: list[bytes] = []
        self._arrived = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Whoever holds the device has ended by now, unless the test failed before.
        if not self._is_attended:
            self.attend()
        self._reader.join(_PATIENCE)
        if not self._reader.is_alive():
            self.close()

    def attend(self) -> None:
        """Begin to read; the device now belongs to the commands that were started on it."""
        self._is_attended = True
        os.close(self.device)
        self._reader.start()

    def wait_for(self, text: str) -> None:
        """Wait until a text was shown."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: text in self.shown, timeout=40), self.shown

    @property
    def shown(self) -> str:
        """Everything so far."""
        return b"".join(self._pieces).decode()

    def close(self) -> str:
        """Wait until the last command has ended, and return everything."""
        self._reader.join()
        if not self._is_closed:
            self._is_closed = True
            os.close(self._master)
        return self.shown

    def _read(self) -> None:
        while True:
            try:
                piece = os.read(self._master, 65536)
            except OSError:  # how Linux says that nobody holds the device any more
                return
            if not piece:
                return
            with self._arrived:
                self._pieces.append(piece)
                self._arrived.notify_all()


def run_on_terminal(*arguments: str, pipe_stdout: bool = False, **variables: str) -> Shown:
    """Run the command to its end on a terminal, with standard output there or in a pipe."""
    with Terminal() as terminal:
        stdout = subprocess.PIPE if pipe_stdout else terminal.device
        with running(*arguments, stdout=stdout, stderr=terminal.device, **variables) as process:
            terminal.attend()
            piped, _ = process.communicate(timeout=50)
            shown = terminal.close()
    return Shown(status=process.returncode, screen=shown, piped=piped or "")
