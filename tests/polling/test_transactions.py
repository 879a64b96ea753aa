"""Batches that are committed in a database transaction with the consumer's own rows."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from attrs import define, evolve, field

from income_client import (
    CheckpointConflictError,
    CheckpointError,
    CheckpointStore,
    ConfigurationError,
    MemoryCheckpointStore,
    StoredCheckpoint,
)
from income_client.polling.checkpoint import read_checkpoint
from income_client.polling.foreign_store import ForeignStore
from income_client.polling.lease import Lease
from income_client.system.clock import SystemClock
from tests.support.polling import Scene, rest, scene, take


@define
class Connection:
    """A connection to a database of rows, whose commits can fail."""

    rows: list[str] = field(factory=list)
    fails: str | None = None
    late: "tuple[list[str], _Bound] | None" = None
    """Content of a commit that has not reached the database yet."""

    def fail(self, when: str) -> None:
        """Lose the connection ``before``, ``after`` or ``during`` the commit, if asked to."""
        if self.fails == when:
            self.fails = None
            raise ConnectionError("connection lost")


class DatabaseStore(MemoryCheckpointStore):
    """A store whose transactions commit rows and a checkpoint together, or neither."""

    def __init__(self) -> None:
        super().__init__()
        self.limits: list[float] = []
        self.loses_reply = False

    async def save(self, name: str, checkpoint: str, **changes: Any) -> int:
        version = await super().save(name, checkpoint, **changes)
        if self.loses_reply:
            self.loses_reply = False
            raise CheckpointError("no answer", retryable=True)
        return version

    @asynccontextmanager
    async def transaction(self, connection: Connection) -> AsyncIterator[CheckpointStore]:
        """Keep what is written until the end, and drop it if the block fails."""
        if connection.late is not None:
            (connection.rows[:], late), connection.late = connection.late, None
            await self._commit(late)
        bound = _Bound(self)
        before = [*connection.rows]
        try:
            yield bound
            if connection.fails == "during":
                connection.late = [*connection.rows], bound
            connection.fail("before")
            connection.fail("during")
        except BaseException:
            connection.rows[:] = before
            raise
        await self._commit(bound)
        connection.fail("after")

    async def _commit(self, bound: "_Bound") -> None:
        if bound.change is not None:
            await self.save(**bound.change)


class _Bound(MemoryCheckpointStore):
    def __init__(self, store: DatabaseStore) -> None:
        super().__init__()
        self._store = store
        self.change: dict[str, Any] | None = None

    async def end_when_idle(self, seconds: float) -> None:
        self._store.limits.append(seconds)

    async def save(self, name: str, checkpoint: str, **changes: Any) -> int:
        stored = await self._store.load(name)
        if stored.version != changes["version"]:
            raise CheckpointConflictError("another poller has taken over")
        self.change = {"name": name, "checkpoint": checkpoint} | changes
        return stored.version + 1


@pytest.fixture
async def place() -> AsyncIterator[Scene]:
    """Run a service whose poller keeps its checkpoints with the rows of a database."""
    async with scene(15, batch_size=10) as place:
        place.store = DatabaseStore()
        yield place


@pytest.fixture
def connection() -> Connection:
    return Connection()


async def write(batch: Any, connection: Connection, error: Exception | None = None) -> None:
    async with batch.transaction(connection):
        connection.rows.extend(record.application_id for record in batch)
        if error is not None:
            raise error


@pytest.mark.parametrize(
    "faults",
    [
        *([one] * 3 for one in (None, "before", "after", "during")),
        ["during", "before", "after"],
        ["after", "during", "before"],
    ],
)
async def test_each_update_takes_effect_once(
    place: Scene, connection: Connection, faults: list[str | None]
) -> None:
    """Also where the connection is lost at the commit, which may be made, now or later."""
    poller = place.poll()
    for numbers, fails in zip(((1, 2), (3,), (4, 5)), faults, strict=True):
        place.touch(*numbers)
        connection.fails = fails
        poller.wake()
        async for batch in poller.batches():
            try:
                await write(batch, connection)
            except ConnectionError:
                continue
            break
    assert await rest(poller) == []
    assert sorted(connection.rows) == sorted(place.ids[number] for number in range(1, 6))


async def test_a_block_that_fails_writes_nothing_and_gets_its_batch_again(
    place: Scene, connection: Connection
) -> None:
    """Rows and checkpoint are one."""
    poller = place.poll()
    place.touch(1)
    batch = await take(poller)
    before = await place.store.load("default")
    with pytest.raises(ZeroDivisionError):
        async with batch:
            await write(batch, connection, error=ZeroDivisionError())
    assert poller.status.failures == 1
    assert (connection.rows, await place.store.load("default")) == ([], before)
    again = await take(poller)
    assert again.records == batch.records
    await write(again, connection)
    assert connection.rows == [place.ids[1]]
    with pytest.raises(ConfigurationError, match="committed already"):
        await write(again, connection)


async def test_a_commit_whose_fate_is_learnt_later_is_not_repeated(
    place: Scene, connection: Connection
) -> None:
    """The reply to it is lost, and so is the answer to the question whether it was made."""

    class SilentStore(DatabaseStore):
        is_silent = False

        async def load(self, name: str) -> StoredCheckpoint:
            if self.is_silent:
                self.is_silent = False
                raise CheckpointError("no answer", retryable=True)
            return await super().load(name)

        async def _commit(self, bound: _Bound) -> None:
            await super()._commit(bound)
            self.is_silent = True

    place.store = SilentStore()
    updated = place.touch(*range(5))
    poller = place.poll()
    batches = poller.batches()
    batch = await anext(batches)
    connection.fails = "after"
    with pytest.raises(ConnectionError):
        await write(batch, connection)
    poller.stop(after_poll=True)
    assert [len(one) async for one in batches] == []
    assert sorted(connection.rows) == sorted(updated)


async def test_a_batch_is_not_committed_within_its_own_transaction(
    place: Scene, connection: Connection
) -> None:
    """If the transaction failed after such a commit, its rows would be lost."""
    poller = place.poll()
    place.touch(1)

    async def commit_within(batch: Any, *, again: bool) -> None:
        async with batch.transaction(connection):
            await (write(batch, connection) if again else batch.commit())

    for again in (False, True):
        with pytest.raises(ConfigurationError, match="end of its transaction"):
            await commit_within(await take(poller), again=again)
        assert connection.rows == []
    await write(await take(poller), connection)
    assert connection.rows == [place.ids[1]]


async def test_a_transaction_that_cannot_be_made_writes_no_rows(
    place: Scene, connection: Connection
) -> None:
    """Neither of a poller that was replaced, nor with a store that has none."""
    poller = place.poll()
    place.touch(1)
    batch = await take(poller)
    await take(place.poll())
    with pytest.raises(CheckpointConflictError):
        await write(batch, connection)
    place.store = MemoryCheckpointStore()
    with pytest.raises(ConfigurationError, match="transaction"):
        await write(await take(place.poll()), connection)
    assert connection.rows == []


async def test_a_transaction_after_a_save_whose_reply_was_lost_is_not_refused(
    connection: Connection,
) -> None:
    """The store is asked first: a refusal would undo what the block has written."""
    store = DatabaseStore()
    lease = Lease(ForeignStore(store, "default"), SystemClock(), 15.0)
    began, _ = await lease.acquire(None, _now)
    store.loses_reply = True
    with pytest.raises(CheckpointError):
        await lease.fence.save(evolve(began, reached=103))
    async with lease.fence.saving_with(connection, evolve(began, reached=105), tuple):
        connection.rows.append("app-1")
    assert read_checkpoint((await store.load("default")).checkpoint).reached == 105
    assert connection.rows == ["app-1"]
    await lease.release()


async def _now() -> int:
    return 100


async def test_batches_are_committed_in_order(place: Scene, connection: Connection) -> None:
    """A transaction that came before one that failed, or is not made yet, would pass it over."""
    poller = place.poll(start="2020-01-01")
    batches = poller.batches()
    first, second = await anext(batches), await anext(batches)
    with pytest.raises(ConfigurationError, match="not committed"):
        await write(second, connection)
    connection.fails = "before"
    with pytest.raises(ConnectionError):
        await write(first, connection)
    with pytest.raises(ConfigurationError, match="failed"):
        await write(second, connection)
    await batches.aclose()
    assert connection.rows == []
    async for batch in poller.batches():
        await write(batch, connection)
        if len(connection.rows) >= len(place.ids):
            break
    assert sorted(connection.rows) == sorted(place.ids)


@pytest.mark.parametrize(("standby", "limit"), [(False, 15.0), (True, 7.0)])
async def test_a_transaction_is_bounded_by_the_lease_before_its_save(
    place: Scene, connection: Connection, *, standby: bool, limit: float
) -> None:
    """A database that can undo one whose process is lost gets a limit: no standby waits longer."""
    place.store = store = DatabaseStore()
    place.touch(1)
    poller = place.poll(standby=standby and 7.0)
    await write(await take(poller), connection)
    await poller.aclose()
    assert store.limits == [limit]
    await asyncio.sleep(0)  # the renewal that was cancelled ends
