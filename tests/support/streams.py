"""What a command reads and writes: pipes, files and pseudo-terminals."""

import fcntl
import os
import pty
import struct
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pyte
from attrs import frozen

_ARRIVAL_SECONDS: Final = 50.0


class Output:
    """What arrives at the reading end of a pipe or a terminal, collected by a thread."""

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
    """What a terminal got."""

    @property
    def lines(self) -> list[str]:
        return self.stdout.splitlines()

    @property
    def words(self) -> str:
        """Everything that it said, with single spaces between words, however lines were broken."""
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
        """Have nothing more be written or typed."""
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
