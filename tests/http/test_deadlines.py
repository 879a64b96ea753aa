"""Many limits share one timer, and each ends its own block only."""

import asyncio
import math
from collections.abc import Iterator
from contextlib import contextmanager

from income_client.http.retry import Deadline, Deadlines

SHORT = 0.02


@contextmanager
def begun(deadlines: Deadlines) -> Iterator[Deadline]:
    """Limit a block from its beginning."""
    with Deadline(deadlines) as deadline:
        deadlines.start(deadline)
        yield deadline


async def hang(deadlines: Deadlines) -> Deadline:
    """Wait for ever under a deadline."""
    with begun(deadlines) as deadline:
        await asyncio.get_running_loop().create_future()
    return deadline


async def test_a_block_that_ends_in_time_is_left_alone() -> None:
    """Nothing is cancelled, and nothing is watched any more."""
    deadlines = Deadlines(5)
    with begun(deadlines) as deadline:
        await asyncio.sleep(0)
    assert not deadline.has_passed
    assert not deadlines.running


async def test_a_cancellation_at_the_same_moment_continues() -> None:
    """A cancellation from outside has effect, even if the time is up as well."""

    async def both() -> None:
        with begun(Deadlines(5)) as deadline:
            asyncio.get_running_loop().call_soon(deadline.expire, math.inf)
            asyncio.get_running_loop().call_soon(task.cancel)
            await asyncio.get_running_loop().create_future()

    task = asyncio.create_task(both())
    await asyncio.wait((task,))
    assert task.cancelled()


async def test_the_inner_deadline_ends_the_inner_block_only() -> None:
    """Blocks may be nested."""
    with begun(Deadlines(5)) as outer:
        inner = await hang(Deadlines(SHORT))
        assert inner.has_passed
    assert not outer.has_passed


async def test_many_blocks_share_one_timer() -> None:
    """Blocks end in the order in which they began, those done in time are passed over."""
    deadlines = Deadlines(SHORT)
    ended: list[int] = []

    async def number(n: int) -> None:
        with begun(deadlines) as deadline:
            if n % 2:
                await asyncio.get_running_loop().create_future()
        if deadline.has_passed:
            ended.append(n)

    await asyncio.gather(*[number(n) for n in range(20)])
    assert ended == list(range(1, 20, 2))
    assert (await hang(deadlines)).has_passed


def test_a_second_loop_gets_a_timer_of_its_own() -> None:
    """A timer left behind in a loop that ended does not silence the next one."""
    deadlines = Deadlines(SHORT)

    async def brief() -> None:
        with begun(deadlines):
            await asyncio.sleep(0)

    asyncio.run(brief())
    assert asyncio.run(hang(deadlines)).has_passed
