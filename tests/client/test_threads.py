"""Work in threads: it is waited for to its end, whoever goes away."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from income_client.threads import run_to_the_end


async def test_what_it_returns_or_raises_comes_back() -> None:
    """A thread is no different from a call."""
    assert await run_to_the_end(lambda: 5) == 5

    def fail() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        await run_to_the_end(fail)


async def test_cancelled_it_is_waited_for_and_told() -> None:
    """However often it is cancelled, the thread has ended when the cancellation comes through."""
    gate, asked = threading.Event(), []
    ended = []

    def work() -> None:
        gate.wait()
        ended.append(True)

    task = asyncio.create_task(run_to_the_end(work, lambda: asked.append(True)))
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]
    assert asked


async def test_cancelled_without_a_way_to_ask_it_is_waited_for() -> None:
    """Work that cannot end early ends as it would have."""
    gate, began = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    ended = []

    def work() -> None:
        loop.call_soon_threadsafe(began.set)
        gate.wait()
        ended.append(True)

    task = asyncio.create_task(run_to_the_end(work))
    await began.wait()
    task.cancel()
    await asyncio.sleep(0)
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]


async def test_it_runs_in_the_thread_it_is_given() -> None:
    """Work that others can hold up stays away from the threads of the event loop."""
    with ThreadPoolExecutor(1, "given") as executor:
        name = await run_to_the_end(lambda: threading.current_thread().name, executor=executor)
    assert name.startswith("given")
    assert not (await run_to_the_end(lambda: threading.current_thread().name)).startswith("given")
