"""The time that a checkpoint goes by: the smaller of what the service says, wherever that jumps."""

import asyncio
from typing import Any

import pytest

from income_client import UnexpectedResponseError
from income_client.emulator.times import http_date
from tests.support.polling import NOW_TEXT, Scene, first, ids_of, reached, rest, scene
from tests.support.service import NOW, until

SETTLE = 5
HOUR = 3_600
DAY = 86_400


async def test_a_poller_without_a_start_begins_settle_seconds_before_the_present() -> None:
    """What was written in those seconds is delivered although it became visible later."""
    async with scene(visibility_delay=3) as place:
        place.service.advance(4_000)
        updated = place.touch(1)
        place.service.advance(1)
        assert await rest(place.poll(start=None, settle=SETTLE)) == []
        assert NOW + 4_001 - SETTLE <= await reached(place) <= NOW + 4_006 - SETTLE
        place.service.advance(10)
        assert ids_of(await rest(place.poll(start=None, settle=SETTLE))) == updated


@pytest.mark.parametrize(
    ("echo", "date", "now"),
    [
        (NOW + 100, http_date(NOW + 60), NOW + 60),
        (NOW + 60, http_date(NOW + 100), NOW + 60),
        (NOW + 60, "some day", NOW + 60),
    ],
    ids=["date-behind", "date-ahead", "no-date"],
)
async def test_a_checkpoint_is_behind_echo_and_date(
    place: Scene, echo: int, date: str, now: int
) -> None:
    """Neither a `Date` nor an echo that runs ahead moves it."""
    place.show(before=echo, headers={"Date": date}, times=None)
    await rest(place.poll(settle=SETTLE))
    assert now - SETTLE - 1 <= await reached(place) <= now - SETTLE


async def test_a_service_without_any_time_is_an_error(place: Scene) -> None:
    """The end of the calendar is not the present, and there is no other clock to use."""
    place.show(before=253_402_300_799, headers={"Date": "some day"}, times=None)
    with pytest.raises(UnexpectedResponseError, match="sends no time"):
        await rest(place.poll())
    assert await reached(place) == NOW


@pytest.mark.parametrize("offset", [-86_400, 0, 500])
async def test_steady_polls_take_one_list_call_each(offset: int) -> None:
    """And no other call, also where its `Date` is that of another clock."""
    async with scene(clock_offset=offset) as place:
        await rest(place.poll())
        poller = place.poll()
        waiting = asyncio.create_task(anext(poller, None))
        await until(lambda: poller.status.polls >= 2)
        polls, calls = poller.status.polls, len(place.service.requests)
        await until(lambda: poller.status.polls >= polls + 4)
        waiting.cancel()
        await asyncio.wait([waiting])
        asked = place.service.requests[calls:]
        assert len(asked) <= poller.status.polls - polls + 1
        assert {request.name for request in asked} == {"list_applications"}


def run_ahead(place: Scene, seconds: int, replies: int) -> None:
    """Make the service report a future time and list nothing, for a number of list calls."""
    ahead = place.service.now + seconds
    place.show(before=ahead, headers={"Date": http_date(ahead)}, times=replies)


@pytest.mark.parametrize(("start", "seconds"), [(None, HOUR), (NOW_TEXT, 365 * DAY)])
async def test_a_clock_that_is_set_back_is_followed(
    place: Scene, start: str | None, seconds: int
) -> None:
    """Even if polling began while it was ahead; the checkpoint stays there."""
    run_ahead(place, seconds, replies=3)
    poller = place.poll(start=start)
    waiting = asyncio.create_task(first(poller, 1))
    await until(lambda: poller.status.polls >= 3)
    updated = place.touch(3)
    assert ids_of(await waiting) == updated
    updated = place.touch(4)
    assert ids_of(await first(poller, 1)) == updated
    assert await rest(poller) == []
    updated = place.touch(5)
    assert ids_of(await first(place.poll(start=start), 1)) == updated
    assert await reached(place) > NOW + seconds - 100


@pytest.mark.parametrize(("lookback", "found"), [(0, False), (HOUR, True)])
async def test_a_lookback_covers_a_clock_that_was_set_back_meanwhile(
    place: Scene, lookback: int, found: bool
) -> None:
    """The clock was set back while the poller was stopped, and has caught up since."""
    run_ahead(place, HOUR, replies=1)
    assert await rest(place.poll(settle=0)) == []
    place.service.advance(10)
    (updated,) = place.touch(3)
    place.service.advance(2 * HOUR)
    poller = place.poll(settle=0, lookback=lookback)
    assert ids_of(await rest(poller)) == [updated] * found
    assert await rest(place.poll(settle=0)) == []


@pytest.mark.parametrize(
    "rules",
    [
        {"max_span": 1200, "span_clamp": "before", "future": "accept"},
        {"max_span": 600, "span_clamp": "after", "future": "clamp"},
        {"max_span": 4000, "span_clamp": "before", "future": "refuse"},
    ],
)
async def test_windows_that_are_cut_short_hold_nothing_up(rules: dict[str, Any]) -> None:
    """Each poll comes to the present, and not only to the end of the first window it is shown."""
    async with scene(range(NOW - 40, NOW - 20), **rules) as place:
        updated: list[str] = []
        for number in range(3):
            poller = place.poll(start=None, lookback=HOUR)
            assert set(updated) <= set(ids_of(await rest(poller)))
            assert place.service.now - await reached(place) <= 30
            place.service.advance(600)
            updated = place.touch(number)
