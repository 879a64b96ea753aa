"""Coroutines run from tests that are not asynchronous; knows nothing of what they do."""

import asyncio
from collections.abc import AsyncIterable, Awaitable
from typing import Self, TypeVar, overload

from attrs import frozen

from income_client import ConfigurationError

T = TypeVar("T")


@frozen
class _Failure:
    error: Exception


async def _ended(work: Awaitable[T]) -> T | _Failure:
    try:
        return await work
    except Exception as error:  # noqa: BLE001 - raised again where the test called
        return _Failure(error)


async def _listed(work: AsyncIterable[T]) -> list[T]:
    return [one async for one in work]


class LoopRunner:
    """Runs one thing after the other in one event loop: ``income_run(client.get_...())``."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._runner.close()

    @overload
    def __call__(self, work: Awaitable[T]) -> T: ...

    @overload
    def __call__(self, work: AsyncIterable[T]) -> list[T]: ...

    def __call__(self, work: Awaitable[T] | AsyncIterable[T]) -> T | list[T]:
        """Run to its end what would be awaited or iterated over.

        Args:
            work: a coroutine, or an asynchronous iterable such as a walk.

        Returns:
            The result, or everything that came.

        Raises:
            ConfigurationError: a loop runs here already, or this is neither.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            if asyncio.iscoroutine(work):
                work.close()
            raise ConfigurationError("income_run is for synchronous tests; await this instead")
        if isinstance(work, Awaitable):
            return self._run(work)
        if isinstance(work, AsyncIterable):
            return self._run(_listed(work))
        raise ConfigurationError("income_run takes what can be awaited or asynchronously iterated")

    def _run(self, work: Awaitable[T]) -> T:
        outcome = self._runner.run(_ended(work))
        if not isinstance(outcome, _Failure):
            return outcome
        try:
            # From here it has no frames of asyncio, which a test's author need not read.
            raise outcome.error
        finally:
            del outcome
