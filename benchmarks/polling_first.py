"""A first poll over a long history, against the bare reading of the same applications."""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

from attrs import define, field

from income_client import IncomeClient, SQLiteCheckpointStore

from .polling_scale import PollingScale
from .processes import EmulatorProcess
from .table import Row

_START: Final = "2020-01-01"


@define
class _First:
    """Reads one history in both ways, in turns."""

    client: IncomeClient
    ids: list[str]
    documents: bool
    longest: int = 0
    batches: int = 0
    polled: list[float] = field(factory=list)
    fetched: list[float] = field(factory=list)

    async def poll(self) -> None:
        """Poll until everything has come, and commit every batch."""
        left, self.batches = len(self.ids), 0
        with TemporaryDirectory(prefix="polling-") as folder:
            store = SQLiteCheckpointStore(Path(folder) / "store.db")
            poller = self.client.poll(store, start=_START, documents=self.documents)
            async for batch in poller.batches():
                async with batch:
                    left -= len(batch)
                self.batches += 1
                self.longest = max(self.longest, len(batch.checkpoint))
                if left <= 0:
                    break

    async def fetch(self) -> None:
        """Read the same applications by their ids."""
        async for _ in self.client.fetch_records(self.ids, documents=self.documents):
            pass

    async def compare(self, rounds: int) -> None:
        """Time both, one after the other."""
        for _ in range(rounds):
            self.polled.append(await _timed(self.poll))
            self.fetched.append(await _timed(self.fetch))


_Work: TypeAlias = Callable[[], Awaitable[None]]


async def first_polls(scale: PollingScale) -> list[Row]:
    """Time a first poll with and without documents."""
    rows: list[Row] = []
    with EmulatorProcess(applications=scale.history, pattern="bursts") as service:
        ids = service.ids()
        async with IncomeClient(service.url, auth=service.oauth2) as client:
            for documents in (True, False):
                first = _First(client, ids, documents)
                await first.compare(scale.rounds)
                rows += _rows(first)
    return rows


def _rows(first: _First) -> list[Row]:
    count = len(first.ids)
    polled, fetched = count / median(first.polled), count / median(first.fetched)
    ratio = median(a / b for a, b in zip(first.polled, first.fetched, strict=True))
    parts = "with" if first.documents else "without"
    what = f"first poll over {count:,} applications, {parts} documents: time / bare fetch_records"
    return [
        Row(what=what, measured=f"{ratio:.2f}", value=ratio, rounds=len(first.polled)),
        Row(
            what="  records a second: poll, fetch_records",
            measured=f"{polled:,.0f}, {fetched:,.0f}",
        ),
        Row(
            what=f"  longest checkpoint, in {first.batches} batches",
            measured=f"{first.longest:,} letters",
        ),
    ]


async def _timed(work: _Work) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began
