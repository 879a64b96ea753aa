"""An iterator over what a crew brings: one consumer, ended by whatever ends its loop.

Knows how iterations begin, fail and end; what is started and taken is said by
those who derive from it.
"""

import asyncio
from abc import ABC, abstractmethod
from typing import Any, Generic, Self, TypeVar

from attrs import frozen

from .concurrency import Crew
from .errors import ClientClosedError
from .sources import Source

K = TypeVar("K")
Y = TypeVar("Y")


@frozen
class Raised:
    """An error that ends the iteration, in place of a result."""

    error: BaseException
    """It."""


class CrewIterator(ABC, Generic[K, Y]):
    """Results of tasks that work through a source.

    Args:
        source: what they work through; closed together with this.
    """

    def __init__(self, source: Source[Any]) -> None:
        self._source = source
        self._crew: Crew[K] = Crew()
        self._is_closed = False
        self._was_cancelled = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Y:
        """Return the next result.

        Raises:
            IncomeClientError: a request failed for good, and failures are raised.
            ClientClosedError: an earlier call of this was cancelled, so that
                going on would leave something out; or it was closed meanwhile.
            ConfigurationError: somebody else waits for the next result already, or
                an item of the source cannot be meant.
        """
        self._crew.check_is_free()
        if self._was_cancelled:
            raise ClientClosedError("this iteration was cancelled; begin a new one")
        if self._is_closed:
            raise StopAsyncIteration
        try:
            result = await self._next()
        except BaseException as error:
            self._was_cancelled = isinstance(error, asyncio.CancelledError)
            await self.aclose()
            raise
        if result is None:
            await self.aclose()
            raise StopAsyncIteration
        if not isinstance(result, Raised):
            return result
        failure = result.error
        del result
        await self.aclose()
        try:
            raise failure
        finally:
            del failure

    async def aclose(self) -> None:
        """End what is under way and the source; again does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self._crew.cancel()
        finally:
            await self._source.aclose()

    @abstractmethod
    async def _next(self) -> Y | Raised | None:
        """Return the next result, the error to raise, or None at the end."""
