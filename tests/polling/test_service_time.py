"""The time that a checkpoint goes by: the smaller of what the service says."""

import asyncio
import json

import pytest

from income_client import Event, IncomeClient, RequestAnswered, UnexpectedResponseError
from income_client.emulator import Fault
from income_client.emulator.times import http_date, stamp
from tests.support.polling import Scene, ids_of, reached, rest, scene
from tests.support.service import NOW, until

SETTLE = 5
DAY = 86_400
PATH = "/v1/income/applications"


def say(place: Scene, *, echo: int, date: str) -> None:
    """Have the next pages of the list be empty, and say these times."""
    page = {"updated_after": stamp(NOW - 1), "updated_before": stamp(echo), "applications": []}
    body = json.dumps(page).encode()
    place.service.faults.add(
        Fault("body", body=body, headers={"Date": date}, path=PATH, times=None)
    )


@pytest.mark.parametrize("now", [NOW + 60, NOW + 4_000])
async def test_a_poller_without_a_start_begins_settle_seconds_before_the_present(now: int) -> None:
    """What was written in those seconds may become visible later."""
    async with scene() as place:
        place.service.advance(now - NOW)
        assert await rest(place.poll(start=None, settle=SETTLE)) == []
        assert NOW + 55 <= now - SETTLE <= await reached(place) <= now - SETTLE + 5


async def test_what_becomes_visible_only_after_the_start_is_delivered() -> None:
    """It was written just before it, and the service takes a moment to list it."""
    async with scene(visibility_delay=3) as place:
        updated = place.touch(1)
        place.service.advance(1)
        poller = place.poll(start=None, settle=SETTLE)
        assert await rest(poller) == []
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
async def test_a_checkpoint_is_behind_echo_and_date(echo: int, date: str, now: int) -> None:
    """Neither a `Date` nor an echo that runs ahead moves it."""
    async with scene() as place:
        say(place, echo=echo, date=date)
        await rest(place.poll(settle=SETTLE))
        assert now - SETTLE - 1 <= await reached(place) <= now - SETTLE


async def test_what_was_updated_between_listing_and_reading_comes_once() -> None:
    """Also to the next process, and where the echo of a cut window is far behind the present."""
    times = [NOW - 3 * DAY, NOW - 2 * DAY]
    async with scene(times, max_span=6 * 3_600, span_clamp="before") as place:
        delivered: list[str] = []

        def update(event: Event) -> None:
            if not delivered and isinstance(event, RequestAnswered) and "list" in event.call:
                place.touch(0)

        url, auth, start = place.service.url, place.service.oauth2, stamp(times[0])
        async with IncomeClient(url, auth=auth, on_event=update) as client:
            poller = client.poll(place.store, start=start, documents=False)
            async for batch in poller.batches():
                async with batch:
                    delivered += ids_of(batch)
                if len(delivered) == len(place.ids):
                    break
        assert delivered == list(place.ids)
        assert ids_of(await rest(place.poll(start=start))) == []


async def test_a_service_without_any_time_is_an_error() -> None:
    """The end of the calendar is not the present, and there is no other clock to use."""
    async with scene() as place:
        say(place, echo=253_402_300_799, date="some day")
        with pytest.raises(UnexpectedResponseError, match="sends no time"):
            await rest(place.poll())
        assert await reached(place) == NOW


@pytest.mark.parametrize("offset", [-86_400, 500])
async def test_a_date_of_another_clock_costs_no_list_calls(offset: int) -> None:
    """The first poll still learns that the end of the list is the present."""
    async with scene(clock_offset=offset) as place:
        poller = place.poll()
        waiting = asyncio.create_task(anext(poller, None))
        await until(lambda: poller.status.polls >= 2)
        polls, calls = poller.status.polls, place.requests("list_applications")
        await until(lambda: poller.status.polls >= polls + 4)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert place.requests("list_applications") - calls <= poller.status.polls - polls + 1


async def test_a_clock_set_back_behind_the_start_is_followed_by_the_next_process() -> None:
    """A poller may begin, and end, in the hour before clocks are set back."""
    async with scene() as place:
        for second in (3_600, 3_660):
            say(place, echo=NOW + second, date=http_date(NOW + second))
            assert await rest(place.poll(start=None)) == []
            place.service.faults.clear()
        assert await reached(place) > NOW + 3_600
        place.service.advance(60)
        updated = place.touch(3)
        place.service.advance(60)
        assert updated[0] in ids_of(await rest(place.poll(start=None)))
