"""Many limits share one timer, and each ends its own block only."""

import asyncio
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

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


async def test_a_block_that_takes_too_long_is_ended() -> None:
    """The block ends, the task does not, and its next wait is undisturbed."""
    deadline = await hang(Deadlines(SHORT))
    assert deadline.has_passed
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


async def test_a_cancellation_from_outside_continues() -> None:
    """Only the deadline's own cancellation ends with the block."""
    task = asyncio.create_task(hang(Deadlines(5)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


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


async def test_an_error_of_the_block_comes_out() -> None:
    """A deadline changes nothing about other exceptions."""
    deadlines = Deadlines(5)
    with pytest.raises(KeyError), begun(deadlines):
        raise KeyError
    assert not deadlines.running


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


async def test_a_deadline_can_begin_again() -> None:
    """Each renewal gives the whole time; once there is none, the block ends."""
    deadlines = Deadlines(SHORT)
    with begun(deadlines) as deadline:
        for _ in range(4):
            await asyncio.sleep(SHORT / 2)
            deadlines.start(deadline)
    assert not deadline.has_passed
    with begun(deadlines) as deadline:
        deadlines.start(deadline)
        await asyncio.get_running_loop().create_future()
    assert deadline.has_passed


async def test_what_came_while_the_loop_was_held_up_is_taken() -> None:
    """A block whose wait is over already is not ended, although its time is up."""
    loop = asyncio.get_running_loop()
    arrives: asyncio.Future[str] = loop.create_future()

    def hold_up() -> None:
        time.sleep(SHORT * 2)
        # It comes in the same turn of the loop in which the time is up, and before that.
        loop.call_soon(arrives.set_result, "it")

    with begun(Deadlines(SHORT)) as deadline:
        loop.call_soon(hold_up)
        assert await arrives == "it"
    assert not deadline.has_passed


async def test_the_time_of_a_block_begins_when_it_is_started() -> None:
    """Until then the block takes as long as it likes."""
    deadlines = Deadlines(SHORT)
    with Deadline(deadlines) as deadline:
        await asyncio.sleep(SHORT * 2)
        deadlines.start(deadline)
        await asyncio.get_running_loop().create_future()
    assert deadline.has_passed
