"""The time of the next poll: never late, never in a hurry while the service is down."""

import asyncio
import gc
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.errors import (
    AuthenticationError,
    IncomeClientError,
    RateLimitedError,
    ServerError,
)
from income_client.polling.schedule import Schedule, run_unless_set
from income_client.testing import JumpingClock

DAY = 86_400.0
FAILED = ServerError("failed")
chances = st.floats(0, 1)
intervals = st.floats(0.01, 100_000)


def schedule(interval: float = 30, chance: float = 0.0) -> Schedule:
    return Schedule(interval, JumpingClock(), lambda: chance)


def asking_for(seconds: float) -> IncomeClientError:
    return RateLimitedError("slow down", retry_after=seconds)


def polled(one: Schedule, now: float) -> None:
    one.begin_poll(now)
    one.succeed()


def test_what_was_missed_while_a_clock_went_back_counts_from_the_last_success() -> None:
    """Counting from the beginning, or from a failed poll, would cost a whole day."""
    one = schedule()
    assert one.seconds_since_success(5.0) is None
    one.begin_name(10.0)
    polled(one, 100.0)
    one.begin_poll(130.0)
    one.fail(131.0, FAILED, 1)
    assert one.seconds_since_success(160.0) == 60
    one.resume_name()
    assert one.seconds_since_success(160.0) is None


@given(intervals, chances, st.floats(0, 1e6))
def test_no_poll_is_later_than_the_interval(interval: float, chance: float, now: float) -> None:
    """The jitter makes it earlier, by a tenth at most, and counts from where the last began."""
    one = schedule(interval, chance=chance)
    polled(one, now)
    assert now + 0.9 * interval - 1e-6 <= one.next_poll_at <= now + interval


@pytest.mark.parametrize(("chance", "factor"), [(0.0, 0.5), (1.0, 1.0)])
@pytest.mark.parametrize(("interval", "longest"), [(1, 60), (30, 60), (3600, 3600)])
def test_pauses_double_up_to_the_longer_of_interval_and_minute(
    interval: float, longest: float, chance: float, factor: float
) -> None:
    """Pauses begin at a second, half of it random, so that the end of an outage is seen soon."""
    one = schedule(interval, chance=chance)
    for failures in [*range(1, 30), 10**9]:
        one.begin_poll(1000)
        one.fail(2000, FAILED, failures)
        assert (one.next_poll_at - 2000) / factor == min(longest, 2.0 ** min(failures - 1, 99))


@given(st.floats(0, 10 * DAY), st.booleans())
def test_the_service_is_left_alone_for_as_long_as_it_asks(seconds: float, is_woken: bool) -> None:
    """Neither the interval nor who wakes it cuts that short; fifteen minutes are the most."""
    one = schedule()
    one.begin_poll(100)
    one.fail(100, asking_for(seconds), 1)
    if is_woken:
        one.wake()
    assert one.next_poll_at >= 100 + min(seconds, 900)
    assert one.next_poll_at <= 100 + max(1.0, min(seconds, 900))


def test_waking_brings_the_next_poll_forward_to_a_second_from_now() -> None:
    """Before the first poll it changes nothing; a poll under way is followed by one more."""
    one = schedule(chance=1.0)
    one.wake()
    assert one.next_poll_at < -1e300
    one.begin_poll(100)
    one.wake()
    one.succeed()
    assert one.next_poll_at == 101
    polled(one, 101)
    assert one.next_poll_at == 128
    often = schedule(0.25)
    polled(often, 100)
    often.wake()
    assert often.next_poll_at == 100.25


def test_waking_cuts_only_a_pause_that_has_begun() -> None:
    """The caller may know that the service is back; before the failure nobody could."""
    one = schedule(chance=1.0)
    one.begin_poll(100)
    one.fail(101, FAILED, 9)
    assert one.next_poll_at == 161
    one.wake()
    assert one.next_poll_at == 102
    one.begin_poll(102)
    one.wake()
    one.fail(110, FAILED, 3)
    assert one.next_poll_at == 114
    one.begin_poll(114)
    assert one.is_urgent


@given(st.lists(st.tuples(st.floats(0, 3), st.booleans(), st.booleans()), min_size=2, max_size=40))
def test_however_often_it_is_woken_no_poll_follows_at_once(
    polls: list[tuple[float, bool, bool]],
) -> None:
    """A second lies between two, or a pause after a failure: callbacks are no flood of polls."""
    one = schedule(chance=0.0)
    now, begun, gaps = 50.0, [], []
    for lasting, is_failing, is_woken_within in polls:
        one.wake()
        now = max(now, one.next_poll_at)
        begun.append(now)
        gaps.append(0.5 if is_failing else 1.0)
        one.begin_poll(now)
        if is_woken_within:
            one.wake()
        now += lasting
        if is_failing:
            one.fail(now, FAILED, 1)
        else:
            one.succeed()
        one.wake()
    between = [later - earlier for earlier, later in pairwise(begun)]
    assert all(pause > gap - 1e-6 for pause, gap in zip(between, gaps, strict=False))


def test_the_failure_before_a_success_or_a_refusal_delays_no_poll() -> None:
    """Refused credentials end the poller after five minutes, in which they must have been tried."""
    one = schedule(chance=1.0)
    one.begin_poll(0)
    one.fail(0, asking_for(500), 9)
    polled(one, 500)
    assert one.next_poll_at == 527
    rare = schedule(36_000, chance=1.0)
    rare.begin_poll(0)
    rare.fail(0, AuthenticationError("401", status=401), 20)
    assert rare.next_poll_at == 60


def test_an_urgent_poll_that_failed_is_urgent_the_next_time() -> None:
    """The waker still waits for a poll, and the pauses keep growing."""
    one = schedule(chance=1.0)
    one.wake()
    for failures in range(1, 4):
        one.begin_poll(100)
        assert one.is_urgent
        one.fail(100, FAILED, failures)
        assert one.next_poll_at == 100 + 2 ** (failures - 1)
    polled(one, 200)
    assert one.is_urgent
    one.begin_poll(230)
    assert not one.is_urgent


def test_waking_after_failures_before_any_poll_began_is_no_hot_loop() -> None:
    """The store may fail before a poll begins, while callbacks come in."""
    one = schedule()
    now = 20.0
    for failures in range(1, 6):
        one.fail(now, FAILED, failures)
        one.wake()
        assert one.next_poll_at >= now + 1
        now = one.next_poll_at


@pytest.mark.parametrize("ending", ["result and event", "event", "cancellation", "error"])
async def test_work_ends_before_what_stops_it_goes_on(ending: str) -> None:
    """A result of the same turn counts; an error of the cleanup is needed by nobody."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, one: complaints.append(one))
    begun, event, cleaned = asyncio.Event(), asyncio.Event(), asyncio.Event()
    result: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def work() -> str:
        begun.set()
        try:
            return await result
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            cleaned.set()
            if ending == "error":
                raise ValueError("in the cleanup") from None
            raise

    waiting = asyncio.create_task(run_unless_set(event, work()))
    await begun.wait()
    if ending == "result and event":
        result.set_result("done")
    waiting.cancel() if ending == "cancellation" else event.set()
    await asyncio.wait([waiting])
    assert cleaned.is_set() == (ending != "result and event")
    assert waiting.cancelled() == (ending == "cancellation")
    if not waiting.cancelled():
        assert waiting.result() == ("done" if ending == "result and event" else None)
    del waiting
    gc.collect()
    await asyncio.sleep(0)
    assert (len(asyncio.all_tasks()), complaints) == (1, [])
