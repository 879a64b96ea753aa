"""Commands as processes of their own, their pipes and terminals, and servers beside a test."""

import asyncio
import fcntl
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import pyte
from anyio.from_thread import start_blocking_portal
from attrs import frozen

from income_client.testing import IncomeService

# Pipes and terminals

_ARRIVAL_SECONDS: Final = 50.0


class Output:
    """Bytes from a pipe or a terminal, collected by a thread."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._bytes = b""
        self._is_over = False
        self._arrived = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def text(self) -> str:
        return self._bytes.decode("utf-8", "replace")

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")[:-1]

    def wait_for(self, text: str, times: int = 1) -> str:
        """Wait until a text has arrived, and return everything so far."""
        return self.wait_until(lambda: self.text.count(text) >= times)

    def wait_for_lines(self, count: int) -> list[str]:
        """Wait for some complete lines, and return all of them."""
        self.wait_until(lambda: len(self.lines) >= count)
        return self.lines

    def wait_until(self, condition: Callable[[], bool]) -> str:
        """Wait until something holds of what has arrived, and return everything so far."""
        with self._arrived:
            self._arrived.wait_for(lambda: self._is_over or condition(), _ARRIVAL_SECONDS)
            assert condition(), self.text
        return self.text

    def close(self) -> str:
        """Wait for the end, and return everything."""
        self._thread.join(_ARRIVAL_SECONDS)
        assert not self._thread.is_alive(), "the other end is still open"
        return self.text

    def _read(self) -> None:
        while True:
            try:
                piece = os.read(self._descriptor, 65536)
            except OSError:  # Linux's way to say that a terminal has no other end any more
                piece = b""
            with self._arrived:
                self._bytes += piece
                self._is_over = not piece
                self._arrived.notify_all()
            if not piece:
                os.close(self._descriptor)
                return


@frozen
class Terminal:
    """The size of a pseudo-terminal."""

    rows: int = 24
    columns: int = 80

    def standing(self, shown: str) -> list[str]:
        """Return the lines that remain of all that it got, those scrolled away included."""
        screen: Any = pyte.HistoryScreen(self.columns, self.rows, history=10_000, ratio=1)
        pyte.Stream(screen).feed(shown)
        gone = ["".join(line[x].data for x in range(self.columns)) for line in screen.history.top]
        lines = [line.rstrip() for line in (*gone, *screen.display)]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def open(self) -> tuple[int, int]:
        """Return the descriptors of both ends, the person's first."""
        person, command = pty.openpty()
        size = struct.pack("HHHH", self.rows, self.columns, 0, 0)
        fcntl.ioctl(command, termios.TIOCSWINSZ, size)
        return person, command


@frozen(kw_only=True)
class Ran:
    """A command that has ended."""

    status: int
    """Exit status, as a shell would see it."""
    stdout: str
    """Standard output, where it was a pipe."""
    stderr: str
    """Standard error, where it was a pipe."""
    screen: str
    """Text on the terminal."""

    @property
    def lines(self) -> list[str]:
        return self.stdout.splitlines()

    @property
    def words(self) -> str:
        """Output of the process, with single spaces between words."""
        return " ".join((self.stdout + self.stderr + self.screen).split())


class Streams:
    """Both ends of what a command reads and writes.

    Args:
        terminal: what stands for a person's terminal; pipes unless given.
        stdout: descriptor of standard output, in place of a pipe or the terminal.
        stderr: the same of standard error.
        piped: whether standard output is a pipe although there is a terminal.

    Attributes:
        descriptors: the command's ends.
    """

    def __init__(
        self,
        terminal: Terminal | None,
        *,
        stdout: int | None = None,
        stderr: int | None = None,
        piped: bool = False,
    ) -> None:
        self._outputs: dict[int, Output] = {}
        self._owned: list[int] = []
        self._keys: int | None
        if terminal is None:
            source, self._keys = os.pipe()
        else:
            person, source = terminal.open()
            self._outputs[0], self._keys = Output(person), os.dup(person)
        self._owned.append(source)
        if stdout is None:
            stdout = self._pipe(1) if piped or terminal is None else source
        if stderr is None:
            stderr = self._pipe(2) if terminal is None else source
        self.descriptors: Final = (source, stdout, stderr)

    @property
    def stdout(self) -> Output:
        """Standard output so far; of the terminal, where it goes there."""
        return next(self._outputs[one] for one in (1, 0, 2) if one in self._outputs)

    @property
    def stderr(self) -> Output:
        """Standard error so far, likewise."""
        return next(self._outputs[one] for one in (2, 0, 1) if one in self._outputs)

    def write(self, text: str) -> None:
        """Write to standard input, or press keys at the terminal."""
        assert self._keys is not None
        os.write(self._keys, text.encode())

    def feed(self, content: bytes) -> None:
        """Write all of this meanwhile."""
        assert self._keys is not None
        descriptor = os.dup(self._keys)
        threading.Thread(target=_feed, args=(descriptor, content), daemon=True).start()

    def end_input(self) -> None:
        """Close the input."""
        if self._keys is not None:
            os.close(self._keys)
            self._keys = None

    def release(self) -> None:
        """Close the command's ends, which it has or does not need any more."""
        while self._owned:
            os.close(self._owned.pop())

    def ended(self, status: int) -> Ran:
        """Wait until all is read that a command wrote which has ended."""
        self.end_input()
        self.release()
        texts = {number: output.close() for number, output in self._outputs.items()}
        return Ran(
            status=status, stdout=texts.get(1, ""), stderr=texts.get(2, ""), screen=texts.get(0, "")
        )

    def _pipe(self, number: int) -> int:
        reading, writing = os.pipe()
        self._outputs[number] = Output(reading)
        self._owned.append(writing)
        return writing


def _feed(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:  # the command has ended and wants no more
        pass
    finally:
        os.close(descriptor)


def is_drawn_over(screen: str) -> bool:
    """Return whether anything was drawn over itself; lines that stay have only their ends."""
    return any(move in screen.replace("\r\n", "\n") for move in ("\r", "\x1b"))


@contextmanager
def closed_pipe() -> Iterator[int]:
    """Give the writing end of a pipe that nobody reads any more."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        yield writing
    finally:
        os.close(writing)


# Processes

_SCRIPT: Final = shutil.which("income-client", path=str(Path(sys.executable).parent))
COMMAND: Final = [_SCRIPT] if _SCRIPT else [sys.executable, "-m", "income_client.cli"]
ROOT: Final = Path(__file__).parents[2]
_KEPT: Final = ("PATH", "HOME", "PYTHONPATH", "SYSTEMROOT", "LANG", "LC_ALL")
_OWN_TERMINAL: Final = (
    "import fcntl, os, sys, termios; "
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
"""Runs a command on a terminal that sends it a signal for Ctrl-C."""
_PATIENCE_SECONDS: Final = 50.0


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
        return self._streams.ended(self._popen.wait(_PATIENCE_SECONDS))


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


# Servers in another thread

T = TypeVar("T")

_UNTIL_SECONDS: Final = 20.0


@contextmanager
def beside(server: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Enter an asynchronous context manager in an event loop of another thread."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(server) as value:
        yield value


def until(condition: Callable[[], object]) -> None:
    """Wait until something holds that another thread or process brings about."""
    waiting = threading.Event()
    for _ in range(round(_UNTIL_SECONDS / 0.005)):
        if condition():
            return
        waiting.wait(0.005)
    raise AssertionError("nothing came of it")


async def eventually(condition: Callable[[], object]) -> None:
    """Wait until something holds that another process brings about."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - another process sets no event
            await asyncio.sleep(0.01)
