"""Cost of polling for the service and the machine."""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from attrs import frozen

from income_client import IncomeClient, Poller, SQLiteCheckpointStore, to_json

from .report import Row, Scale, at_most, compared, exactly, in_turns, timed
from .services import BEGINNING, Asked, EmulatorProcess, FastClock, LivingService
from .settle import MOST_LISTS, MOST_READS, measure

_INTERVAL: Final = 1.0
_SETTLE: Final = 5.0
_WARM_POLLS: Final = 8
_APPLICATIONS: Final = 2_000
_CHECKPOINT: Final = "x" * 4_000
_TABLE: Final = "CREATE TABLE IF NOT EXISTS kept (name TEXT PRIMARY KEY, text TEXT, version INT)"
_UPSERT: Final = (
    "INSERT INTO kept VALUES ('default', ?, ?) ON CONFLICT (name) "
    "DO UPDATE SET text = excluded.text, version = excluded.version"
)


@frozen
class _Moment:
    """Counts at one moment between two batches."""

    polls: int
    asked: Asked
    cpu_seconds: float


async def steady(scale: Scale) -> list[Row]:
    """Measure polls of a service that changes evenly."""
    clock = FastClock(scale.speed)
    seen: set[bytes] = set()
    moments: list[_Moment] = []
    with (
        TemporaryDirectory() as folder,
        LivingService(rate=scale.polled, speed=scale.speed, applications=_APPLICATIONS) as service,
    ):
        store = SQLiteCheckpointStore(Path(folder) / "store.db")
        async with (
            IncomeClient(service.url, auth=service.oauth2, clock=clock) as client,
            asyncio.TaskGroup() as tasks,
        ):
            poller = client.poll(store, start=BEGINNING, interval=_INTERVAL, settle=_SETTLE)
            async for batch in poller.batches():
                async with batch:
                    # An application says when it was updated, and each is updated in turn.
                    seen |= {to_json(record.application) for record in batch}
                polls = poller.status.polls
                if len(moments) < 2 and polls >= _WARM_POLLS + len(moments) * scale.polls:
                    moments.append(_Moment(polls, service.asked(), time.process_time()))
                    if len(moments) == 2:
                        service.rest()
                        tasks.create_task(_stop(poller, clock, polls + _WARM_POLLS))
        made, delivered = service.asked().versions, len(seen)
    first, last = moments
    polls = last.polls - first.polls
    reads = last.asked.applications - first.asked.applications
    each = reads / (last.asked.versions - first.asked.versions)
    cpu = (last.cpu_seconds - first.cpu_seconds) / polls
    what = f"polling {scale.polled:g} updates a second, a poll each second"
    again = poller.status.records - delivered
    return [
        at_most(
            f"{what}: list requests a poll",
            (last.asked.lists - first.asked.lists) / polls,
            MOST_LISTS,
        ),
        at_most(f"{what}: application requests for each version", each, MOST_READS),
        exactly(f"{what}: versions delivered", delivered, made, shown=f"{delivered:,} of {made:,}"),
        exactly(f"{what}: versions delivered twice", again, 0),
        Row(label=f"{what}: CPU of a poll", measured=f"{cpu * 1000:.0f} ms", value=cpu),
    ]


async def _stop(poller: Poller, clock: FastClock, polls: int) -> None:
    while poller.status.polls < polls:
        await clock.sleep(_INTERVAL)
    poller.stop()


async def first_poll(scale: Scale) -> list[Row]:
    """Time a first poll, in turns with reading the same applications by their ids."""
    with EmulatorProcess(applications=scale.history, pattern="bursts") as service:
        ids = service.ids()
        async with IncomeClient(service.url, auth=service.oauth2) as client:

            async def poll() -> None:
                left = len(ids)
                with TemporaryDirectory() as folder:
                    store = SQLiteCheckpointStore(Path(folder) / "store.db")
                    async for batch in client.poll(store, start="2020-01-01").batches():
                        async with batch:
                            left -= len(batch)
                        if left <= 0:
                            break

            async def fetch() -> None:
                async for _ in client.fetch_records(ids):
                    pass

            ways = {"poll": lambda: timed(poll()), "fetch": lambda: timed(fetch())}
            seconds = await in_turns(ways, scale.few_rounds)
    what = f"a first poll of {len(ids):,} applications with documents: time / fetch_records"
    return [compared(what, seconds, "poll", "fetch", unit="s")]


async def commit(scale: Scale) -> list[Row]:
    """Time a commit to the store, in turns with a plain upsert that is as durable."""
    # Beside the package: a temporary folder may be in memory.
    with TemporaryDirectory(dir=Path(__file__).parent, prefix=".commits-") as folder:
        store = SQLiteCheckpointStore(Path(folder) / "ours.db")
        version = 0

        async def save() -> float:
            nonlocal version
            began = time.perf_counter()
            for _ in range(scale.commits):
                version = await store.save("default", _CHECKPOINT, version=version)
            return (time.perf_counter() - began) / scale.commits

        async def plain() -> float:
            began = time.perf_counter()
            for number in range(scale.commits):
                _upsert(Path(folder) / "plain.db", number)
            return (time.perf_counter() - began) / scale.commits

        seconds = await in_turns({"store": save, "plain": plain}, scale.rounds)
    what = "a commit to SQLite / a plain upsert that is as durable"
    return [compared(what, seconds, "store", "plain", unit="ms", goal=1.0)]


def _upsert(path: Path, version: int) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_TABLE)
        connection.execute(_UPSERT, (_CHECKPOINT, version))
        connection.execute("COMMIT")
    finally:
        connection.close()


MEASUREMENTS: Final[Mapping[str, Callable[[Scale], Coroutine[Any, Any, list[Row]]]]] = {
    "steady": steady,
    "first": first_poll,
    "commit": commit,
    "woken": partial(measure, is_woken=True),
    "unwoken": partial(measure, is_woken=False),
}
"""Every measurement by its name."""
