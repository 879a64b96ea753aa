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
from contextlib import ExitStack, chdir, contextmanager
from pathlib import Path
from traceback import walk_stack
from types import FrameType
from typing import IO, Any, Final, Self
from unittest import mock

import pyte
import pytest
from attrs import frozen

from income_client.cli import main
from income_client.cli.output import discard_rest
from income_client.clock import SystemClock
from income_client.testing import IncomeService, JumpingClock

_PATIENCE: Final = 20.0
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_NUDGE: Final = signal.SIGURG
_NUDGES: Final = 3
_NUDGE_SECONDS: Final = 0.02
_EXIT_FLUSH_FAILED: Final = 120
FULL: Final = Path("/dev/full")
"""A disk without room."""


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
        """The lines of standard output."""
        return self.stdout.splitlines()

    @property
    def words(self) -> str:
        """Everything that it said, with single spaces between words, however lines were broken."""
        return " ".join((self.stdout + self.stderr + self.screen).split())


class Running:
    """A command that runs in the main thread, for what a test does beside it in another one.

    Attributes:
        stdout: standard output: of the terminal, where it goes there.
        stderr: standard error, likewise.
    """

    def __init__(self, stdout: Output, stderr: Output, keys: int | None) -> None:
        self.stdout: Final = stdout
        self.stderr: Final = stderr
        self._keys = keys
        self._ended = threading.Event()

    @property
    def has_ended(self) -> bool:
        """Whether the command has returned."""
        return self._ended.is_set()

    def write(self, text: str) -> None:
        """Write to its standard input, which stays open until all is done beside it."""
        assert self._keys is not None
        os.write(self._keys, text.encode())

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
        main = threading.main_thread().ident or 0
        signal.pthread_kill(main, number)
        # One that comes just before the main thread begins to wait is seen at its next wake-up.
        # A loop that is being closed is let alone: its pipe for signals is closed already.
        for _ in range(_NUDGES):
            if self._ended.wait(_NUDGE_SECONDS):
                return
            if not _is_closing_a_loop(sys._current_frames()[main]):
                signal.pthread_kill(main, _NUDGE)

    def end(self) -> None:
        """Be told that the command has returned."""
        self._ended.set()

    def wait(self) -> None:
        """Wait until the command has returned."""
        assert self._ended.wait(_PATIENCE)


def _is_closing_a_loop(frame: FrameType) -> bool:
    return any(
        one.f_code.co_name == "close" and one.f_globals["__name__"].startswith("asyncio.")
        for one, _ in walk_stack(frame)
    )


class Cli:
    """Runs the command to its end, as a shell would, in a folder and a home of its own.

    Args:
        folder: current directory, and where the home is.
        service: where variables lead it, unless it has no settings.
    """

    def __init__(self, folder: Path, service: IncomeService | None = None) -> None:
        self.folder: Final = folder
        self._service = service

    @property
    def service(self) -> IncomeService:
        """The service that its variables lead to."""
        assert self._service is not None
        return self._service

    def at(self, service: IncomeService) -> "Cli":
        """Return the same with the variables that lead to a service."""
        return Cli(self.folder, service)

    def __call__(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        stdout: int | Path | None = None,
        terminal: Terminal | None = None,
        piped: bool = False,
        during: Callable[[Running], object] | None = None,
    ) -> Ran:
        """Run it.

        Args:
            *arguments: what follows ``income-client``.
            env: variables besides those of the service; an empty one is not set.
            stdin: what is piped into it, or typed where there is a terminal; else nothing.
            stdout: descriptor or file of standard output, in place of a pipe or a terminal.
            terminal: what stands for a person's terminal; pipes unless given.
            piped: whether standard output is a pipe although there is a terminal.
            during: called in another thread while it runs; it must end by itself after that.
        """
        assert threading.current_thread() is threading.main_thread()
        variables = self._variables(env or {})
        with ExitStack() as stack:
            streams = stack.enter_context(_Streams(terminal, stdin, stdout, piped=piped))
            stack.enter_context(mock.patch.dict(os.environ, variables, clear=True))
            stack.enter_context(chdir(self.folder))
            stack.enter_context(_standard_logging())
            stack.enter_context(warnings.catch_warnings())
            stack.enter_context(_standard_signals())
            stack.enter_context(mock.patch.object(sys, "argv", ["income-client", *arguments]))
            stack.enter_context(_beside(streams, during))
            # A pipe that is not written to any more has an end; a terminal has none.
            if during is None and terminal is None:
                streams.end_input()
            status = _status_on(streams.descriptors, streams.running, variables)
        return Ran(
            status=status,
            stdout=streams.text_of(1),
            stderr=streams.text_of(2),
            screen=streams.text_of(0),
        )

    def _variables(self, more: Mapping[str, str]) -> dict[str, str]:
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        usual = {"PATH": os.environ.get("PATH", ""), "HOME": str(home), "TERM": "xterm-256color"}
        settings = {} if self._service is None else self._service.environment
        together = {**usual, "LANG": "C.UTF-8", **settings, **more}
        return {name: text for name, text in together.items() if text}


class _Streams:
    """Both ends of what the command reads and writes: pipes, and perhaps a terminal."""

    def __init__(
        self,
        terminal: Terminal | None,
        stdin: str | bytes | None,
        stdout: int | Path | None,
        *,
        piped: bool,
    ) -> None:
        self._outputs: dict[int, Output] = {}
        self._owned: list[int] = []
        self._keys: int | None = None
        if terminal is None:
            source, self._keys = os.pipe()
            self._owned.append(source)
            standard = [source, self._pipe(1), self._pipe(2)]
        else:
            person, device = terminal.open()
            self._owned.append(device)
            self._outputs[0] = Output(person)
            self._keys = os.dup(person)
            standard = [device, self._pipe(1) if piped else device, device]
        self.running: Final = Running(
            self._outputs.get(1) or self._outputs[0],
            self._outputs.get(2) or self._outputs[0],
            self._keys,
        )
        if isinstance(stdout, Path):
            stdout = os.open(stdout, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            self._owned.append(stdout)
        if stdout is not None:
            standard[1] = stdout
        self.descriptors: Final = tuple(standard)
        if stdin:
            content = stdin.encode() if isinstance(stdin, str) else stdin
            threading.Thread(target=_feed, args=(os.dup(self._keys), content), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end_input()
        for descriptor in self._owned:
            os.close(descriptor)
        for output in self._outputs.values():
            output.close()

    def end_input(self) -> None:
        """Have nothing more be written or typed."""
        if self._keys is not None:
            os.close(self._keys)
            self._keys = None

    def text_of(self, number: int) -> str:
        """Return what went to a stream; 0 is the terminal."""
        output = self._outputs.get(number)
        return output.text if output is not None else ""

    def _pipe(self, number: int) -> int:
        reading, writing = os.pipe()
        self._outputs[number] = Output(reading)
        self._owned.append(writing)
        return writing


@contextmanager
def closed_pipe() -> Iterator[int]:
    """Give the writing end of a pipe that nobody reads any more."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        yield writing
    finally:
        os.close(writing)


def _feed(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:  # the command has ended and wants no more
        pass
    finally:
        os.close(descriptor)


def _status_on(descriptors: tuple[int, ...], running: Running, variables: Mapping[str, str]) -> int:
    """Run the command on these descriptors, and return its status."""
    encoding = variables.get("PYTHONIOENCODING", "utf-8")
    with _standard_streams(descriptors, encoding) as out:
        try:
            main()
            status = 0
        except SystemExit as ended:
            status = _status_of(ended)
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            running.end()
        try:
            out.flush()
        except OSError:  # what the interpreter does when this fails at its end
            status = _EXIT_FLUSH_FAILED
            discard_rest()
        return int(status)


def _status_of(ended: SystemExit) -> int:
    if isinstance(ended.code, str):
        sys.stderr.write(f"{ended.code}\n")
        return 1
    return ended.code or 0


@contextmanager
def _standard_streams(descriptors: tuple[int, ...], encoding: str) -> Iterator[IO[Any]]:
    """Have descriptors 0 to 2, and the streams on them, be these for a while."""
    before = (sys.stdin, sys.stdout, sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(number) for number in range(3)]
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    streams = (
        open(0, encoding=encoding, closefd=False),  # noqa: SIM115 - closed below
        open(1, "w", encoding=encoding, closefd=False),  # noqa: SIM115
        open(2, "w", 1, encoding, "backslashreplace", closefd=False),  # noqa: SIM115
    )
    sys.stdin, sys.stdout, sys.stderr = streams
    try:
        yield streams[1]
    finally:
        for stream in streams:
            stream.close()
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)
        sys.stdin, sys.stdout, sys.stderr = before


@contextmanager
def _beside(streams: _Streams, work: Callable[[Running], object] | None) -> Iterator[None]:
    """Do something in another thread meanwhile; its error is raised once the command has ended."""
    errors: list[BaseException] = []
    if work is None:
        yield
        return

    def working() -> None:
        try:
            work(streams.running)
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)
            if not streams.running.has_ended:
                streams.running.interrupt()
        finally:
            streams.end_input()

    thread = threading.Thread(target=working, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(_PATIENCE)
        if errors:
            raise errors[0]


@contextmanager
def _standard_logging() -> Iterator[None]:
    """Have no handler but the command's own, and none of those afterwards."""
    root = logging.getLogger()
    before = {logger: (logger.handlers[:], logger.level) for logger in (root, *_package_loggers())}
    root.handlers = []
    try:
        yield
    finally:
        for logger in (root, *_package_loggers()):
            logger.handlers, level = before.get(logger, ([], logging.NOTSET))
            logger.setLevel(level)


def _package_loggers() -> list[logging.Logger]:
    """Return the package's loggers; those of a run may be made by it."""
    names = [name for name in logging.root.manager.loggerDict if name.startswith("income_client")]
    return [logging.getLogger(name) for name in ("income_client", *names)]


@contextmanager
def _standard_signals() -> Iterator[None]:
    before = [(number, signal.getsignal(number)) for number in (*_SIGNALS, _NUDGE)]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(_NUDGE, lambda *_: None)
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """The command in a folder of its own, with no settings."""
    return Cli(tmp_path)


@pytest.fixture
def shell(cli: Cli, income_service: IncomeService) -> Cli:
    """The command with the settings that lead to `income_service`."""
    return cli.at(income_service)


@pytest.fixture
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> JumpingClock:
    """Have the command's pauses, such as those between attempts, take no time."""
    clock = JumpingClock()
    monkeypatch.setattr(SystemClock, "monotonic", lambda _: clock.monotonic())
    monkeypatch.setattr(SystemClock, "sleep", lambda _, seconds: clock.sleep(seconds))
    return clock


def spelt(value: object) -> str | None:
    """Return arguments as the id of a test."""
    return " ".join(map(ascii, value)).replace("'", "") if isinstance(value, tuple) else None
