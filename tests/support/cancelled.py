"""A coroutine that is cancelled at its n-th await, whatever that waits for."""

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any


class CancelledAt:
    """Awaits a coroutine, and cancels it once, if it gets so far: awaits are counted from 0."""

    def __init__(self, work: Coroutine[Any, Any, Any], number: int) -> None:
        self._work = work
        self._number = number
        self.is_cancelled = False

    def __await__(self) -> Generator[Any, Any, Any]:
        seen = 0
        thrown: BaseException | None = None
        try:
            while True:
                waits = self._work.send(None) if thrown is None else self._work.throw(thrown)
                thrown = None
                seen += 1
                if seen == self._number + 1:
                    self.is_cancelled = True
                    if waits is not None:
                        waits.cancel()
                        yield  # what else waits for it hears of that first, as with a task
                    thrown = asyncio.CancelledError()
                    continue
                try:
                    yield waits
                except BaseException as error:  # noqa: BLE001 - it is the coroutine's
                    thrown = error
        except StopIteration as end:
            return end.value
