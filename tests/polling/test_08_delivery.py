"""Promise 8: every application's latest version is delivered, whatever crashes in between."""

import asyncio
import contextlib
import logging
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from income_client import (
    ApplicationRecord,
    CheckpointError,
    MemoryCheckpointStore,
    SQLiteCheckpointStore,
)
from income_client.events import CheckpointCreated, Event, RecordDelivered
from tests.support.clocks import ManualClock
from tests.support.polling import Scene, first, ids_of, reached, rest, scene, take
from tests.support.service import NOW, client_tasks, collect, quiet, until


async def test_each_update_comes_once() -> None:
    """Updates of one second differ by content, also where the service's clock is stuck."""
    async with scene(time_flows=False) as place:
        poller = place.poll(documents=True)
        updated = place.touch(3, 4)
        records = await first(poller, 2)
        assert sorted(ids_of(records)) == sorted(updated)
        assert all(record.documents is not None for record in records)
        for number in (4, 3, 4):
            updated = place.touch(number)
            assert ids_of(await first(poller, 1)) == updated
        assert await rest(poller) == []


async def test_a_batch_is_committed_when_the_next_record_is_requested(place: Scene) -> None:
    """A batch that its consumer leaves half-way stays uncommitted, and is delivered again."""
    updated = place.touch(1, 2, 3)
    assert len(await first(place.poll(), 3)) == 3
    assert await reached(place) == NOW
    assert sorted(ids_of(await first(place.poll(), 3))) == sorted(updated)
    assert sorted(ids_of(await rest(place.poll()))) == sorted(updated)
    assert await reached(place) > NOW
    assert await rest(place.poll()) == []


async def test_the_further_checkpoint_of_a_name_counts(place: Scene) -> None:
    updated = place.touch(1)
    batch = await take(place.poll())
    other = place.poll(name="other")
    assert ids_of(batch) == ids_of(await first(other, 1)) == updated
    assert await rest(other) == []
    poller = place.poll(start=batch.checkpoint)
    updated += place.touch(2)
    assert ids_of(await first(poller, 1)) == updated[1:]
    await rest(place.poll())
    assert await rest(place.poll(start=batch.checkpoint)) == []


async def test_a_start_behind_committed_batches_is_a_warning(
    place: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """The caller's database was restored, and lacks rows that the store counts as delivered."""
    place.touch(1)
    poller = place.poll()
    restored = await take(poller)
    [record] = await rest(place.poll())
    place.touch(2, 3)
    last = await take(place.poll())
    assert await rest(place.poll(start=last.checkpoint)) == []
    await rest(place.poll(start=last.checkpoint))
    await rest(place.poll(start="2026-01-01"))
    assert not said_of_start(caplog)
    assert await rest(place.poll(start=restored.checkpoint)) == []
    [message] = said_of_start(caplog)
    assert message.startswith("poller 'default': 1 batches were committed after the checkpoint")
    again = await rest(place.poll(name="anew", start=restored.checkpoint))
    assert sorted(ids_of(again)) == sorted([place.ids[2], place.ids[3]])
    assert record.application_id == place.ids[1]


def said_of_start(caplog: pytest.LogCaptureFixture) -> list[str]:
    messages = [record.getMessage() for record in caplog.records]
    return [message for message in messages if "given as start=" in message]


async def take_text(place: Scene) -> str:
    place.touch(1)
    return (await take(place.poll(name="other"))).checkpoint


async def test_a_damaged_checkpoint_is_an_error(place: Scene) -> None:
    damaged = (await take_text(place))[:-5] + '"}'
    with pytest.raises(CheckpointError):
        place.poll(start=damaged)
    await place.store.save("spoilt", "{}", version=0)
    with pytest.raises(CheckpointError):
        await first(place.poll(name="spoilt"), 1)


class Chatty(MemoryCheckpointStore):
    """A foreign store whose text holds a password."""

    def __repr__(self) -> str:
        return "Chatty('postgresql://me:S3CRET@db')"


async def test_a_new_beginning_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Name and time are an event and a line of the log, which shows no text of a foreign store."""
    caplog.set_level("INFO", "income_client.poller")
    events: list[Event] = []
    async with scene(on_event=events.append, time_flows=False) as place:
        place.store = SQLiteCheckpointStore(tmp_path / "polls.db")
        for name in ("default", "default", "defualt"):
            await rest(place.poll(name=name, start=None, settle=7))
        place.store = Chatty()
        await rest(place.poll(start="2026-06-01"))
    june = int(datetime(2026, 6, 1, tzinfo=UTC).timestamp())
    created = [event for event in events if isinstance(event, CheckpointCreated)]
    assert [(event.name, event.reached) for event in created] == [
        ("default", NOW - 7),
        ("defualt", NOW - 7),
        ("default", june),
    ]
    place_of_file = repr(SQLiteCheckpointStore(tmp_path / "polls.db"))
    assert [record.getMessage() for record in caplog.records] == [
        f"checkpoint 'default' is new in {place_of_file}, begins at 2026-06-30 11:59:53",
        f"checkpoint 'defualt' is new in {place_of_file}, begins at 2026-06-30 11:59:53",
        "checkpoint 'default' is new in Chatty, begins at 2026-06-01 00:00:00",
    ]
    facts = vars(caplog.records[-1])
    assert (facts["checkpoint"], facts["reached"]) == ("default", june)
    assert facts["store"] == "Chatty"


@pytest.mark.parametrize(
    ("start", "standby"), [(None, False), ("2026-06-30", True), ("a checkpoint", False)]
)
async def test_a_name_that_must_exist_does_not_begin_anew(
    place: Scene, start: Any, standby: bool
) -> None:
    """Without a checkpoint in the store it is an error, before anything is sent or stored."""
    place.store = Chatty()
    if start == "a checkpoint":
        start = await take_text(place)
    place.service.requests.clear()
    options = {"start": start, "standby": standby, "must_exist": True}
    with pytest.raises(CheckpointError, match=r"in Chatty: .*poll without must_exist") as caught:
        await rest(place.poll(**options))
    assert not caught.value.retryable
    assert len(place.service.requests) == 0
    assert (await place.store.load("default")).version == 0
    await rest(place.poll())
    updated = place.touch(5)
    assert ids_of(await rest(place.poll(**options))) == updated
    await until(lambda: client_tasks() == set())


@settings(max_examples=settings().max_examples * 2 // 3)
@given(
    turns=st.integers(1, 60) | st.integers(60, 300), is_file=st.booleans(), is_same=st.booleans()
)
async def test_cancelled_anywhere_it_resumes_without_loss(
    turns: int, *, is_file: bool, is_same: bool
) -> None:
    """After a cancellation at any await, the same or another poller delivers the rest."""
    with TemporaryDirectory() as folder:
        async with scene(10) as place:
            place.store = SQLiteCheckpointStore(Path(folder, "p.db")) if is_file else place.store
            updated = set(place.touch(1, 2, 3, 4))
            poller, records = place.poll(), list[ApplicationRecord]()
            task = asyncio.create_task(collect(poller, records))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            await quiet(place.service)
            assert {t for t in client_tasks() if "income_client" not in t.get_name()} == set()
            records += await rest(poller if is_same else place.poll())
            assert set(ids_of(records)) == updated
            assert await rest(place.poll()) == []


async def test_a_redelivered_record_counts_again() -> None:
    """Events and status count each delivered record."""
    delivered, got = list[str](), 0

    def hear(event: Event) -> None:
        if isinstance(event, RecordDelivered):
            delivered.append(event.application_id)

    async with scene(on_event=hear) as place:
        poller = place.poll(start="2026-06-30T11:00:00")
        async for _ in poller:
            got += 1
            assert poller.status.records == len(delivered) == got
            if got == 15:
                break
        async for batch in poller.batches():
            got += len(batch)
            assert poller.status.records == len(delivered) == got
            with contextlib.suppress(ValueError):
                async with batch:
                    if got < 55:
                        raise ValueError
                poller.stop()
        assert set(delivered) == set(place.ids)


async def test_a_costly_lookback_is_warned_of_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The warning says for how many seconds everything is read again."""

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
        assert vars(warning)["seconds"] == 3600
        assert "3600 seconds" in warning.getMessage()


@pytest.mark.parametrize(("concurrency", "documents"), [(1, True), (2, False), (5, True)])
async def test_a_poll_has_its_concurrency_in_flight(concurrency: int, documents: bool) -> None:
    """While replies are held back there are that many requests, and one more for each reply."""
    held = ManualClock()
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
