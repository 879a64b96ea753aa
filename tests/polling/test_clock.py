"""A service whose clock is set back: what is updated afterwards is delivered all the same."""

import asyncio
import json

import pytest

from income_client import Poller
from income_client.emulator import Fault
from income_client.emulator.seconds import http_date, stamp
from tests.support.polling import NOW_TEXT, Scene, first, ids_of, rest, scene
from tests.support.service import until

HOUR = 3600


def run_ahead(place: Scene, seconds: int, replies: int) -> None:
    """Have the service tell a time that is ahead, and list nothing, for so many list calls."""
    ahead = place.service.now + seconds
    page = {
        "updated_after": "2026-06-30T11:59:59",
        "updated_before": stamp(ahead),
        "applications": [],
    }
    fault = Fault(
        "body",
        body=json.dumps(page).encode(),
        headers={"Date": http_date(ahead)},
        path="/v1/income/applications",
        times=replies,
    )
    place.service.faults.add(fault)


async def polled(poller: Poller, polls: int) -> "asyncio.Task[str | None]":
    """Let a poller poll so often, and return a task that waits for its first record."""

    async def next_id() -> str | None:
        record = await anext(poller, None)
        return None if record is None else record.application_id

    waiting = asyncio.create_task(next_id())
    await until(lambda: poller.status.polls >= polls)
    return waiting


@pytest.mark.parametrize("seconds", [HOUR, 365 * 24 * HOUR])
@pytest.mark.parametrize("start", [None, NOW_TEXT])
async def test_a_clock_that_is_set_back_is_followed(start: str | None, seconds: int) -> None:
    """Also where polling began with the present of the clock that was ahead."""
    async with scene() as place:
        run_ahead(place, seconds, replies=3)
        poller = place.poll(start=start)
        waiting = await polled(poller, 3)
        place.touch(3)
        assert await waiting == place.ids[3]
        updated = place.touch(4)
        assert ids_of(await first(poller, 1)) == updated


@pytest.mark.parametrize(("lookback", "found"), [(0, False), (HOUR, True)])
async def test_a_lookback_covers_a_clock_that_was_set_back_meanwhile(
    lookback: int, found: bool
) -> None:
    """What it is for: the poller was stopped, and the clock is where it was again by now."""
    async with scene() as place:
        run_ahead(place, HOUR, replies=1)
        poller = place.poll(settle=0)
        assert await rest(poller) == []
        place.service.advance(10)
        (updated,) = place.touch(3)
        place.service.advance(2 * HOUR)
        poller = place.poll(settle=0, lookback=lookback)
        assert ids_of(await rest(poller)) == [updated] * found
        assert await rest(place.poll(settle=0)) == []
