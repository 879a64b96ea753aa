"""What a poller reads: its events and its status agree on it, and so many are read at a time."""

import asyncio
import contextlib
import logging
from typing import Any

import pytest

from income_client import ApplicationRecord, Event, RecordDelivered
from tests.support.polling import rest, scene
from tests.support.service import NOW, HeldClock, collect, quiet


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
