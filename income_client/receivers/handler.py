"""What a receiver's user does about a callback: may it be called, and how did it fail."""

import inspect
import traceback
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from income_client.errors import ConfigurationError
from income_client.records.callbacks import Callback

OnCallback: TypeAlias = Callable[[Callback], Awaitable[Any] | Any]
"""What is done about a callback; a poller's ``wake``, for one."""


def check_handler(on_callback: object) -> None:
    """Refuse what cannot be called with a callback, and so would fail at each of them.

    Raises:
        ConfigurationError: it cannot.
    """
    if not callable(on_callback) or inspect.isasyncgenfunction(on_callback):
        raise ConfigurationError("on_callback is no function, or one that yields")
    try:
        signature = inspect.signature(on_callback)
    except ValueError:  # some that are built in do not tell
        return
    takes_one = True
    try:
        signature.bind(None)
    except TypeError:
        takes_one = False
    if not takes_one:
        raise ConfigurationError("on_callback does not take its one argument, the Callback")


def failure_of(error: BaseException) -> str:
    """Return which error it is and where it was raised, and nothing that it says.

    Its text and its frames may hold what the payload held.
    """
    where = traceback.extract_tb(error.__traceback__, limit=-1)
    place = f" in {where[-1].filename}:{where[-1].lineno}" if where else ""
    return f"{type(error).__name__}{place}"
