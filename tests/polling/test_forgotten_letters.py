"""Dead letters that somebody forgets while their poller runs, and what is reported of each."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from income_client import (
    CheckpointError,
    DeadLetter,
    DeadLettered,
    Event,
    IncomeClient,
    MemoryCheckpointStore,
    Poller,
)
from income_client.emulator import Emulator, Fault
from income_client.testing import JumpingClock
from tests.support.pollers import pages_of
from tests.support.polling import Scene, rest, scene
from tests.support.service import NOW, until

LONG = 100_000
"""Seconds after which every dead letter is due."""


class HookedStore(MemoryCheckpointStore):
    """Calls a hook once, before or after dead letters are read, and counts the calls."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.before: Callable[[], Awaitable[object]] | None = None
        self.after: Callable[[], Awaitable[object]] | None = None

    async def dead_letters(self, name: str) -> tuple[DeadLetter, ...]:
        """Return what is there between the two hooks."""
        self.reads += 1
        before, self.before = self.before, None
        if before is not None:
            await before()
        letters = await super().dead_letters(name)
        after, self.after = self.after, None
        if after is not None:
            await after()
        return letters


def lose(place: Scene, number: int) -> str:
    """Have the service say that an application is gone, and list it."""
    (lost,) = place.touch(number)
    path = f"/v1/income/applications/{lost}"
    place.service.faults.add(Fault("status", status=404, path=path, times=None))
    place.service.advance(10)
    return lost


def tries(place: Scene, lost: str) -> int:
    """Return how often an application was asked for."""
    return sum(request.path.endswith(lost) for request in place.service.requests)


async def poll_once(poller: Poller) -> None:
    """Have a poller that runs make one poll, which delivers nothing."""
    waiting = asyncio.create_task(anext(poller, None))
    done = poller.status.polls
    await until(lambda: poller.status.polls > done)
    waiting.cancel()
    await asyncio.wait([waiting])


async def test_a_forgotten_one_is_neither_tried_nor_shown_nor_stored_again() -> None:
    """Its poller runs all the time, gets no conflict, and keeps the other."""
    async with scene() as place:
        store = place.store = MemoryCheckpointStore()
        lost, kept = lose(place, 1), lose(place, 2)
        poller = place.poll()
        await poll_once(poller)
        assert poller.status.dead_letters == 2
        version = (await store.load("default")).version
        assert await store.forget("default", [f"application:{lost}"]) == (f"application:{lost}",)
        assert (await store.load("default")).version == version
        before = tries(place, lost), tries(place, kept)
        place.service.advance(LONG)
        await poll_once(poller)
        assert poller.status.dead_letters == 1
        assert tries(place, lost) == before[0]
        assert tries(place, kept) > before[1]
        assert await place.letters() == [kept]


async def test_one_that_is_forgotten_while_it_is_tried_does_not_come_back() -> None:
    """The store is asked again before a letter that it had is replaced."""
    async with scene() as place:
        store = place.store = HookedStore()
        lost = lose(place, 1)
        poller = place.poll()
        await poll_once(poller)
        before = tries(place, lost)
        store.after = lambda: store.forget("default", [f"application:{lost}"])
        place.service.advance(LONG)
        await poll_once(poller)
        assert tries(place, lost) > before
        assert await place.letters() == []
        assert poller.status.dead_letters == 0


@pytest.mark.parametrize("is_late", [False, True], ids=["before-the-poll", "during-the-poll"])
async def test_one_that_is_listed_again_is_a_new_one(is_late: bool) -> None:
    """It is never lost, also if the old one is forgotten while the new one is being read."""
    async with scene() as place:
        store = place.store = HookedStore()
        lost = lose(place, 1)
        poller = place.poll()
        await poll_once(poller)
        (old,) = await store.dead_letters("default")
        if is_late:
            store.after = lambda: store.forget("default", [old.key])
        else:
            await store.forget("default", [old.key])
        place.service.advance(100)
        lose(place, 1)
        await poll_once(poller)
        (new,) = await store.dead_letters("default")
        assert (new.key, new.attempts) == (old.key, old.attempts)
        assert new.first_tried_at > old.first_tried_at
        assert poller.status.dead_letters == 1
        assert lost in new.key


async def test_the_store_is_asked_for_letters_only_where_there_are_some() -> None:
    """A poll without dead letters costs no read; one with some costs one."""
    async with scene() as place:
        store = place.store = HookedStore()
        poller = place.poll()
        await poll_once(poller)
        reads = store.reads
        place.service.advance(100)
        await poll_once(poller)
        assert store.reads == reads
        lose(place, 1)
        await poll_once(poller)
        await poll_once(poller)
        assert store.reads == reads + 1


async def test_a_store_whose_letters_cannot_be_read_is_tried_again() -> None:
    """As where a save fails: with pauses, which the status shows."""
    async with scene() as place:
        store = place.store = HookedStore()
        lose(place, 1)
        poller = place.poll()
        await poll_once(poller)
        failures: list[int] = []

        async def fail() -> None:
            failures.append(poller.status.failures)
            if len(failures) < 3:
                store.before = fail
                raise CheckpointError("the store is away", retryable=True)

        store.before = fail
        await poll_once(poller)
        assert failures == [0, 1, 2]
        assert poller.status.failures == 0


async def test_a_second_that_is_forgotten_does_not_come_back() -> None:
    """Neither in the store nor among those that are shown as saturated."""
    async with scene([NOW - 500] * 25) as place:
        store = place.store = MemoryCheckpointStore()
        with pages_of(20):
            poller = place.poll(start="2026-06-30")
        async for _ in poller:
            if poller.status.records == 20:
                break
        await poll_once(poller)
        (letter,) = await store.dead_letters("default")
        await store.forget("default", [letter.key])
        place.service.advance(LONG)
        await poll_once(poller)
        assert (poller.status.dead_letters, poller.status.saturated) == (0, ())
        assert await place.letters() == []


async def test_a_report_says_whether_a_dead_letter_is_new(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A warning when it becomes one, and information each time that it is tried again in vain."""
    clock, events = JumpingClock(), list[Event]()
    caplog.set_level(logging.INFO, "income_client.poller")
    times = range(NOW - 1000, NOW - 980)
    async with (
        Emulator(times, clock=clock, time_flows=True) as service,
        IncomeClient(
            service.url, auth=service.basic, clock=clock, on_event=events.append
        ) as client,
    ):
        place = Scene(service, client)
        lost = lose(place, 1)
        await rest(place.poll())
        for _ in range(2):
            service.advance(LONG)
            await rest(place.poll())
    told = [
        (one.letter.application_id, one.is_new) for one in events if isinstance(one, DeadLettered)
    ]
    assert told == [(lost, True), (lost, False), (lost, False)]
    lines = [line for line in caplog.records if hasattr(line, "is_new")]
    assert [line.__dict__["is_new"] for line in lines] == [True, False, False]
    assert [line.levelno for line in lines] == [logging.WARNING, logging.INFO, logging.INFO]
    assert all(lost in line.getMessage() for line in lines)
    assert "became a dead letter" in lines[0].getMessage()
    assert "remains a dead letter" in lines[1].getMessage()


async def test_the_report_of_a_saturated_second_names_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By the service's time, and says what is wrong with it."""
    async with scene([NOW - 500] * 25) as place:
        with pages_of(20):
            poller = place.poll(start="2026-06-30")
        await rest(poller)
    (line,) = [line for line in caplog.records if hasattr(line, "is_new")]
    assert "2026-06-30T11:51:40" in line.getMessage()
    assert "more rows than one page holds" in line.getMessage()
    assert line.__dict__["second"] == "2026-06-30T11:51:40"
    assert line.__dict__["application_id"] is None
