"""Asks a person for a secret, hidden; where nobody sits at a terminal it asks nobody."""

import getpass
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from income_client import Secret
from income_client.cli.output.printable import printable


def can_ask() -> bool:
    """Say whether somebody sees a question and can answer it."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def ask(what: str) -> Secret | None:
    """Ask for a secret on the terminal, without showing it.

    Args:
        what: what to ask for, in words.

    Returns:
        The answer; None if there was none, or if it could not be hidden.
    """
    try:
        with _interruptible(), warnings.catch_warnings():
            # Where it cannot be hidden, it is not asked for.
            warnings.simplefilter("error", getpass.GetPassWarning)
            answer = getpass.getpass(f"{printable(what)} (not shown): ")
    except (EOFError, OSError, UnicodeError, getpass.GetPassWarning):
        return None
    return Secret(answer) if answer else None


@contextmanager
def _interruptible() -> Iterator[None]:
    """Have Ctrl-C end the question: an event loop would take it, and wait for the answer."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
