"""Equal work: one at a time, and once more for all who ask meanwhile."""

import asyncio

import pytest

from income_client.receivers.shared_runs import SharedRuns


class Work:
    """Work that ends when it is let; its runs are numbered."""

    def __init__(self) -> None:
        self.begun = 0
        self.at_once = 0
        self.let = asyncio.Semaphore(0)

    async def __call__(self) -> int:
        """Do it."""
        self.begun += 1
        number = self.begun
        self.at_once += 1
        assert self.at_once == 1
        try:
            await self.let.acquire()
        finally:
            self.at_once -= 1
        return number


async def settle() -> None:
    """Let every task come as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_those_who_come_meanwhile_share_the_next_run() -> None:
    """So that each is served by a run that began after it had asked."""
    runs, work = SharedRuns(abandoned=-1), Work()
    first = asyncio.create_task(runs.run(b"a", work))
    await settle()
    later = [asyncio.create_task(runs.run(b"a", work)) for _ in range(5)]
    await settle()
    assert work.begun == 1
    work.let.release()
    work.let.release()
    assert await first == 1
    assert await asyncio.gather(*later) == [2] * 5
    assert len(runs) == 0


async def test_one_who_comes_during_the_second_run_gets_a_third() -> None:
    """The second began before."""
    runs, work = SharedRuns(abandoned=-1), Work()
    tasks = []
    for _ in range(3):
        tasks.append(asyncio.create_task(runs.run(b"a", work)))
        await settle()
        if len(tasks) == 2:
            work.let.release()
            await settle()
    work.let.release()
    work.let.release()
    assert await asyncio.gather(*tasks) == [1, 2, 3]


async def test_different_work_does_not_wait() -> None:
    """Each key has its own turn."""
    runs = SharedRuns(abandoned=-1)
    works = Work(), Work()
    tasks = [
        asyncio.create_task(runs.run(key, work))
        for key, work in zip((b"a", b"b"), works, strict=True)
    ]
    await settle()
    assert [work.begun for work in works] == [1, 1]
    for work in works:
        work.let.release()
    assert await asyncio.gather(*tasks) == [1, 1]


async def test_a_waiter_is_cancelled_alone() -> None:
    """Nobody who shares its run notices."""
    runs, work = SharedRuns(abandoned=-1), Work()
    tasks = [asyncio.create_task(runs.run(b"a", work)) for _ in range(4)]
    await settle()
    tasks[2].cancel()
    work.let.release()
    work.let.release()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results.pop(2), asyncio.CancelledError)
    assert results == [1, 2, 2]
    assert len(runs) == 0


@pytest.mark.parametrize("has_begun", [False, True])
async def test_who_shares_a_cancelled_run_is_told(has_begun: bool) -> None:
    """They have no outcome, and may ask again."""
    runs, work = SharedRuns(abandoned=-1), Work()
    tasks = [asyncio.create_task(runs.run(b"a", work)) for _ in range(3)]
    await settle()
    if has_begun:
        work.let.release()
        await settle()
    tasks[1].cancel()
    work.let.release()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert results[0] == 1
    assert isinstance(results[1], asyncio.CancelledError)
    assert results[2] == -1
    assert len(runs) == 0


async def test_an_error_is_its_runners_alone() -> None:
    """The others are told that there is no outcome."""
    runs = SharedRuns(abandoned=-1)

    async def fail() -> int:
        await asyncio.sleep(0)
        raise ValueError

    tasks = [asyncio.create_task(runs.run(b"a", fail)) for _ in range(3)]
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [ValueError, ValueError, int]
    assert len(runs) == 0
