"""The processes of a cluster on one machine: a service, a broker, pollers, workers, readers.

What each runs is a function that may be killed at any moment.
"""

import asyncio
import hashlib
import os
import signal
import sqlite3
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    MutableSequence,
    Sequence,
)
from contextlib import asynccontextmanager, closing, suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias, TypeVar

from attrs import define, field, frozen
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, StreamConfig

from income_client import (
    Application,
    DecodeError,
    IncomeClient,
    OAuth2ClientCredentials,
    to_json,
)
from income_client.engines.nats import NatsCheckpointStore, NatsTokenStore, nats_publisher
from income_client.engines.relay import UpdateEvent, relay
from tests.support.nats_server import NatsServer, connected

from .services import BEGINNING, LivingService, ServiceProcess

T = TypeVar("T")

BUCKET: Final = "income"
STREAM: Final = "updates"
SUBJECT: Final = "income.updates"
CONSUMER: Final = "workers"
POLLERS: Final = 3
PATIENCE: Final = 60.0
broker_at: Final = partial(connected, max_reconnect_attempts=-1)
"""Connects to a broker, and again whenever it has restarted."""
FORKS: Final = get_context("forkserver")
FORKS.set_forkserver_preload([__name__])  # its processes are forked from one that has all imports
Flags: TypeAlias = MutableSequence[float]
"""Numbers that processes share without locks, which a killed process would keep."""

_TABLES: Final = """
    PRAGMA journal_mode=WAL;
    CREATE TABLE applications(id TEXT PRIMARY KEY, writes INT NOT NULL, content TEXT NOT NULL);
    CREATE TABLE events(id TEXT PRIMARY KEY, handled INT NOT NULL);
"""
_HISTORY: Final = 64
_FETCHED: Final = 50
_ACK_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.005
_FIELDS: Final = "id, writes, content"


@frozen
class Place:
    """Where the servers and the files of a cluster are."""

    service: str
    account: tuple[str, str]
    nats: str = ""
    database: Path = Path()
    lease: float = 0.0

    def client(self, **options: Any) -> IncomeClient:
        """Return a client of the service."""
        return IncomeClient(self.service, auth=OAuth2ClientCredentials(*self.account), **options)


def place_of(service: ServiceProcess, *others: Any) -> Place:
    """Return where a service is, and the broker, the database and the lease beside it."""
    auth = service.oauth2
    return Place(service.url, (auth.client_id, auth.client_secret.reveal()), *others)


def flags(count: int) -> Flags:
    """Return so many shared numbers, all of them 0."""
    made: Flags = FORKS.RawArray("d", count)
    return made


def start(work: Callable[..., Any], *arguments: Any, **named: Any) -> BaseProcess:
    """Run a coroutine function in a process of its own."""
    process = FORKS.Process(target=_run, args=(work, arguments, named), daemon=True)
    process.start()
    return process


def _run(work: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any]) -> None:
    asyncio.run(work(*arguments, **named))
    os._exit(0)  # nothing waits for what a library would do at exit


async def tried_again(work: Callable[[], Awaitable[T]]) -> T:
    """Return the result of work that the broker's restarts may fail."""
    while True:
        with suppress(NatsError, TimeoutError, OSError):
            return await work()
        await asyncio.sleep(0.1)


async def poll(place: Place, working: Flags, published: Flags, slot: int) -> None:
    """Relay while it holds the lease; note since when it does, and count what it publishes."""
    async with broker_at(place.nats) as broker, place.client() as client:
        stream = broker.jetstream()
        bucket = await tried_again(partial(stream.key_value, BUCKET))
        poller = client.poll(
            NatsCheckpointStore(bucket),
            start=BEGINNING,
            interval=1,
            settle=1,
            documents=False,
            standby=True,
            lease=place.lease,
        )
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, poller.stop)

        async def note() -> None:
            is_standby = True
            while True:
                if poller.status.is_standby != is_standby:
                    is_standby = not is_standby
                    working[slot] = 0.0 if is_standby else time.monotonic()
                await asyncio.sleep(_LOOK_SECONDS)

        publish = nats_publisher(stream, SUBJECT)

        async def count(event: UpdateEvent) -> None:
            published[0] += 1
            await publish(event)

        noting = asyncio.create_task(note())
        await relay(poller, count, concurrency=5)  # so that a batch takes long enough to be hit
        noting.cancel()


def _consumer() -> ConsumerConfig:
    return ConsumerConfig(
        durable_name=CONSUMER,
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=_ACK_SECONDS,
        max_ack_pending=5_000,
    )


async def _messages(stream: JetStreamContext, most: int) -> AsyncIterator[list[Msg]]:
    """Pull messages without end, through restarts of the broker."""
    pulling = await tried_again(partial(stream.pull_subscribe_bind, CONSUMER, STREAM))
    while True:
        try:
            yield await pulling.fetch(most, timeout=1.0)
        except (NatsError, TimeoutError, OSError):
            await asyncio.sleep(_LOOK_SECONDS)


async def work(place: Place) -> None:
    """Handle events: read each application, keep it in the database, and acknowledge."""
    with closing(sqlite3.connect(place.database, timeout=30, isolation_level=None)) as database:
        async with broker_at(place.nats) as broker, place.client() as client:
            async for messages in _messages(broker.jetstream(), _FETCHED):
                with suppress(NatsError, TimeoutError, OSError):
                    await handle(client, database, messages)


async def handle(
    client: IncomeClient, database: sqlite3.Connection, messages: Sequence[Msg]
) -> None:
    """Keep the applications that messages are about; acknowledge only what is kept.

    Update times have whole seconds, so they cannot tell which of two contents is newer. What
    can: a content that was read after the row was looked at is at least as new as the row, if
    that row was not written meanwhile.
    """
    events: list[tuple[Msg, UpdateEvent]] = []
    for message in messages:
        try:
            events.append((message, UpdateEvent.from_json(message.data)))
        except DecodeError:
            await message.term()  # no redelivery would make it readable
    ids = sorted({event.application_id for _, event in events})
    writes = _writes(database, ids)
    read = await asyncio.gather(*(client.get_application(one) for one in ids))
    kept: set[str] = set()
    database.execute("BEGIN IMMEDIATE")
    with database:
        now = _writes(database, ids)
        for one in read:
            key = one.application_id
            if now.get(key) == writes.get(key):
                kept.add(key)
                row = (key, now.get(key, 0) + 1, mark(one))
                database.execute(f"REPLACE INTO applications({_FIELDS}) VALUES(?, ?, ?)", row)
        done = [(event.id,) for _, event in events if event.application_id in kept]
        database.executemany(
            "INSERT INTO events VALUES(?, 1) ON CONFLICT(id) DO UPDATE SET handled = handled + 1",
            done,
        )
    for message, event in events:
        await (message.ack() if event.application_id in kept else message.nak())


def _writes(database: sqlite3.Connection, ids: Iterable[str]) -> dict[str, int]:
    """Return how often the row of each application was written."""
    wanted = [*ids]
    places = ",".join("?" * len(wanted))
    found = database.execute(f"SELECT id, writes FROM applications WHERE id IN ({places})", wanted)
    return dict(found.fetchall())


def mark(application: Application) -> str:
    """Return a digest of what an application says."""
    return hashlib.blake2b(to_json(application), digest_size=8).hexdigest()


async def acknowledge(url: str, counts: Flags) -> None:
    """Only acknowledge, as fast as it can, and count."""
    async with broker_at(url) as broker:
        async for messages in _messages(broker.jetstream(), 200):
            for message in messages:
                await message.ack()
            counts[0] += len(messages)


async def call_often(place: Place, seconds: float, failures: Flags, *, is_shared: bool) -> None:
    """Make a cheap call every 50 ms, with a token of its own or the one of all."""
    async with broker_at(place.nats) as broker:
        bucket = await broker.jetstream().key_value(BUCKET)
        store = NatsTokenStore(bucket) if is_shared else None
        async with place.client(token_store=store) as client:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                try:
                    await client.get_application_page(limit=1)
                except Exception:  # noqa: BLE001 - counted, whatever it is
                    failures[0] += 1
                await asyncio.sleep(0.05)


def fetched(place: Place, ids: Sequence[str]) -> list[str]:
    """Return the ids of the records that were read."""

    async def read() -> list[str]:
        async with place.client() as client:
            return [record.application_id async for record in client.fetch_records(ids)]

    return asyncio.run(read())


@asynccontextmanager
async def broker_with_stream() -> AsyncIterator[tuple[NatsServer, Client]]:
    """Run a broker that has a bucket, and a stream with a consumer."""
    with TemporaryDirectory() as folder:
        server = NatsServer(Path(folder))
        try:
            async with broker_at(server.url) as broker:
                stream = broker.jetstream()
                await stream.create_key_value(bucket=BUCKET, history=_HISTORY)
                await stream.add_stream(StreamConfig(name=STREAM, subjects=[SUBJECT]))
                await stream.add_consumer(STREAM, _consumer())
                yield server, broker
        finally:
            server.kill()


@define
class Cluster:
    """Pollers and workers beside a service and a broker; see `cluster`."""

    server: NatsServer
    broker: Client
    service: LivingService
    place: Place
    workers: list[BaseProcess] = field(factory=list)
    pollers: list[BaseProcess] = field(factory=list)
    working: Flags = field(factory=lambda: flags(POLLERS))
    """Since when each poller works, by the machine's clock; 0 for a standby."""
    published: Flags = field(factory=lambda: flags(1))
    """How many events pollers have begun to publish."""

    def start(self, workers: int) -> None:
        """Start all processes."""
        self.pollers += [self._poller(slot) for slot in range(POLLERS)]
        self.workers += [start(work, self.place) for _ in range(workers)]

    def _poller(self, slot: int) -> BaseProcess:
        return start(poll, self.place, self.working, self.published, slot)

    async def in_a_batch(self) -> None:
        """Wait until an event is published, a second at most."""
        before = self.published[0]
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                while self.published[0] == before:  # noqa: ASYNC110 - of other processes
                    await asyncio.sleep(0.001)

    async def leader(self) -> int:
        """Return the poller that has begun to work last."""
        async with asyncio.timeout(PATIENCE):
            while not any(self.working):  # noqa: ASYNC110 - of other processes
                await asyncio.sleep(_LOOK_SECONDS)
        return max(range(POLLERS), key=lambda slot: self.working[slot])

    async def successor(self, since: float, but: int) -> float:
        """Wait for another poller to work, and return when it has begun."""
        async with asyncio.timeout(PATIENCE):
            while True:
                later = [at for slot, at in enumerate(self.working) if slot != but and at > since]
                if later:
                    return min(later)
                await asyncio.sleep(_LOOK_SECONDS)

    def replace_poller(self, slot: int) -> None:
        """Kill a poller, and start another in its place."""
        _kill(self.pollers[slot])
        self.working[slot] = 0.0
        self.pollers[slot] = self._poller(slot)

    def replace_worker(self, slot: int) -> None:
        """Kill a worker, and start another in its place."""
        _kill(self.workers[slot])
        self.workers[slot] = start(work, self.place)

    def replace_dead(self) -> None:
        """Start those again that have ended by an error, as any supervisor does."""
        for slot, one in enumerate(self.pollers):
            if not one.is_alive():
                self.replace_poller(slot)
        for slot, one in enumerate(self.workers):
            if not one.is_alive():
                self.replace_worker(slot)

    def kept(self) -> set[tuple[str, str]]:
        """Return the applications that workers keep, with the digest of each."""
        with closing(sqlite3.connect(self.place.database, timeout=30)) as database:
            return {*database.execute("SELECT id, content FROM applications")}

    def events(self) -> tuple[int, int]:
        """Return how many events were handled, and how many times in all."""
        with closing(sqlite3.connect(self.place.database, timeout=30)) as database:
            ((events, times),) = database.execute("SELECT count(*), sum(handled) FROM events")
            return events, times

    def signal_poller(self, slot: int, which: signal.Signals) -> None:
        """Send a poller a signal."""
        pid = self.pollers[slot].pid
        assert pid is not None
        os.kill(pid, which)


def _kill(process: BaseProcess) -> None:
    process.kill()
    process.join(PATIENCE)


@asynccontextmanager
async def cluster(applications: int, rate: float, *, lease: float) -> AsyncIterator[Cluster]:
    """Run a broker and a service whose applications are updated in turn; no poller yet."""
    knobs: dict[str, Any] = {"applications": applications, "days": 0.01}
    with TemporaryDirectory() as folder:
        database = Path(folder) / "applications.db"
        with closing(sqlite3.connect(database)) as made:
            made.executescript(_TABLES)
        with LivingService(rate=rate, speed=1.0, **knobs) as service:
            async with broker_with_stream() as (server, broker):
                place = place_of(service, server.url, database, lease)
                made_of = Cluster(server, broker, service, place)
                try:
                    yield made_of
                finally:
                    for one in (*made_of.pollers, *made_of.workers):
                        _kill(one)
