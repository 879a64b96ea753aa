"""What a poller reads: its events and its status agree on it, and so many are read at a time."""

import asyncio
import contextlib
import logging
from typing import Any

import pytest

from income_client import ApplicationRecord, Event, RecordDelivered
from income_client.testing import JumpingClock
from tests.support.pollers import StandingClock
from tests.support.polling import first, ids_of, rest, scene
from tests.support.service import NOW, HeldClock, collect, quiet, until


@pytest.mark.parametrize("way", ["records", "batches"])
async def test_a_redelivered_record_counts_again(way: str) -> None:
    """In the events as in the status, after each delivered record."""
    events, got = list[Event](), 0

    def told() -> list[str]:
        return [one.application_id for one in events if isinstance(one, RecordDelivered)]

    async with scene(on_event=events.append) as place:
        poller = place.poll(start="2026-06-30T11:00:00")
        if way == "records":
            async for _ in poller:
                got += 1
                assert poller.status.records == len(told()) == got
                if got == 15:
                    break
            got += len(await rest(poller))
        else:
            async for batch in poller.batches():
                got += len(batch)
                assert poller.status.records == len(told()) == got
                with contextlib.suppress(ValueError):
                    async with batch:
                        if got < 60:
                            raise ValueError
                    poller.stop()
        assert got == (20 if way == "records" else 60)
        assert poller.status.records == len(told()) == got
        assert set(told()) == set(place.ids)


async def test_what_is_read_again_is_counted() -> None:
    """Each poll reads all that was updated within settle and lookback, and counts it anew."""
    async with scene(time_flows=False) as place:
        poller = place.poll(settle=5, lookback=30)
        place.touch(1, 2)
        place.service.advance(4)
        assert len(await rest(poller)) == 2
        assert poller.status.unchanged == 0
        for seconds, unchanged in ((10, 2), (30, 2), (1, 0)):
            place.service.advance(seconds)
            poller = place.poll(settle=5, lookback=30)
            assert await rest(poller) == []
            assert poller.status.unchanged == unchanged
        poller = place.poll(settle=5, lookback=30)
        for number in range(8):
            updated = place.touch(number)
            assert ids_of(await first(poller, 1)) == updated
        assert await rest(poller) == []
        assert poller.status.unchanged in {7, 8}


async def test_the_last_poll_is_read_to_its_end_after_others_have_ended() -> None:
    clock = StandingClock()
    async with scene(30, batch_size=10, clock=clock) as place:
        poller, records = place.poll(), list[ApplicationRecord]()
        reading = asyncio.create_task(collect(poller, records))
        await until(lambda: poller.status.polls == 1 and clock.is_slept_on)
        updated = place.touch(*range(25))
        poller.stop(after_poll=True)
        while not reading.done():
            clock.advance(10)
            await asyncio.sleep(0)
        assert sorted(ids_of(records)) == sorted(updated)


async def test_a_costly_lookback_is_warned_of_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says for how many seconds each poll reads everything again."""

    def warnings() -> list[logging.LogRecord]:
        return [one for one in caplog.records if hasattr(one, "unchanged")]

    monkeypatch.setattr("income_client.polling.status._MANY_UNCHANGED", 10)
    async with scene(range(NOW - 12, NOW)) as place:
        options: dict[str, Any] = {"start": "2026-06-30T11:00:00", "lookback": 3600}
        place.service.advance(10)
        assert len(await rest(place.poll(**options))) == 12
        assert not warnings()
        poller = place.poll(**options)
        assert await rest(poller) == []
        assert poller.status.unchanged == 12
        (warning,) = warnings()
        assert vars(warning)["seconds"] == 3605
        assert "3605 seconds" in warning.getMessage()


async def test_a_block_that_fails_for_a_day_is_delivered_again_each_time() -> None:
    """The pause grows to a minute; of the errors, which may hold anything, the class is shown."""
    clock = JumpingClock()
    clock.most_sleeps = 10_000
    async with scene(clock=clock) as place:
        poller, failures = place.poll(), 0
        (updated,) = place.touch(1)
        async for batch in poller.batches():
            assert ids_of(batch) == [updated]
            assert poller.status.failures == failures
            with contextlib.suppress(ValueError):
                async with batch:
                    if failures < 1_100:
                        failures += 1
                        raise ValueError("S3CRET")
                poller.stop()
        assert failures == 1_100
        assert poller.status.failures == 0
        assert str(poller.status.last_error) == "the block of a batch has failed: ValueError"


@pytest.mark.parametrize(("concurrency", "documents"), [(1, True), (2, False), (5, True)])
async def test_a_poll_has_its_concurrency_in_flight(concurrency: int, documents: bool) -> None:
    """While replies are held back there are that many requests, and one more for each reply."""
    held = HeldClock()
    held.is_held = True
    async with scene(12, clock=held, latency=1) as place:
        poller = place.poll(
            start="2000-01-01", concurrency=concurrency, documents=documents, once=True
        )
        records: list[ApplicationRecord] = []
        polling = asyncio.create_task(collect(poller, records))
        service = place.service
        while await quiet(service) and service.requests[-1].name in ("token", "list_applications"):
            held.release()
        for _ in range(5):
            await quiet(service)
            assert service._in_flight == concurrency
            held.release()
        held.release_all()
        await polling
        assert service.max_in_flight == concurrency
        assert len(records) == 12
