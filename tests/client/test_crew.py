"""Rules of the tasks that belong to an iterator."""

import asyncio
import gc
from typing import Any

import pytest

from income_client.crew import Crew
from income_client.errors import ClientClosedError, ConfigurationError


async def forever() -> None:
    """Wait for what never comes."""
    await asyncio.get_running_loop().create_future()


async def fail() -> None:
    """Raise what no consumer may miss."""
    raise ValueError("invented")


async def turn() -> None:
    """Let what is ready run."""
    for _ in range(5):
        await asyncio.sleep(0)


def tasks_but_this() -> set["asyncio.Task[Any]"]:
    """Return the other tasks of the loop."""
    return asyncio.all_tasks() - {asyncio.current_task()}


async def test_tasks_are_taken_in_the_order_in_which_they_finish() -> None:
    """The key and the result of the task that finishes first come first."""
    crew: Crew[str] = Crew()
    loop = asyncio.get_running_loop()
    futures = {key: loop.create_future() for key in "abc"}

    async def wait_for(key: str) -> str:
        return str(await futures[key])

    for key in futures:
        crew.start(key, wait_for(key))
    taken = []
    for key in "cab":
        futures[key].set_result(key.upper())
        finished = await crew.next()
        taken.append((finished.key, finished.result, finished.error))
    assert taken == [("c", "C", None), ("a", "A", None), ("b", "B", None)]
    assert not crew


async def test_an_error_is_kept_for_whoever_takes_it() -> None:
    """The error of a task comes out as a value, in its turn."""
    crew: Crew[str] = Crew()
    crew.start("x", fail())
    await turn()
    assert crew.under_way == 0
    assert crew
    finished = await crew.next()
    assert isinstance(finished.error, ValueError)
    assert finished.result is None


async def test_a_task_cancelled_by_somebody_else_counts_as_finished() -> None:
    """A task that a stranger cancels leaves nobody waiting for it."""
    crew: Crew[str] = Crew()
    crew.start("x", forever())
    for task in tasks_but_this():
        task.cancel()
    finished = await crew.next()
    assert isinstance(finished.error, asyncio.CancelledError)


async def test_cancelling_ends_tasks_whose_keys_were_all_known() -> None:
    """Keys are those under way and those finished but not taken; afterwards there are none."""
    crew: Crew[str] = Crew()
    crew.start("under way", forever())
    crew.start("failed", fail())
    await turn()
    assert sorted(crew.keys) == ["failed", "under way"]
    await crew.cancel()
    assert not crew
    assert crew.keys == []
    assert tasks_but_this() == set()


async def test_keys_are_gone_before_cancelling_first_waits() -> None:
    """A second cancellation finds the crew empty, and its tasks ending."""
    crew: Crew[str] = Crew()
    crew.start("x", forever())
    await turn()
    ending = asyncio.create_task(crew.cancel())
    await asyncio.sleep(0)
    ending.cancel()
    await asyncio.wait([ending])
    assert not crew
    await turn()
    assert tasks_but_this() == set()


async def test_dropping_a_crew_ends_its_tasks() -> None:
    """Nothing but the crew itself keeps its tasks alive."""
    crew: Crew[str] = Crew()
    crew.start("x", forever())
    await turn()
    assert len(tasks_but_this()) == 1
    del crew
    await turn()
    assert tasks_but_this() == set()


async def test_dropping_a_crew_reports_no_error_as_unretrieved() -> None:
    """An error that nobody took is not the loop's business."""
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, what: told.append(what))
    crew: Crew[str] = Crew()
    crew.start("taken too late", fail())
    await turn()
    crew.start("fails after the drop", fail())
    del crew
    await turn()
    gc.collect()
    assert told == []


def test_dropping_a_crew_after_its_loop_harms_nobody() -> None:
    """A crew may outlive the loop of its tasks."""
    crews: list[Crew[str]] = []

    async def begin() -> None:
        crews.append(Crew())
        crews[0].start("x", forever())

    asyncio.run(begin())
    crews.clear()
    gc.collect()


async def test_a_cancelled_waiter_loses_no_result() -> None:
    """What finished while its waiter was cancelled is there for the next one."""
    crew: Crew[str] = Crew()
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work() -> str:
        await future
        return "done"

    crew.start("x", work())
    waiter = asyncio.create_task(crew.next())
    await turn()
    future.set_result(None)
    await asyncio.sleep(0)
    waiter.cancel()
    await asyncio.wait([waiter])
    assert waiter.cancelled()
    assert (await crew.next()).result == "done"


async def test_cancelling_sends_away_who_waits() -> None:
    """Somebody who waits while another closes gets an error instead of waiting for ever."""
    crew: Crew[str] = Crew()
    crew.start("x", forever())
    waiter = asyncio.create_task(crew.next())
    await turn()
    await crew.cancel()
    with pytest.raises(ClientClosedError):
        await waiter


async def test_a_second_consumer_is_refused_while_one_waits() -> None:
    """Two who wait for one result would leave one of them waiting for ever."""
    crew: Crew[str] = Crew()
    crew.start("x", forever())
    crew.check_is_free()
    waiter = asyncio.create_task(crew.next())
    await turn()
    with pytest.raises(ConfigurationError):
        crew.check_is_free()
    waiter.cancel()
    await asyncio.wait([waiter])
    crew.check_is_free()
    await crew.cancel()
