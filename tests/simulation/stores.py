"""Checkpoint stores as models: one that acknowledges and forgets, one that answers too late, ...

A `StoreServer` is the server, or the file; a `StoreClient` is what one process has of it. What a
client has sent is done at the server even if the client dies meanwhile.
"""

import random
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from attrs import define, evolve, field, frozen

from income_client.checkpoints import CheckpointStore, StoredCheckpoint
from income_client.checkpoints.store import Change, in_order, in_whole_seconds
from income_client.errors import CheckpointError
from income_client.records.dead_letters import DeadLetter

from .loops import Machine, World

_NOTHING: Final = StoredCheckpoint(checkpoint=None, version=0)
_SLOW: Final = 4.0
"""Seconds of one way to a server that is slow, at most."""
LONGEST_CALL: Final = 10.0
"""Seconds after which a driver gives up waiting for an answer."""


@frozen(kw_only=True)
class Kind:
    """The promises of a database product."""

    name: str
    delay: float
    """Seconds of one way, at most."""
    loses: float = 0.0
    """Seconds of acknowledged saves that a failover or a power cut may undo."""
    compares_texts: bool = True
    has_transactions: bool = False
    has_bell: bool = True
    latest: float = 0.0
    """Seconds by which a save may be made after its sender has given up."""

    @classmethod
    def drawn(cls, chance: random.Random) -> "Kind":
        """Draw a product; half of them lose nothing."""
        kind = chance.choice(KINDS)
        return evolve(kind, loses=0.0) if chance.random() < 0.5 else kind


POSTGRES: Final = Kind(name="postgres", delay=0.02, loses=5.0, has_transactions=True, latest=12.0)
SQLITE: Final = Kind(name="sqlite", delay=0.003, loses=2.0)
KINDS: Final = (
    SQLITE,
    POSTGRES,
    Kind(name="redis", delay=0.005, loses=1.5),
    Kind(name="nats", delay=0.05, latest=20.0),
    Kind(name="user's", delay=0.05, compares_texts=False, has_bell=False),
)


@frozen
class Row:
    """The row that a consumer writes for one record."""

    application_id: str
    version: int
    sequence: int
    """Sequence number of the row's batch."""
    is_torn: bool = False
    """Whether application and documents were read at two moments with an update between."""


@define
class State:
    """All that is stored."""

    stored: StoredCheckpoint = _NOTHING
    letters: dict[str, DeadLetter] = field(factory=dict)
    rows: list[Row] = field(factory=list)
    """Rows of consumers that commit them together with the checkpoint."""
    committed: dict[str, int] = field(factory=dict)
    """The versions that the stored checkpoint remembers; replaced and never changed."""

    def copy(self) -> "State":
        """Return a copy that later saves do not change."""
        return State(self.stored, dict(self.letters), list(self.rows), self.committed)


@define
class Outage:
    """Shares of calls that fail, while it lasts."""

    lost: float = 0.0
    reply_lost: float = 0.0
    refused: float = 0.0
    is_read_only: bool = False
    is_away: bool = False
    is_slow: bool = False


OnSave = Callable[["StoreServer", Machine, StoredCheckpoint, Sequence[Row]], None]
"""Called after each save that is made: by which machine, over what, and with which rows."""


@define(eq=False)
class StoreServer:
    """The server of a checkpoint store."""

    world: World
    kind: Kind
    on_save: OnSave
    on_forget: Callable[[str], None]
    """Called after each removal of a dead letter that was forgotten, with its key."""
    state: State = field(factory=State)
    outage: Outage = field(factory=Outage)
    rings: int = 0
    lost_saves_at: float = float("-inf")
    """Time at which the store last lost saves."""
    _past: list[tuple[float, State]] = field(factory=list)

    def save(self, machine: Machine, change: Change, rows: Sequence[Row] = ()) -> int:
        """Compare and set, together with the rows of a consumer."""
        if self.outage.is_read_only:
            self.world.count("store: read-only")
            raise CheckpointError("the server is read-only", retryable=True)
        state, before = self.state, self.state.stored
        if not change.follows(before):
            self.world.count("store: conflict")
            raise change.conflict_error(before.version)
        if self.kind.loses:
            oldest = self.world.now - self.kind.loses - 1
            self._past = [one for one in self._past if one[0] > oldest]
            self._past.append((self.world.now, state.copy()))
        for key in change.resolved:
            state.letters.pop(key, None)
        state.letters.update({one.key: in_whole_seconds(one) for one in change.dead_letters})
        state.rows.extend(rows)
        version = change.version + 1
        state.stored = StoredCheckpoint(checkpoint=change.checkpoint, version=version)
        self.on_save(self, machine, before, rows)
        return version

    def forget(self, keys: Sequence[str]) -> tuple[str, ...]:
        """Remove dead letters; the version stays as it is."""
        if self.outage.is_read_only:
            raise CheckpointError("the server is read-only", retryable=True)
        removed = tuple(key for key in keys if self.state.letters.pop(key, None) is not None)
        for key in removed:
            self.on_forget(key)
        return removed

    def roll_back(self, seconds: float) -> bool:
        """Lose what was saved in the last seconds; return whether that was anything."""
        since = self.world.now - seconds
        older = [state for moment, state in self._past if moment > since]
        if older:
            self._lose_to(older[0], f"has lost its last {seconds:.1f} s")
        return bool(older)

    def restore(self, backup: State) -> None:
        """Hold what it held at the time of a backup."""
        self._lose_to(backup, "was restored from a backup")

    def empty(self) -> None:
        """Lose all but the rows of consumers."""
        self._lose_to(State(rows=self.state.rows), "was emptied")

    def _lose_to(self, state: State, how: str) -> None:
        lost = self.state.stored.version - state.stored.version
        self.state, self._past = state.copy(), []
        self.lost_saves_at = self.world.now
        self.world.note("store", f"{how}: {lost} saves")

    def ring(self) -> None:
        """Count a ring; what is lost of the saves does not matter for it."""
        self.rings += 1


class StoreClient(CheckpointStore):
    """The connection of a process to the store's server."""

    has_bell = True

    def __init__(self, server: StoreServer, machine: Machine) -> None:
        self.server, self.machine = server, machine
        self.seen: str | None = None
        """The last checkpoint that it was shown, or has saved."""
        self.looked_at: float | None = None
        """Time of the last successful load, in the world's time."""
        self.found_nothing: bool = False
        """Whether the store had no checkpoint at its last load that succeeded."""
        self.under_way: int = 0
        """Number of calls in flight."""
        self.ended_at: float = 0.0
        """Time at which the last call ended, in the world's time."""

    async def load(self, name: str) -> StoredCheckpoint:
        """Return what is stored."""
        found: StoredCheckpoint = await self._call(lambda: self.server.state.stored)
        self.seen = found.checkpoint or self.seen
        self.found_nothing = found.checkpoint is None
        self.looked_at = self.server.world.now
        return found

    async def save(
        self,
        name: str,
        checkpoint: str,
        *,
        version: int,
        dead_letters: Sequence[DeadLetter] = (),
        resolved: Sequence[str] = (),
        replaces: str | None = None,
    ) -> int:
        """Replace the checkpoint, if it is still the one of this version and text."""
        change = Change(name, checkpoint, version, tuple(dead_letters), tuple(resolved), replaces)
        return await self._save(change)

    async def dead_letters(self, name: str) -> tuple[DeadLetter, ...]:
        """Return the dead letters."""
        letters = await self._call(lambda: in_order(self.server.state.letters.values()))
        return tuple(letters)

    async def forget(self, name: str, keys: Iterable[str]) -> tuple[str, ...]:
        """Remove dead letters whose applications need not be read any more."""
        removed: tuple[str, ...] = await self._call(lambda: self.server.forget(tuple(keys)))
        return removed

    async def check_rights(self, name: str) -> None:
        """Find out whether it answers."""
        await self._call(lambda: None)

    async def ring(self, name: str) -> bool:
        """Wake the poller that works."""
        await self._call(self.server.ring)
        return True

    async def count_rings(self, name: str) -> int:
        """Return how often it was rung."""
        rings: int = await self._call(lambda: self.server.rings)
        return rings

    async def _save(self, change: Change, rows: Sequence[Row] = ()) -> int:
        def save() -> int:
            return self.server.save(self.machine, change, rows)

        version: int = await self._call(save, latest=self.server.kind.latest)
        self.seen = change.checkpoint
        return version

    async def _call(self, work: Callable[[], Any], *, latest: float | None = None) -> Any:
        """Call the server; ``latest`` is for a save: how much later than its sender it may be."""
        self.under_way += 1
        try:
            return await self._send(work, latest)
        finally:
            self.under_way -= 1
            self.ended_at = self.server.world.now

    async def _send(self, work: Callable[[], Any], latest: float | None) -> Any:
        """Send a call to the server, and wait for its answer as long as a driver does."""
        world, kind, outage = self.server.world, self.server.kind, self.server.outage
        chance = world.chance
        if outage.is_away or chance.random() < outage.refused:
            await self._pause(chance.random() * kind.delay)
            world.count("store: call refused")
            raise CheckpointError("the store is away", retryable=True)
        delay = _SLOW if outage.is_slow else kind.delay
        is_lost = chance.random() < outage.lost
        is_reply_lost = chance.random() < outage.reply_lost
        is_late = is_lost and bool(latest) and chance.random() < 0.7
        if is_lost:
            world.count("store: save made late" if is_late else "store: call lost")
        elif is_reply_lost and latest is not None:
            world.count("store: save made, reply lost")
        future = world.ask(
            self.machine,
            work,
            there=chance.random() * (delay + (latest or 0.0) * is_late),
            back=chance.random() * delay,
            is_lost=is_lost and not is_late,
            is_reply_lost=is_reply_lost,
        )
        silence = CheckpointError("the store did not answer", retryable=True)
        timer = self.machine.call_later(LONGEST_CALL, self.machine.take, future, None, silence)
        try:
            return await future
        finally:
            timer.cancel()

    async def _pause(self, seconds: float) -> None:
        future = self.machine.create_future()
        self.machine.call_later(seconds, self.machine.take, future, None, None)
        await future


class VersionClient(StoreClient):
    """The client of a user's store, which compares versions and nothing else."""

    has_bell = False

    async def save(  # type: ignore[override]
        self,
        name: str,
        checkpoint: str,
        *,
        version: int,
        dead_letters: Sequence[DeadLetter] = (),
        resolved: Sequence[str] = (),
    ) -> int:
        """Replace the checkpoint, if it is still the one of this version."""
        letters, keys = tuple(dead_letters), tuple(resolved)
        return await self._save(Change(name, checkpoint, version, letters, keys))


class TransactionClient(StoreClient):
    """The client of a database in which consumers write their rows with the checkpoint."""

    @asynccontextmanager
    async def transaction(self, rows: list[Row]) -> AsyncIterator["BoundClient"]:
        """Bind the store to a transaction, which writes the rows at its end."""
        bound = BoundClient(self.server, self.machine)
        yield bound
        if bound.change is not None:
            await self._save(bound.change, tuple(rows))


class BoundClient(TransactionClient):
    """The store bound to a transaction: its save is checked now, and made at the end."""

    change: Change | None = None

    async def _save(self, change: Change, rows: Sequence[Row] = ()) -> int:
        def check() -> int:
            if not change.follows(self.server.state.stored):
                raise change.conflict_error(self.server.state.stored.version)
            return change.version + 1

        version: int = await self._call(check)
        self.change = change
        return version


def client_of(server: StoreServer, machine: Machine) -> StoreClient:
    """Return a client of the server for a process."""
    kind = server.kind
    if not kind.compares_texts:
        return VersionClient(server, machine)
    return (TransactionClient if kind.has_transactions else StoreClient)(server, machine)
