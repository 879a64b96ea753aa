"""The command run within the test's own process, by its own entry point."""

import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, TextIO

import pytest
from attrs import frozen

from income_client import cli
from tests.cli.entry import Terminal

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_LOGGERS: Final = ("income_client", "income_client.receivers")


@frozen
class Ended:
    """What a command came to."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of its standard output."""
        return self.out.splitlines()


class Shell:
    """Runs command lines; the test's environment is theirs.

    Args:
        capfd: takes what they write.
        monkeypatch: sets variables and arguments for the test.
    """

    def __init__(self, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capfd = capfd
        self._monkeypatch = monkeypatch
        for name in [name for name in os.environ if name.startswith("INCOME_")]:
            monkeypatch.delenv(name)

    def __call__(self, *arguments: str, **variables: str) -> Ended:
        """Run one to its end."""
        for name, text in variables.items():
            self._monkeypatch.setenv(name, text)
        self._monkeypatch.setattr(sys, "argv", ["income-client", *arguments])
        self._capfd.readouterr()
        with _restored(), pytest.raises(SystemExit) as caught:
            cli.main()
        out, err = self._capfd.readouterr()
        return Ended(int(caught.value.code or 0), out, err)


@frozen
class Looked:
    """What a command came to before somebody at a terminal."""

    status: int
    screen: str
    """What the terminal showed."""
    piped: str
    """What its standard output got, where that was not the terminal."""


def looked_at(
    monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str], stdout: str, folder: Path
) -> Looked:
    """Run a command with standard error on a terminal.

    Args:
        monkeypatch: sets streams and arguments for the test.
        arguments: what follows the command's name.
        stdout: ``terminal``, ``file``, ``pipe``, ``socket`` or ``null``.
        folder: for the file.
    """
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "argv", ["income-client", *arguments])
    with ExitStack() as stack:
        terminal = stack.enter_context(Terminal())
        errors = stack.enter_context(os.fdopen(os.dup(terminal.device), "w", encoding="utf-8"))
        output, read = stack.enter_context(_output(stdout, folder, terminal.device))
        terminal.attend()
        monkeypatch.setattr(sys, "stderr", errors)
        monkeypatch.setattr(sys, "stdout", output)
        with _restored(), pytest.raises(SystemExit) as caught:
            cli.main()
        output.close()
        errors.close()
        piped = read()
        screen = terminal.close()
    return Looked(int(caught.value.code or 0), screen, piped)


@contextmanager
def _output(kind: str, folder: Path, terminal: int) -> Iterator[tuple[TextIO, Callable[[], str]]]:
    """Return a stream of a kind, and what reads what went to it."""
    read: Callable[[], str] = str
    with ExitStack() as stack:
        match kind:
            case "terminal":
                descriptor = os.dup(terminal)
            case "null":
                descriptor = os.open(os.devnull, os.O_WRONLY)
            case "file":
                path = folder / "stdout"
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
                read = path.read_text
            case "pipe":
                read_end, descriptor = os.pipe()
                read = stack.enter_context(os.fdopen(read_end, encoding="utf-8")).read
            case _:
                ours, theirs = socket.socketpair()
                descriptor = theirs.detach()
                read = stack.enter_context(os.fdopen(ours.detach(), encoding="utf-8")).read
        yield stack.enter_context(os.fdopen(descriptor, "w", encoding="utf-8")), read


@contextmanager
def _restored() -> Iterator[None]:
    """Undo what a command leaves behind, which ends with its process otherwise."""
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    heard = {name: logging.getLogger(name).handlers[:] for name in _LOGGERS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for name, found in heard.items():
            logging.getLogger(name).handlers[:] = found
