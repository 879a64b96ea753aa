"""The processes of a cluster: pollers that relay, workers that handle, sharers of a token.

Each is a function that runs in a process of its own, and may be killed at any moment.
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
from typing import Any, Final, TypeAlias, TypeVar

import nats
from attrs import frozen
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig

from income_client import Application, DecodeError, IncomeClient, OAuth2ClientCredentials, to_json
from income_client.engines.nats import NatsCheckpointStore, NatsTokenStore, nats_publisher
from income_client.engines.relay import UpdateEvent, relay

from .polling_service import BEGINNING

T = TypeVar("T")

BUCKET: Final = "income"
STREAM: Final = "updates"
SUBJECT: Final = "income.updates"
CONSUMER: Final = "workers"
TABLES: Final = """
    CREATE TABLE applications(id TEXT PRIMARY KEY, writes INT NOT NULL, content TEXT NOT NULL);
    CREATE TABLE events(id TEXT PRIMARY KEY, handled INT NOT NULL);
"""
Flags: TypeAlias = MutableSequence[float]
"""Numbers that processes share without locks, which a killed process would keep."""

_FORKS: Final = get_context("forkserver")
_FETCHED: Final = 50
_ACK_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.01
_FIELDS: Final = "id, writes, content"


@frozen(kw_only=True)
class Place:
    """Where the servers and the files of a cluster are."""

    nats: str
    service: str
    oauth2: tuple[str, str]
    database: Path
    lease: float

    def client(self, **options: Any) -> IncomeClient:
        """Return a client of the service."""
        return IncomeClient(self.service, auth=OAuth2ClientCredentials(*self.oauth2), **options)


def flags(count: int) -> Flags:
    """Return so many shared numbers, all of them 0."""
    made: Flags = _FORKS.RawArray("d", count)
    return made


def start(work: Callable[..., Any], *arguments: Any, **named: Any) -> BaseProcess:
    """Run a coroutine function in a process of its own, forked from one that has all imports."""
    _FORKS.set_forkserver_preload([__name__])
    process = _FORKS.Process(target=_run, args=(work, arguments, named), daemon=True)
    process.start()
    return process


def _run(work: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any]) -> None:
    asyncio.run(work(*arguments, **named))
    os._exit(0)  # nothing waits for what a library would do at exit


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Client]:
    """Connect to the broker, however long it takes to be there, and through its restarts."""

    async def ignore(*_: object) -> None:
        await asyncio.sleep(0)

    options: dict[str, Any] = {"max_reconnect_attempts": -1, "reconnect_time_wait": 0.1}
    client = await nats.connect(url, error_cb=ignore, **options)
    try:
        yield client
    finally:
        await client.close()


async def tried_again(work: Callable[[], Awaitable[T]]) -> T:
    """Return the result of work that the broker's restarts may fail."""
    while True:
        with suppress(NatsError, TimeoutError, OSError):
            return await work()
        await asyncio.sleep(0.1)


async def poll(place: Place, working: Flags, published: Flags, slot: int) -> None:
    """Relay while it holds the lease; note since when it does, and count what it publishes."""
    async with connected(place.nats) as broker, place.client() as client:
        stream = broker.jetstream()
        bucket = await tried_again(partial(stream.key_value, BUCKET))
        poller = client.poll(
            NatsCheckpointStore(bucket),
            start=BEGINNING,
            interval=0.5,
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


def consumer(ack_wait: float = _ACK_SECONDS) -> ConsumerConfig:
    """Return how the workers' consumer is set up."""
    return ConsumerConfig(
        durable_name=CONSUMER,
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=ack_wait,
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
        async with connected(place.nats) as broker, place.client() as client:
            async for messages in _messages(broker.jetstream(), _FETCHED):
                with suppress(NatsError, TimeoutError, OSError):
                    await handle(client, database, messages)


async def handle(
    client: IncomeClient, database: sqlite3.Connection, messages: Sequence[Msg]
) -> None:
    """Keep the applications that messages are about; acknowledge only what is kept.

    Update times have whole seconds, so they cannot tell which of two contents is newer. What
    can: a content that was read after the row was looked at is at least as new as the row, if
    nobody has written that row meanwhile.
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
    """Return a short text that stands for what an application says."""
    return hashlib.blake2b(to_json(application), digest_size=8).hexdigest()


async def acknowledge(url: str, counts: Flags) -> None:
    """Only acknowledge, as fast as it can, and count."""
    async with connected(url) as broker:
        async for messages in _messages(broker.jetstream(), 200):
            for message in messages:
                await message.ack()
            counts[0] += len(messages)


async def call_often(place: Place, seconds: float, failures: Flags, *, is_shared: bool) -> None:
    """Make a cheap call every 50 ms, with a token of its own or the one of all."""
    async with connected(place.nats) as broker:
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
