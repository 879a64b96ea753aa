"""Asynchronous servers that run beside a test which is not asynchronous."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Final, TypeVar

from anyio.from_thread import start_blocking_portal

T = TypeVar("T")

_PATIENCE: Final = 20.0


@contextmanager
def beside(server: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Enter an asynchronous context manager in an event loop of another thread."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(server) as value:
        yield value


def until(condition: Callable[[], object]) -> None:
    """Wait until something holds that another thread or process brings about."""
    waiting = threading.Event()
    for _ in range(round(_PATIENCE / 0.005)):
        if condition():
            return
        waiting.wait(0.005)
    raise AssertionError("nothing came of it")
