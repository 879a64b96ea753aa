"""The polling iterator on real sockets: what is delivered, and when it is committed."""

import asyncio
from typing import Any

import pytest

from income_client import (
    CheckpointConflictError,
    CheckpointError,
    ConfigurationError,
    SQLiteCheckpointStore,
    to_json,
)
from tests.support.polling import Scene, first, ids_of, reached, rest, scene, take
from tests.support.service import NOW, quiet, until


async def test_each_update_comes_once() -> None:
    """What changed is delivered with its documents, and again only when it changes again."""
    async with scene() as place:
        poller = place.poll(documents=True)
        updated = place.touch(3, 4)
        records = await first(poller, 2)
        assert sorted(ids_of(records)) == sorted(updated)
        assert all(record.documents is not None for record in records)
        again = place.touch(4)
        assert ids_of(await first(poller, 1)) == again
        assert await rest(poller) == []


async def test_two_updates_in_one_second_are_two_versions() -> None:
    """No time tells them apart; the content does."""
    async with scene(time_flows=False) as place:
        poller = place.poll()
        place.touch(3)
        place.service.advance(1)
        one = await first(poller, 1)
        place.service.world.advance_to(NOW + 1)
        place.service.world.touch(place.ids[3])
        place.service.advance(1)
        two = await first(poller, 1)
        assert ids_of(one) == ids_of(two)
        assert to_json(one[0]) != to_json(two[0])


async def test_a_batch_is_committed_when_its_consumer_comes_back() -> None:
    """Leaving the loop inside a batch leaves it uncommitted, and it comes again."""
    async with scene() as place:
        updated = place.touch(1, 2, 3)
        assert len(await first(place.poll(), 3)) == 3
        assert await reached(place) == NOW
        assert sorted(ids_of(await first(place.poll(), 3))) == sorted(updated)
        assert sorted(ids_of(await rest(place.poll()))) == sorted(updated)
        assert await reached(place) > NOW
        assert await rest(place.poll()) == []


async def test_the_further_checkpoint_counts() -> None:
    """A text of the caller's counts if it is further than the store, and not otherwise."""
    async with scene() as place:
        place.touch(1)
        batch = await take(place.poll())
        poller = place.poll(start=batch.checkpoint)
        place.touch(2)
        assert ids_of(await first(poller, 1)) == [place.ids[2]]
        await rest(place.poll())
        assert await rest(place.poll(start=batch.checkpoint)) == []


async def test_without_start_it_begins_at_the_present() -> None:
    """What was updated before is not delivered, and a restart does not skip anything."""
    async with scene() as place:
        assert await rest(place.poll(start=None)) == []
        updated = place.touch(5)
        assert ids_of(await first(place.poll(start=None), 1)) == updated


async def test_steady_polls_take_one_list_call_each() -> None:
    """And nothing else while nothing is updated."""
    async with scene() as place:
        await rest(place.poll())
        place.service.requests.clear()
        waiting = asyncio.create_task(anext(poller := place.poll()))
        await until(lambda: poller.status.polls == 5)
        asked = len(place.service.requests)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert asked in (5, 6)
        assert place.requests("list_applications") == len(place.service.requests)


async def test_a_newer_poller_takes_over() -> None:
    """The older one is told at its next commit, and overwrites nothing."""
    async with scene() as place:
        place.touch(1)
        older = place.poll()
        batch = await take(older)
        newer = place.poll()
        assert ids_of(await first(newer, 1)) == [place.ids[1]]
        before = await place.store.load("default")
        with pytest.raises(CheckpointConflictError):
            await batch.commit()
        with pytest.raises(CheckpointConflictError):
            await rest(older)
        assert await place.store.load("default") == before
        assert await rest(newer) == []


async def test_pollers_of_other_names_do_not_meet() -> None:
    """Each has its own place in the store."""
    async with scene() as place:
        updated = place.touch(1)
        one, two = place.poll(name="one"), place.poll(name="two")
        assert ids_of(await first(one, 1)) == ids_of(await first(two, 1)) == updated
        assert ids_of(await rest(one)) == []


async def test_a_damaged_checkpoint_is_no_fresh_start() -> None:
    """Neither the caller's nor the store's."""
    async with scene() as place:
        batch_text = (await take_text(place))[:-5] + '"}'
        with pytest.raises(CheckpointError):
            place.poll(start=batch_text)
        await place.store.save("spoilt", "{}", version=0)
        with pytest.raises(CheckpointError):
            await first(place.poll(name="spoilt"), 1)


async def take_text(place: Scene) -> str:
    """Return the checkpoint of a batch."""
    place.touch(1)
    return (await take(place.poll(name="other"))).checkpoint


@pytest.mark.parametrize(
    "options",
    [
        {"interval": 0},
        {"settle": -1},
        {"lookback": float("nan")},
        {"concurrency": 0},
        {"name": ""},
        {"start": "yesterday"},
        {"start": 17},
    ],
)
async def test_an_argument_that_cannot_be_meant_is_refused(options: dict[str, Any]) -> None:
    """Before anything is sent."""
    async with scene() as place:
        with pytest.raises(ConfigurationError):
            place.poll(**options)
        assert not place.service.requests


async def test_a_store_that_is_none_is_refused() -> None:
    """It is told at once, not at the first commit."""
    async with scene() as place:
        with pytest.raises(ConfigurationError):
            place.client.poll("store.db")  # type: ignore[arg-type]


async def test_one_consumer_at_a_time() -> None:
    """A second one would take what the first waits for."""
    async with scene() as place:
        poller = place.poll()
        waiting = asyncio.create_task(anext(poller))
        await asyncio.sleep(0)
        with pytest.raises(ConfigurationError):
            await anext(poller)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await quiet(place.service)


async def test_several_processes_worth_of_stores_share_a_file(tmp_path: Any) -> None:
    """What one store object has committed another one knows."""
    async with scene() as place:
        updated = place.touch(1, 2)
        place.store = SQLiteCheckpointStore(tmp_path / "polls.db")
        assert sorted(ids_of(await rest(place.poll()))) == sorted(updated)
        place.store = SQLiteCheckpointStore(tmp_path / "polls.db")
        assert await rest(place.poll()) == []


async def test_a_service_whose_time_stands_still_is_read_all_the_same() -> None:
    """What was updated in its present second is listed by the second poll in it."""
    async with scene(time_flows=False) as place:
        poller = place.poll()
        for number in (3, 4, 3):
            updated = place.touch(number)
            assert ids_of(await first(poller, 1)) == updated
