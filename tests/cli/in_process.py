"""The command run within the test's own process, by its own entry point."""

import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest
from attrs import frozen

from income_client import cli

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
