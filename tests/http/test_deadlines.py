"""Deadlines share one timer, and each ends its own block only; the pacer leaves even spaces."""

import asyncio
import math
from itertools import takewhile

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from income_client.http.deadlines import Deadlines
from income_client.http.retry import Pacer
from tests.support.clocks import pass_time
from tests.support.server import turns

SHORT = 0.02
TICK = 100.0
"""Seconds of the loop's time between two moments of a test, far more than it takes to run."""


class TimeIsUpError(Exception):
    """The error that the blocks of these tests raise."""


async def hang(deadlines: Deadlines) -> None:
    """Wait under a deadline until it ends the block."""
    with pytest.raises(TimeIsUpError), deadlines.limit(TimeIsUpError):
        await asyncio.get_running_loop().create_future()


async def test_a_cancellation_at_the_same_moment_continues() -> None:
    """A cancellation from outside has effect, even if the time is up as well."""

    async def both() -> None:
        with Deadlines(5).limit(TimeIsUpError) as deadline:
            asyncio.get_running_loop().call_soon(deadline.expire, math.inf)
            asyncio.get_running_loop().call_soon(task.cancel)
            await asyncio.get_running_loop().create_future()

    task = asyncio.create_task(both())
    await asyncio.wait((task,))
    assert task.cancelled()


async def test_the_inner_deadline_ends_the_inner_block_only() -> None:
    with Deadlines(5).limit(TimeIsUpError):
        await hang(Deadlines(SHORT))
        await asyncio.sleep(0)


async def test_the_time_of_a_block_may_start_later() -> None:
    deadlines = Deadlines(TICK)

    async def start_late() -> None:
        with deadlines.limit(TimeIsUpError, starts=False) as deadline:
            pass_time(2 * TICK)
            await asyncio.sleep(0)
            assert not deadlines.running
            deadlines.start(deadline)
            pass_time(TICK)
            await asyncio.get_running_loop().create_future()

    with pytest.raises(TimeIsUpError):
        await start_late()


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.lists(st.sampled_from([1, 3, 5, 9]), max_size=4)),
        min_size=2,
        max_size=6,
    )
)
@example([(0, [9]), (1, [9]), (1, [9])])
@example([(0, [9]), (1, [1]), (1, [3, 3, 9])])
async def test_each_block_ends_at_its_own_time(blocks: list[tuple[int, list[int]]]) -> None:
    """Blocks begin one after the other, some end early, some start their time again."""
    limit, now = 4, 0
    deadlines = Deadlines(limit * TICK)
    ended: dict[int, tuple[int, bool]] = {}

    async def block(number: int, begins_at: int, pauses: list[int]) -> None:
        await asyncio.sleep(begins_at * TICK)
        has_passed = False
        try:
            with deadlines.limit(TimeIsUpError) as deadline:
                for pause in pauses:
                    await asyncio.sleep(pause * TICK)
                    deadlines.start(deadline)
        except TimeIsUpError:
            has_passed = True
        ended[number] = (now, has_passed)

    expected: dict[int, tuple[int, bool]] = {}
    tasks, begins_at = [], 0
    for number, (gap, pauses) in enumerate(blocks):
        begins_at += gap
        tasks.append(asyncio.create_task(block(number, begins_at, pauses)))
        quick = list(takewhile(lambda pause: pause < limit, pauses))
        has_passed = len(quick) < len(pauses)
        expected[number] = (begins_at + sum(quick) + has_passed * limit, has_passed)
    for now in range(60):  # noqa: B007 - the blocks read it
        await turns(10)
        pass_time(TICK)
    await asyncio.gather(*tasks)
    assert ended == expected
    assert not deadlines.running


@pytest.mark.parametrize("starts_again", [False, True])
async def test_a_block_that_came_on_just_in_time_is_not_ended(starts_again: bool) -> None:
    """A loop that was held up finds the awaited and the limit at once: the first one counts."""
    deadlines = Deadlines(TICK)
    came = asyncio.Event()
    asyncio.get_running_loop().call_later(TICK / 2, came.set)

    async def work() -> None:
        with deadlines.limit(TimeIsUpError) as deadline:
            await came.wait()
            if starts_again:
                deadlines.start(deadline)
                await asyncio.sleep(TICK / 2)
        await asyncio.sleep(TICK)

    task = asyncio.create_task(work())
    for _ in range(4):
        await turns(5)
        pass_time(TICK)
    await task


def test_a_second_loop_gets_a_timer_of_its_own() -> None:
    """A timer left behind in a loop that ended does not silence the next one."""
    deadlines = Deadlines(SHORT)

    async def brief() -> None:
        with deadlines.limit(TimeIsUpError):
            await asyncio.sleep(0)

    asyncio.run(brief())
    asyncio.run(hang(deadlines))


# The pacer, whoever leaves the line or is late


def test_calls_that_go_ahead_keep_their_own_order() -> None:
    """A second one is behind the first, and before all others, also when one has left."""
    pacer = Pacer(rate=1)
    for name in ("gone", *"ab"):
        pacer.join(name)
    pacer.leave("gone")
    assert pacer.turn_of("a", 0) == 0
    for name in "xy":
        pacer.join(name, ahead=True)
    for leaving, joining, line in (("", "", "xyab"), ("x", "z", "yzab"), ("a", "w", "yzwb")):
        if leaving:
            pacer.leave(leaving)
            pacer.join(joining, ahead=True)
        assert [pacer.turn_of(name, 0) for name in line] == [0, 1, 2, 3]


@pytest.mark.parametrize(("late", "next_turn"), [(0.05, 1.0), (7.0, 7.9)])
def test_a_late_timer_does_not_slow_down_the_line(late: float, next_turn: float) -> None:
    """A delay of a busy loop is made up for, a longer one is not: that would be a burst."""
    pacer = Pacer(rate=1)
    pacer.join("first")
    pacer.join("second")
    pacer.take_turn(0, now=late)
    pacer.leave("first")
    assert pacer.turn_of("second", 0) == pytest.approx(next_turn)
