"""Waiting for work unless an event comes first: no result is lost, and no error is logged."""

import asyncio
import contextlib
import gc
from typing import Any

import pytest

from income_client.polling.schedule import run_unless_set


class Work:
    """Something to wait for, which tells when it has begun."""

    def __init__(self) -> None:
        self.result: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.has_begun = asyncio.Event()

    async def __call__(self) -> str:
        """Wait for the result."""
        self.has_begun.set()
        return await self.result


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


async def test_a_result_is_not_lost_to_an_event_of_the_same_turn() -> None:
    """Where both come together the result counts."""
    async with nothing_left():
        work, event = Work(), asyncio.Event()
        waiting = asyncio.create_task(run_unless_set(event, work()))
        await work.has_begun.wait()
        work.result.set_result("done")
        event.set()
        assert await waiting == "done"


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
        waiting = asyncio.create_task(run_unless_set(event, work("event")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        event.set()
        await waiting
        assert cleaned == ["event"]
        waiting = asyncio.create_task(run_unless_set(asyncio.Event(), work("cancelled")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert cleaned == ["event", "cancelled"]


async def test_work_that_fails_while_it_is_cancelled_leaves_no_complaint() -> None:
    """The error is no longer needed, and the loop must not log it."""
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

    waiting = asyncio.create_task(run_unless_set(event, work()))
    await begun.wait()
    event.set()
    await waiting
    del waiting
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []
