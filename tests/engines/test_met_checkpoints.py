"""Kinds of checkpoints at a poller's start, and their consequences: the table of the guide.

The author, the time, the service and the account vary, in each of the package's stores.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import evolve, field, frozen

from income_client import (
    CheckpointConflictError,
    CheckpointError,
    CheckpointStore,
    IncomeClient,
    MemoryCheckpointStore,
    SQLiteCheckpointStore,
)
from income_client.engines.nats import NatsCheckpointStore
from income_client.engines.postgres import PostgresCheckpointStore
from income_client.polling.checkpoint import Checkpoint, read_checkpoint
from tests.support.nats_server import bucket, connected
from tests.support.polling import Scene, ids_of, rest, scene, take
from tests.support.service import NOW

Make = Callable[["History"], Awaitable[str | None]]
DAY: Final = 86_400


@frozen
class History:
    """A poller that has delivered an update, and then another one that it has not."""

    place: Scene
    beginning: Checkpoint
    """The checkpoint before the first update."""
    last: Checkpoint
    """The checkpoint after the first update."""

    async def walked(self) -> str:
        walk = self.place.client.list_applications("2026-01-01", "2026-02-01")
        assert [row async for row in walk] == []
        return walk.checkpoint

    async def of_other_account(self) -> str:
        service = self.place.service
        async with IncomeClient(service.url, auth=service.basic) as client:
            other = Scene(service, client, MemoryCheckpointStore())
            await other.store.save("default", self.last.text, version=0)
            poller = other.poll()
            assert ids_of(await rest(poller)) == [self.place.ids[2]]
            return await other.text()

    async def of_other_service(self) -> str:
        async with scene() as other:
            other.service.advance(self.last.reached - NOW + 5)
            assert await rest(other.poll()) == []
            return await other.text()


@frozen
class Met:
    """A checkpoint that is met, and what follows."""

    make: Make | None = None
    """Makes the text that the store holds; None for an empty store."""
    delivered: tuple[int, ...] = ()
    """Numbers of the updates that are delivered."""
    warning: str = ""
    error: str = ""
    options: Callable[[History], dict[str, Any]] = field(default=lambda _: {})
    """Further arguments of the poller."""


def stored(change: Callable[[History], str]) -> Make:
    """Have the store hold a text that a function makes of the history."""

    async def make(history: History) -> str:
        return change(history)

    return make


OWN: Final = stored(lambda history: history.last.text)
NOW_ON: Final[dict[str, Any]] = {"start": None}
TABLE: Final[dict[str, Met]] = {
    "its own": Met(OWN, (2,)),
    "none": Met(options=lambda _: NOW_ON),
    "none, where one must exist": Met(
        error="there is no checkpoint", options=lambda _: {"must_exist": True}
    ),
    "none, with the last one as start": Met(
        delivered=(2,),
        warning="as start= says",
        options=lambda history: {"start": history.last.text},
    ),
    "none under a changed name": Met(OWN, options=lambda _: {**NOW_ON, "name": "renamed"}),
    "an older one, from a backup": Met(stored(lambda history: history.beginning.text), (1, 2)),
    "an older one, with the last one as start": Met(
        stored(lambda history: history.beginning.text),
        (2,),
        options=lambda history: {"start": history.last.text},
    ),
    "a newer one than the start": Met(
        OWN,
        (2,),
        warning="given as start=",
        options=lambda history: {"start": history.beginning.text},
    ),
    "one of version 0.2.0": Met(
        stored(lambda history: evolve(history.last, holder=None, service=None).text), (2,)
    ),
    "a damaged one": Met(stored(lambda history: history.last.text[:-9] + '"}'), error="is damaged"),
    "one of a walk": Met(History.walked, error="is damaged"),
    "one with another filter": Met(
        stored(lambda history: evolve(history.last, filter_digest="other").text),
        error="another filter",
    ),
    "one ahead of the service": Met(
        stored(lambda history: evolve(history.last, reached=NOW + 9 * DAY).text),
        (2,),
        warning="clock is at least",
    ),
    "one of another account": Met(History.of_other_account, warning="another address or account"),
    "one of another service": Met(
        History.of_other_service, (2,), warning="another address or account"
    ),
}


@pytest.fixture(params=["memory", "sqlite", "postgres", "nats"])
async def empty(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[CheckpointStore]:
    """Return an empty store of each kind."""
    match request.param:
        case "memory":
            yield MemoryCheckpointStore()
        case "sqlite":
            yield SQLiteCheckpointStore(tmp_path / "polls.db")
        case "postgres":
            async with request.getfixturevalue("postgres").pool() as pool:
                store = PostgresCheckpointStore(pool)
                await store.create_schema()
                yield store
        case _:
            async with connected(request.getfixturevalue("nats_server")) as client:
                yield NatsCheckpointStore(await bucket(client))


async def history_of(place: Scene) -> History:
    """Deliver the update of one application, and leave that of another."""
    await rest(place.poll(start="2026-01-01"))
    beginning = read_checkpoint(await place.text())
    for number in (1, 2):
        place.service.advance(60)
        place.touch(number)
        place.service.advance(60)
        if number == 1:
            assert ids_of(await rest(place.poll())) == [place.ids[1]]
            last = read_checkpoint(await place.text())
    return History(place, beginning, last)


@pytest.mark.parametrize("kind", TABLE)
async def test_what_follows_from_a_checkpoint_that_is_met(
    kind: str, empty: CheckpointStore, caplog: pytest.LogCaptureFixture
) -> None:
    met = TABLE[kind]
    async with scene() as place:
        history = await history_of(place)
        if met.make is not None and (text := await met.make(history)) is not None:
            await empty.save("default", text, version=0)
        place.store = empty
        caplog.clear()
        poller = place.poll(**met.options(history))
        if met.error:
            before = await empty.load("default")
            with pytest.raises(CheckpointError, match=met.error) as caught:
                await rest(poller)
            assert not caught.value.retryable
            assert await empty.load("default") == before
        else:
            found = set(ids_of(await rest(poller)))
            assert found & {place.ids[1], place.ids[2]} == {place.ids[one] for one in met.delivered}
    warnings = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    said = met.warning or met.error
    assert len(warnings) == bool(said), warnings
    assert all(said in warning for warning in warnings)


async def test_a_checkpoint_that_two_pollers_share_belongs_to_the_newer(
    empty: CheckpointStore,
) -> None:
    """The older one cannot commit what it has, and the newer one delivers it."""
    async with scene() as place:
        place.store = empty
        place.touch(1)
        batch = await take(place.poll())
        assert ids_of(await rest(place.poll())) == ids_of(batch)
        with pytest.raises(CheckpointConflictError):
            await batch.commit()
