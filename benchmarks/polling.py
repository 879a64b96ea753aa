"""What polling costs the service and the machine, and how soon a callback's record comes."""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import aiohttp
import orjson
from aiohttp import web
from attrs import frozen

from income_client import (
    ApplicationDocuments,
    BasicAuth,
    CallbackBasicAuth,
    IncomeClient,
    MemoryCheckpointStore,
    Poller,
    SQLiteCheckpointStore,
    to_json,
)
from income_client.emulator import Emulator
from income_client.http.endpoints import Response, get_documents
from income_client.http.replies import read_reply
from income_client.polling.reading import read_version
from income_client.receivers import CallbackReceiver
from income_client.receivers.aiohttp import routes

from . import decoding
from .report import Row, Scale, at_most, compared, exactly, in_turns, timed
from .services import BEGINNING, Asked, EmulatorProcess, FastClock, LivingService

_INTERVAL: Final = 1.0
_SETTLE: Final = 5.0
_WARM_POLLS: Final = 8
_APPLICATIONS: Final = 2_000
_MOST_READS: Final = 1 + (_SETTLE + _INTERVAL) / _INTERVAL
"""A version's first reading, and one for each poll while it is in the stretch read again."""
_CHECKPOINT: Final = "x" * 4_000
_TABLE: Final = "CREATE TABLE IF NOT EXISTS kept (name TEXT PRIMARY KEY, text TEXT, version INT)"
_UPSERT: Final = (
    "INSERT INTO kept VALUES ('default', ?, ?) ON CONFLICT (name) "
    "DO UPDATE SET text = excluded.text, version = excluded.version"
)
_PAUSE: Final = 1.1
"""Seconds; a poller starts no poll sooner than one after its last began."""
_PASSWORD: Final = "invented-password-of-the-service"


@frozen
class _Moment:
    """What had happened at some moment between two batches."""

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
        at_most(f"{what}: list requests a poll", (last.asked.lists - first.asked.lists) / polls, 1),
        at_most(f"{what}: application requests for each version", each, _MOST_READS),
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


async def digest(scale: Scale) -> list[Row]:
    """Time a documents reply that is decoded with its digest, in turns with one without."""
    body = decoding.documents()
    request = get_documents(orjson.loads(body)["application_id"], pages=False)
    reply = Response(status=200, headers={}, body=body)

    async def decoded(read: Callable[..., object]) -> float:
        began = time.process_time()
        for _ in range(10):
            read(ApplicationDocuments, request, reply)
        return (time.process_time() - began) / 10

    ways = {"with": partial(decoded, read_version), "without": partial(decoded, read_reply)}
    seconds = await in_turns(ways, 3 * scale.commits)
    cost = 1e6 * median(a - b for a, b in zip(seconds["with"], seconds["without"], strict=True))
    what = f"digest of documents of {len(body) / 1000:.0f} kB, beside decoding them"
    return [at_most(what, cost, 70.0, shown=f"{cost:.0f} us", rounds=len(seconds["with"]))]


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


async def callbacks(scale: Scale) -> list[Row]:
    """Update applications, send a callback for each, and time how soon its record comes."""
    seconds: list[float] = []
    authorization = BasicAuth("service", _PASSWORD).authorization().reveal()
    async with (
        Emulator(applications=200, time_flows=True) as service,
        IncomeClient(service.url, auth=service.oauth2) as client,
        aiohttp.ClientSession(headers={"Authorization": authorization}) as session,
    ):
        poller = client.poll(MemoryCheckpointStore(), interval=60.0)
        receiver = CallbackReceiver(
            poller.wake, auth=CallbackBasicAuth(username="service", password=_PASSWORD)
        )
        app = web.Application()
        app.add_routes(routes(receiver, "/callbacks"))
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/callbacks"
        arrived: asyncio.Queue[tuple[str, float]] = asyncio.Queue()

        async def take() -> None:
            async for record in poller:
                arrived.put_nowait((record.application_id, time.perf_counter()))

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(take())
            while poller.status.polls == 0:  # noqa: ASYNC110 - a poller has no event for it
                await asyncio.sleep(0.01)
            for application_id in service.world.ids[: scale.callbacks]:
                await asyncio.sleep(_PAUSE)
                service.touch(application_id)
                body = {
                    "event_type": "income_calculations",
                    "application_id": application_id,
                    "application_reference_id": "loan-1",
                }
                began = time.perf_counter()
                async with session.post(url, json=body) as reply:
                    reply.raise_for_status()
                found_id, at = await asyncio.wait_for(arrived.get(), 20)
                if found_id != application_id:
                    raise RuntimeError("another record came")
                seconds.append(at - began)
            poller.stop()
        await runner.cleanup()
    found = sorted(second * 1000 for second in seconds)
    shown = f"{median(found):.0f} ms ({found[0]:.0f} to {found[-1]:.0f})"
    what = "from a callback to its record, the interval being 60 s"
    return [at_most(what, median(found), 300.0, shown=shown, rounds=len(found))]


MEASUREMENTS: Final[Mapping[str, Callable[[Scale], Coroutine[Any, Any, list[Row]]]]] = {
    "steady": steady,
    "first": first_poll,
    "digest": digest,
    "commit": commit,
    "callbacks": callbacks,
}
"""Every measurement by its name."""
