"""The command line run in this process, on real descriptors: pipes, files, pseudo-terminals."""

import logging
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, chdir, contextmanager
from pathlib import Path
from traceback import walk_stack
from types import FrameType
from typing import IO, Any, Final, TypeVar
from unittest import mock

import pytest
from hypothesis import settings

from income_client.cli import main
from income_client.cli.output import discard_rest
from income_client.system.clock import SystemClock
from income_client.testing import IncomeService, JumpingClock
from tests.support.processes import Ran, Streams, Terminal, until

from .canaries import WATCH

__all__ = [
    "FULL",
    "Cli",
    "Running",
    "cli",
    "complaints",
    "few_runs",
    "shell",
    "spelt",
    "with_basic",
    "without_pauses",
]

Property = TypeVar("Property", bound=Callable[..., None])

_PATIENCE: Final = 20.0
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_NUDGE: Final = signal.SIGURG
_NUDGES: Final = 3
_NUDGE_SECONDS: Final = 0.02
_EXIT_FLUSH_FAILED: Final = 120
_FACTS: Final = re.compile(
    r"^income-client: ("
    r"'[a-z]+' is new in .+, begins at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    r"|--start is ignored: '[a-z]+' is known, and resumes where it was"
    r"|\d+ polls?, \d+ records?(, .+)?"
    r")\n",
    re.MULTILINE,
)
FULL: Final = Path("/dev/full")
"""A disk without room."""


class Running:
    """A command that runs in the main thread, for what a test does beside it in another one."""

    def __init__(self, streams: Streams) -> None:
        self._ended = threading.Event()
        self.stdout: Final = streams.stdout
        self.stderr: Final = streams.stderr
        self.write: Final = streams.write

    @property
    def has_ended(self) -> bool:
        """Whether the command has returned."""
        return self._ended.is_set()

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
        stderr: Path | None = None,
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
            stderr: file of standard error, likewise.
            terminal: what stands for a person's terminal; pipes unless given.
            piped: whether standard output is a pipe although there is a terminal.
            during: called in another thread while it runs; it must end by itself after that.
        """
        assert threading.current_thread() is threading.main_thread()
        variables = self._variables(env or {})
        with ExitStack() as stack:
            outputs = [_appending(one, stack) for one in (stdout, stderr)]
            streams = Streams(terminal, stdout=outputs[0], stderr=outputs[1], piped=piped)
            stack.callback(streams.ended, 0)
            if stdin:
                streams.feed(stdin.encode() if isinstance(stdin, str) else stdin)
            stack.enter_context(mock.patch.dict(os.environ, variables, clear=True))
            stack.enter_context(chdir(self.folder))
            stack.enter_context(_standard_logging())
            stack.enter_context(warnings.catch_warnings())
            stack.enter_context(_standard_signals())
            stack.enter_context(mock.patch.object(sys, "argv", ["income-client", *arguments]))
            running = Running(streams)
            stack.enter_context(_beside(streams, running, during))
            # A pipe that is not written to any more has an end; a terminal has none.
            if during is None and terminal is None:
                streams.end_input()
            status = _status_on(streams.descriptors, running, variables)
        ran = streams.ended(status)
        WATCH.look_at_command(arguments, ran.stdout, ran.stderr, ran.screen)
        return ran

    def _variables(self, more: Mapping[str, str]) -> dict[str, str]:
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        usual = {"PATH": os.environ.get("PATH", ""), "HOME": str(home), "TERM": "xterm-256color"}
        settings = {} if self._service is None else self._service.environment
        together = {**usual, "LANG": "C.UTF-8", **settings, **more}
        return {name: text for name, text in together.items() if text}


def _appending(output: int | Path | None, stack: ExitStack) -> int | None:
    """Return the descriptor of an output; a file is opened as a shell does for ``>>``."""
    if isinstance(output, Path):
        output = os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        stack.callback(os.close, output)
    return output


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
    """Replace descriptors 0 to 2, and the streams on them, for a block."""
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
def _beside(
    streams: Streams, running: Running, work: Callable[[Running], object] | None
) -> Iterator[None]:
    """Do something in another thread meanwhile; its error is raised once the command has ended."""
    errors: list[BaseException] = []
    if work is None:
        yield
        return

    def working() -> None:
        try:
            work(running)
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)
            if not running.has_ended:
                running.interrupt()
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
    """Remove all handlers but the command's own, and its own afterwards."""
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
    """Make the command's pauses, such as those between attempts, take no time."""
    clock = JumpingClock()
    monkeypatch.setattr(SystemClock, "monotonic", lambda _: clock.monotonic())
    monkeypatch.setattr(SystemClock, "sleep", lambda _, seconds: clock.sleep(seconds))
    return clock


def few_runs(test: Property) -> Property:
    """Draw only a third of the examples of a property that runs commands."""
    return settings(max_examples=settings().max_examples // 3)(test)


def with_basic(service: IncomeService, **instead: str) -> dict[str, str]:
    """Return the variables of Basic credentials in place of those of OAuth 2.0."""
    return {
        "INCOME_CLIENT_ID": "",
        "INCOME_CLIENT_SECRET": "",
        "INCOME_USERNAME": service.basic.username,
        "INCOME_PASSWORD": service.basic.password.reveal(),
        **instead,
    }


def complaints(ran: Ran) -> str:
    """Return what a poll has said on standard error, but for where it began and what it did."""
    return _FACTS.sub("", ran.stderr)


def spelt(value: object) -> str | None:
    """Return arguments as the id of a test."""
    return " ".join(map(ascii, value)).replace("'", "") if isinstance(value, tuple) else None


def when(has_come: Callable[[], object], action: str = "interrupt") -> Callable[[Running], None]:
    """Return what interrupts the command, or terminates it, once something holds."""

    def stop(running: Running) -> None:
        until(has_come)
        getattr(running, action)()

    return stop


def when_shown(*texts: str, action: str = "interrupt") -> Callable[[Running], None]:
    """Return what interrupts the command, or terminates it, once it has said these."""

    def stop(running: Running) -> None:
        for text in texts:
            running.stderr.wait_for(text)
        getattr(running, action)()

    return stop
