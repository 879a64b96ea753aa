"""The command line run in this process, on real descriptors: pipes, files, pseudo-terminals."""

import fcntl
import logging
import os
import pty
import signal
import struct
import sys
import termios
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Final

import pytest
from attrs import define, frozen

from income_client.cli import main
from income_client.testing import IncomeService

_PATIENCE: Final = 20.0
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_EXIT_FLUSH_FAILED: Final = 120


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
        """Everything so far."""
        return self._bytes.decode("utf-8", "replace")

    @property
    def lines(self) -> list[str]:
        """The complete lines so far."""
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
            self._arrived.wait_for(lambda: self._is_over or condition(), _PATIENCE)
            assert condition(), self.text
        return self.text

    def close(self) -> str:
        """Wait for the end, and return everything."""
        self._thread.join(_PATIENCE)
        assert not self._thread.is_alive(), "the other end is still open"
        os.close(self._descriptor)
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
                return


@frozen
class Terminal:
    """The size of a pseudo-terminal."""

    rows: int = 24
    columns: int = 80

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
        """The lines of standard output."""
        return self.stdout.splitlines()

    @property
    def words(self) -> str:
        """Everything that it said, with single spaces between words, however lines were broken."""
        return " ".join((self.stdout + self.stderr + self.screen).split())


@define(eq=False)
class Running:
    """A command that runs in the main thread, for what a test does beside it in another one."""

    stdout: Output
    """Standard output: of the terminal, where it goes there."""
    stderr: Output
    """Standard error, likewise."""
    has_ended: bool = False
    """Whether the command has returned."""

    def interrupt(self) -> None:
        """Send what Ctrl-C sends."""
        self.send(signal.SIGINT)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send(signal.SIGTERM)

    def send(self, number: signal.Signals) -> None:
        """Send a signal, which the command has to handle: the default would end the tests."""
        assert not self.has_ended
        assert signal.getsignal(number) is not signal.SIG_DFL
        signal.pthread_kill(threading.main_thread().ident or 0, number)


class Cli:
    """Runs the command to its end, as a shell would, in a folder and a home of its own.

    Args:
        folder: current directory, and where the home is.
        environment: variables besides those that every shell has.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder: Final = folder
        self.environment: Final = environment

    def at(self, service: IncomeService) -> "Cli":
        """Return the same with the variables that lead to a service."""
        return Cli(self.folder, {**self.environment, **service.environment})

    def __call__(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        terminal: Terminal | None = None,
        piped: bool = False,
        stdout: int | None = None,
        during: Callable[[Running], object] | None = None,
    ) -> Ran:
        """Run it.

        Args:
            *arguments: what follows ``income-client``.
            env: variables besides those of the service.
            stdin: what is piped into it; the null device unless given. A terminal's keys.
            terminal: what stands for a person's terminal; pipes unless given.
            piped: whether standard output is a pipe although there is a terminal.
            stdout: descriptor that standard output goes to instead.
            during: called in another thread while it runs; it must end by itself after that.
        """
        assert threading.current_thread() is threading.main_thread()
        with ExitStack() as stack:
            person = command = -1
            screen: Output | None = None
            if terminal is not None:
                person, command = terminal.open()
                screen = Output(person)
            into = _Pipe() if screen is None or piped else None
            errors = _Pipe() if screen is None else None
            source = _source(stdin) if screen is None else command
            if screen is not None and stdin is not None:
                os.write(person, stdin.encode() if isinstance(stdin, str) else stdin)
            first = into.write if into else command
            running = Running(
                into.output if into else screen or Output(-1),
                errors.output if errors else screen or Output(-1),
            )
            descriptors = (
                source, first if stdout is None else stdout, errors.write if errors else command
            )  # fmt: skip
            try:
                stack.enter_context(_variables(self._variables(env or {})))
                stack.enter_context(_directory(self.folder))
                stack.enter_context(_standard_logging())
                stack.enter_context(_standard_signals())
                stack.enter_context(_arguments("income-client", *arguments))
                with _beside(running, during):
                    status = _status_on(descriptors, running)
            finally:
                for descriptor in {source, command, *(p.write for p in (into, errors) if p)} - {-1}:
                    os.close(descriptor)
                texts = [
                    output.close() if output else ""
                    for output in (
                        into.output if into else None, errors.output if errors else None, screen
                    )
                ]  # fmt: skip
            return Ran(status=status, stdout=texts[0], stderr=texts[1], screen=texts[2])

    def _variables(self, more: Mapping[str, str]) -> dict[str, str]:
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        usual = {"PATH": os.environ.get("PATH", ""), "HOME": str(home), "TERM": "xterm-256color"}
        return {**usual, "LANG": "C.UTF-8", **self.environment, **more}


class _Pipe:
    def __init__(self) -> None:
        reading, self.write = os.pipe()
        self.output = Output(reading)


def _source(stdin: str | bytes | None) -> int:
    """Return the descriptor of standard input, with all of it on its way."""
    if stdin is None:
        return os.open(os.devnull, os.O_RDONLY)
    reading, writing = os.pipe()
    content = stdin.encode() if isinstance(stdin, str) else stdin

    def feed() -> None:
        with open(writing, "wb") as file:  # noqa: PTH123 - a descriptor
            try:
                file.write(content)
                file.flush()
            except BrokenPipeError:
                _lead_nowhere(writing)

    threading.Thread(target=feed, daemon=True).start()
    return reading


def _status_on(descriptors: tuple[int, int, int], running: Running) -> int:
    """Run the command on these descriptors, and return its status."""
    with _standard_streams(descriptors) as (_, out, _):
        try:
            main()
            status = 0
        except SystemExit as ended:
            status = _status_of(ended)
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            running.has_ended = True
        try:
            out.flush()
        except OSError:  # what the interpreter does when this fails at its end
            status = _EXIT_FLUSH_FAILED
            _lead_nowhere(1)
        return int(status)


def _lead_nowhere(descriptor: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _status_of(ended: SystemExit) -> int:
    if isinstance(ended.code, str):
        sys.stderr.write(f"{ended.code}\n")
        return 1
    return ended.code or 0


@contextmanager
def _standard_streams(descriptors: tuple[int, int, int]) -> Iterator[tuple[IO[Any], ...]]:
    """Have descriptors 0 to 2, and the streams on them, be these for a while."""
    before = (sys.stdin, sys.stdout, sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(number) for number in range(3)]
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    streams = (
        open(0, encoding="utf-8", closefd=False),  # noqa: SIM115 - closed below
        open(1, "w", encoding="utf-8", closefd=False),  # noqa: SIM115
        open(2, "w", 1, "utf-8", "backslashreplace", closefd=False),  # noqa: SIM115
    )
    sys.stdin, sys.stdout, sys.stderr = streams
    try:
        yield streams
    finally:
        for stream in streams:
            stream.close()
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)
        sys.stdin, sys.stdout, sys.stderr = before


@contextmanager
def _beside(running: Running, work: Callable[[Running], object] | None) -> Iterator[None]:
    """Do something in another thread meanwhile; its error is raised once the command has ended."""
    errors: list[BaseException] = []

    def working() -> None:
        assert work is not None
        try:
            work(running)
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)
            if not running.has_ended:
                running.interrupt()

    thread = threading.Thread(target=working, daemon=True)
    if work is not None:
        thread.start()
    try:
        yield
    finally:
        if work is not None:
            thread.join(_PATIENCE)
        if errors:
            raise errors[0]


@contextmanager
def _variables(variables: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _directory(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _arguments(*arguments: str) -> Iterator[None]:
    before = sys.argv
    sys.argv = list(arguments)
    try:
        yield
    finally:
        sys.argv = before


@contextmanager
def _standard_logging() -> Iterator[None]:
    """Have no handler but the command's own, and none of those afterwards."""
    root = logging.getLogger()
    ours = [
        logger
        for name, logger in root.manager.loggerDict.items()
        if name.partition(".")[0] == "income_client" and isinstance(logger, logging.Logger)
    ]
    before = [(logger, logger.handlers[:], logger.level) for logger in (root, *ours)]
    root.handlers = []
    with warnings.catch_warnings():
        try:
            yield
        finally:
            for logger, handlers, level in before:
                logger.handlers = handlers
                logger.setLevel(level)


@contextmanager
def _standard_signals() -> Iterator[None]:
    before = [(number, signal.getsignal(number)) for number in _SIGNALS]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """The command in a folder of its own, with no settings."""
    return Cli(tmp_path, {})


@pytest.fixture
def service_cli(cli: Cli, income_service: IncomeService) -> Cli:
    """The command with the settings that lead to `income_service`."""
    return cli.at(income_service)
