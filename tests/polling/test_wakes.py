"""Waking a poller: one poll that begins afterwards, and no other."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
from attrs import define

from income_client import Poller
from income_client.emulator import Fault
from tests.support.pollers import StandingClock
from tests.support.polling import Scene, scene
from tests.support.service import quiet, until

LIST: Final = "/v1/income/applications"
INTERVAL: Final = 600


@define
class Resting:
    """A poller between two polls, on a clock that a test moves."""

    place: Scene
    poller: Poller
    clock: StandingClock

    async def rest(self, polls: int) -> None:
        """Wait until so many polls have ended and the poller sleeps."""
        await until(lambda: self.poller.status.polls >= polls and self.clock.is_slept_on)
        await quiet(self.place.service)

    async def pass_time(self, seconds: int) -> None:
        """Move the clock second by second, and let the poller do what it wants in each."""
        for _ in range(seconds):
            self.clock.advance(1)
            await quiet(self.place.service)


@contextlib.asynccontextmanager
async def resting(**options: Any) -> AsyncIterator[Resting]:
    """Run a poller with a long interval until its first poll has ended."""
    clock = StandingClock()
    async with scene(clock=clock, time_flows=False) as place:
        poller = place.poll(interval=INTERVAL, **options)
        waiting = asyncio.create_task(anext(poller, None))
        one = Resting(place, poller, clock)
        try:
            await one.rest(1)
            yield one
        finally:
            poller.stop()
            await waiting


@pytest.mark.parametrize("times", [1, 5])
async def test_waking_while_it_waits_is_one_poll(times: int) -> None:
    """However often it is woken; nothing follows before the interval is over."""
    async with resting() as one:
        await one.pass_time(10)
        for _ in range(times):
            one.poller.wake()
        await one.rest(2)
        await one.pass_time(60)
        assert one.poller.status.polls == 2
        await one.pass_time(INTERVAL - 60)
        assert one.poller.status.polls == 3


async def test_waking_within_a_second_of_the_last_poll_is_one_poll() -> None:
    """A second after that one began."""
    async with resting() as one:
        one.poller.wake()
        await quiet(one.place.service)
        assert one.poller.status.polls == 1
        await one.pass_time(1)
        assert one.poller.status.polls == 2
        await one.pass_time(60)
        assert one.poller.status.polls == 2


async def test_waking_during_a_poll_is_one_more() -> None:
    """The poll under way may have listed too early; the one after it begins later."""
    async with resting() as one:
        await one.pass_time(10)
        asked = one.place.requests("list_applications")
        one.poller.wake()
        await until(lambda: one.place.requests("list_applications") > asked)
        assert one.poller.status.polls == 1
        for _ in range(3):
            one.poller.wake()
        await one.rest(2)
        assert one.poller.status.polls == 2
        await one.pass_time(1)
        assert one.poller.status.polls == 3
        await one.pass_time(60)
        assert one.poller.status.polls == 3


async def test_a_woken_poll_that_fails_is_made_up_for_by_one() -> None:
    """It is tried again until one has come to its end."""
    async with resting() as one:
        await one.pass_time(10)
        one.place.service.faults.add(Fault("status", status=400, path=LIST, times=4))
        one.poller.wake()
        await one.pass_time(60)
        assert one.poller.status.polls == 2
        assert not one.place.service.faults
        await one.pass_time(60)
        assert one.poller.status.polls == 2


async def test_what_it_is_woken_for_is_delivered_by_that_poll() -> None:
    """What was updated in the present second is listed as well."""
    async with resting() as one:
        await one.pass_time(10)
        (updated,) = one.place.touch(7)
        one.poller.wake()
        await until(lambda: one.poller.status.records == 1)
        assert one.place.requests("get_application") == 1
        assert updated in one.place.service.requests[-1].path
