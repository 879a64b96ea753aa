"""Waiting for work unless an event comes first: one of the two ends it, and no task is left."""

import asyncio
import contextlib
import gc
from typing import Any

import pytest

from income_client.waiting import unless


class Work:
    """Something to wait for, which tells how it ended."""

    def __init__(self) -> None:
        self.result: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.has_begun = asyncio.Event()
        self.was_cancelled = False

    async def __call__(self) -> str:
        """Wait for the result."""
        self.has_begun.set()
        try:
            return await self.result
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise


@contextlib.asynccontextmanager
async def nothing_left() -> Any:
    """See that no task is left, and that the loop has nothing to complain about."""
    complaints: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    before = asyncio.all_tasks()
    yield
    assert asyncio.all_tasks() == before
    assert complaints == []


async def test_the_result_comes_where_the_event_does_not() -> None:
    """Work that ends is all that is waited for."""
    async with nothing_left():
        work, event = Work(), asyncio.Event()
        work.result.set_result("done")
        assert await unless(event, work()) == "done"


async def test_the_event_cancels_the_work() -> None:
    """What was cancelled has ended when this returns."""
    async with nothing_left():
        work, event = Work(), asyncio.Event()
        waiting = asyncio.create_task(unless(event, work()))
        await work.has_begun.wait()
        event.set()
        assert await waiting is None
        assert work.was_cancelled


async def test_an_event_that_has_come_begins_no_work() -> None:
    """The work is closed, so that nobody is warned of a coroutine that never ran."""
    async with nothing_left():
        work, event = Work(), asyncio.Event()
        event.set()
        assert await unless(event, work()) is None
        assert not work.has_begun.is_set()


async def test_a_result_is_not_lost_to_an_event_of_the_same_turn() -> None:
    """Where both come together the result counts."""
    async with nothing_left():
        work, event = Work(), asyncio.Event()
        waiting = asyncio.create_task(unless(event, work()))
        await work.has_begun.wait()
        work.result.set_result("done")
        event.set()
        assert await waiting == "done"


async def test_an_exception_is_passed_on() -> None:
    """Work that fails, fails whoever waits for it."""
    async with nothing_left():
        work, event = Work(), asyncio.Event()
        work.result.set_exception(ValueError("failed"))
        with pytest.raises(ValueError, match="failed"):
            await unless(event, work())


async def test_work_that_cancels_itself_is_passed_on() -> None:
    """It is no result, and not taken for the event."""
    async with nothing_left():
        work, event = Work(), asyncio.Event()
        work.result.cancel()
        with pytest.raises(asyncio.CancelledError):
            await unless(event, work())


@pytest.mark.parametrize("turns", range(4))
async def test_a_cancellation_from_outside_ends_the_work_first(turns: int) -> None:
    """Whenever it comes, nothing runs on behind the back of whoever cancelled."""
    async with nothing_left():
        work, event = Work(), asyncio.Event()
        waiting = asyncio.create_task(unless(event, work()))
        for _ in range(turns + 1):
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert work.was_cancelled or not work.has_begun.is_set()


async def test_work_may_take_its_time_to_end() -> None:
    """Neither the event nor a cancellation returns before it has cleaned up."""
    async with nothing_left():
        cleaned: list[str] = []

        async def work(name: str) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                cleaned.append(name)

        event = asyncio.Event()
        waiting = asyncio.create_task(unless(event, work("event")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        event.set()
        await waiting
        assert cleaned == ["event"]
        waiting = asyncio.create_task(unless(asyncio.Event(), work("cancelled")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert cleaned == ["event", "cancelled"]


async def test_a_timeout_around_it_is_a_timeout() -> None:
    """Who cancels is told apart from what is cancelled within."""
    async with nothing_left():
        work = Work()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await unless(asyncio.Event(), work())
        current = asyncio.current_task()
        assert current is not None
        assert current.cancelling() == 0


async def test_work_that_fails_while_it_is_cancelled_leaves_no_complaint() -> None:
    """Nobody asks for that error any more, and the loop must not log it."""
    complaints: list[str] = []
    handle = asyncio.get_running_loop().set_exception_handler
    handle(lambda _, context: complaints.append(context["message"]))
    event, begun = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("in the cleanup") from None

    waiting = asyncio.create_task(unless(event, work()))
    await begun.wait()
    event.set()
    await waiting
    del waiting
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []
