"""A poller in its everyday life: what one poll costs the service, the store and the machine."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from attrs import define, field

from income_client import (
    Batch,
    DeadLetter,
    IncomeClient,
    Poller,
    SQLiteCheckpointStore,
    StoredCheckpoint,
    to_json,
)

from .fast_clock import FastClock
from .polling_scale import PollingScale
from .polling_service import BEGINNING, Asked, LivingService
from .table import Row, at_most

_RATE: Final = 10.0
_INTERVAL: Final = 1.0
_SETTLE: Final = 5.0
_WARM_POLLS: Final = 8
_APPLICATIONS: Final = 2_000
_MOST_READS: Final = 1 + (_SETTLE + _INTERVAL) / _INTERVAL
"""A version's first reading, and one for each poll while it is in the stretch read again."""
_EXPECTED_AGAIN: Final = _SETTLE / (0.95 * _INTERVAL)
"""Pauses are up to a tenth shorter than the interval."""


class TimedStore:
    """An SQLite store, and how long its commits take.

    Args:
        path: of its file.
    """

    def __init__(self, path: Path) -> None:
        self.saves: list[float] = []
        self._store = SQLiteCheckpointStore(path)

    async def load(self, name: str) -> StoredCheckpoint:
        """Return what is stored."""
        return await self._store.load(name)

    async def save(
        self,
        name: str,
        checkpoint: str,
        *,
        version: int,
        dead_letters: Sequence[DeadLetter] = (),
        resolved: Sequence[str] = (),
    ) -> int:
        """Store, and note the seconds that it took."""
        began = time.perf_counter()
        saved = await self._store.save(
            name, checkpoint, version=version, dead_letters=dead_letters, resolved=resolved
        )
        self.saves.append(time.perf_counter() - began)
        return saved

    async def dead_letters(self, name: str) -> tuple[DeadLetter, ...]:
        """Return what could not be read."""
        return await self._store.dead_letters(name)


@define(kw_only=True)
class _Moment:
    """What had come to pass at some moment between two batches."""

    polls: int
    records: int
    saves: int
    cpu_seconds: float
    asked: Asked


@define
class _Steady:
    service: LivingService
    store: TimedStore
    poller: Poller
    clock: FastClock
    seen: set[bytes] = field(factory=set)
    longest: int = 0

    async def run(self, polls: int) -> tuple[_Moment, _Moment]:
        """Take batches until so many polls are over; return how it stood before and after."""
        first: _Moment | None = None
        async for batch in self.poller.batches():
            await self._take(batch)
            over = self.poller.status.polls
            if first is None and over >= _WARM_POLLS:
                first = self._moment()
            elif first is not None and over >= first.polls + polls:
                break
        if first is None:
            raise RuntimeError("the poller has ended by itself")
        return first, self._moment()

    async def drain(self) -> None:
        """Take what is left once nothing is updated any more."""
        self.service.rest()
        enough = self.poller.status.polls + _WARM_POLLS
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._stop_at(enough))
            async for batch in self.poller.batches():
                await self._take(batch)

    async def _stop_at(self, polls: int) -> None:
        while self.poller.status.polls < polls:
            await self.clock.sleep(_INTERVAL)
        self.poller.stop()

    async def _take(self, batch: Batch) -> None:
        async with batch:
            # The application says when it was updated, and the service updates each once a turn.
            self.seen |= {to_json(record.application) for record in batch}
            self.longest = max(self.longest, len(batch.checkpoint))

    def _moment(self) -> _Moment:
        status = self.poller.status
        return _Moment(
            polls=status.polls,
            records=status.records,
            saves=len(self.store.saves),
            cpu_seconds=time.process_time(),
            asked=self.service.asked(),
        )


async def poll_steadily(scale: PollingScale) -> list[Row]:
    """Measure polls of a service that changes evenly."""
    clock = FastClock(scale.speed)
    with (
        TemporaryDirectory(prefix="polling-") as folder,
        LivingService(rate=_RATE, speed=scale.speed, applications=_APPLICATIONS) as service,
    ):
        store = TimedStore(Path(folder) / "store.db")
        async with IncomeClient(service.url, auth=service.oauth2, clock=clock) as client:
            poller = client.poll(store, start=BEGINNING, interval=_INTERVAL, settle=_SETTLE)
            steady = _Steady(service, store, poller, clock)
            first, last = await steady.run(scale.polls)
            await steady.drain()
            return _rows(steady, first, last)


def _rows(steady: _Steady, first: _Moment, last: _Moment) -> list[Row]:
    asked, polls = last.asked.since(first.asked), last.polls - first.polls
    made, delivered = steady.service.asked().versions, len(steady.seen)
    repeated = steady.poller.status.records - delivered
    saves = steady.store.saves[first.saves : last.saves]
    cpu = (last.cpu_seconds - first.cpu_seconds) / polls
    what = f"{_RATE:g} updates/s, interval {_INTERVAL:g} s, settle {_SETTLE:g} s, {polls} polls"
    return [
        at_most(f"{what}: list requests per poll", asked.lists / polls, 1),
        _reads("application requests per version", asked.applications, asked.versions),
        _reads("document requests per version", asked.documents, asked.versions),
        Row(
            what="  versions delivered, of those made",
            measured=f"{delivered:,} of {made:,}",
            goal="all",
            is_met=delivered == made,
        ),
        at_most("  delivered again", repeated, 0, shown=f"{repeated}"),
        Row(what="  longest checkpoint", measured=f"{steady.longest:,} letters"),
        Row(what="  commits per poll", measured=f"{len(saves) / polls:.2f}"),
        Row(what="  SQLite commit, median", measured=f"{median(saves) * 1000:.1f} ms"),
        Row(what="  CPU of the process per poll", measured=f"{cpu * 1000:.0f} ms"),
    ]


def _reads(what: str, reads: int, versions: int) -> Row:
    each = reads / versions
    what = f"  {what}: first + again (expected 1 + {_EXPECTED_AGAIN:.2f})"
    return at_most(what, each, _MOST_READS, shown=f"1 + {each - 1:.2f}")
