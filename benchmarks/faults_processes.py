"""The parts of the set-up of `faults`: a service, pollers, workers, and a name of a database."""

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from multiprocessing.connection import Connection
from random import Random
from typing import Any, Final

import asyncpg
from attrs import define, field

from income_client import CheckpointError, IncomeClient
from income_client.emulator import Emulator, Fault
from income_client.engines.postgres import PostgresCheckpointStore
from income_client.engines.relay import UpdateEvent
from income_client.engines.worker import Worker
from income_client.engines.worker_nats import nats_events
from tests.support.postgres import PostgresServer

from .cluster_processes import CONSUMER, Flags, Place, mark
from .services import BEGINNING, answer

TABLES: Final = """
    CREATE TABLE rows(id text, content text);
    CREATE TABLE applications(id text PRIMARY KEY, writes int, content text);
    CREATE TABLE events(id text PRIMARY KEY, handled int);
"""
SERVICE_FAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "500": {"kind": "status", "status": 500, "call": "any"},
    "429": {"kind": "status", "status": 429, "call": "any", "headers": {"Retry-After": "1"}},
    "cut replies": {"kind": "cut", "call": "any"},
    "resets": {"kind": "reset"},
    "slow replies": {"kind": "trickle", "call": "any", "interval": 0.001},
    "no tokens": {"kind": "status", "status": 503, "call": "token"},
}
"""What a service may do for some seconds, to a third of its requests."""

_FAULT_SECONDS: Final = 6.0
_FIRST_UPDATE_SECONDS: Final = 2.0
_OFTEN_UPDATED: Final = 200
_ACK_SECONDS: Final = 10.0
_AGAIN_SECONDS: Final = 0.3
_LOST: Final = (
    CheckpointError, asyncpg.InterfaceError, asyncpg.InternalClientError, asyncpg.PostgresError,
    OSError,
)  # fmt: skip
"""What a database that restarts, is replaced or is read-only makes of a statement."""
_INSERT: Final = "INSERT INTO rows VALUES ($1, $2)"
_WRITES: Final = "SELECT writes FROM applications WHERE id = $1"
_UPSERT: Final = """
    INSERT INTO applications AS kept VALUES ($1, 1, $2) ON CONFLICT (id)
    DO UPDATE SET writes = kept.writes + 1, content = $2 WHERE kept.writes = $3 RETURNING 1
"""
_HANDLED: Final = """
    INSERT INTO events AS kept VALUES ($1, 1) ON CONFLICT (id)
    DO UPDATE SET handled = kept.handled + 1
"""


def serve(connection: "Connection[Any, Any]", rate: float, seed: int, applications: int) -> None:
    """Run a service whose applications are updated at random, and which fails when it is asked."""
    asyncio.run(_serve(connection, rate, Random(seed), applications))


async def _serve(connection: Any, rate: float, chance: Random, applications: int) -> None:
    async with Emulator(applications=applications, days=0.01, time_flows=True) as service:
        ids, updated = list(service.world.ids), []

        async def update() -> None:
            await asyncio.sleep(_FIRST_UPDATE_SECONDS)
            while True:
                one = chance.choice(ids[: chance.choice([_OFTEN_UPDATED, len(ids)])])
                service.touch(one)
                updated.append(one)
                await asyncio.sleep(1 / rate)

        def fail(number: int, name: str) -> None:
            fault = Fault(
                **SERVICE_FAULTS[name], times=None, rate=0.3, seconds=_FAULT_SECONDS, seed=number
            )
            service.faults.add(fault)

        answers: dict[str, Any] = {
            name: lambda name=name: fail(len(updated), name) for name in SERVICE_FAULTS
        }
        updating = asyncio.create_task(update())
        answers |= {
            "updated": lambda: updated,
            "faults played": lambda: sum(service.faults.played.values()),
            "rest": updating.cancel,
            "mend": service.faults.clear,
        }
        auth = service.oauth2
        where = service.url, auth.client_id, auth.client_secret.reveal()
        await answer(connection, where, answers)
        updating.cancel()


def _pool(place: Place, *, waits_for_replica: bool) -> AbstractAsyncContextManager[Any]:
    settings = {"synchronous_commit": "on" if waits_for_replica else "local"}
    pool: AbstractAsyncContextManager[Any] = asyncpg.create_pool(
        host=str(place.database), user="postgres", database="postgres", min_size=0, max_size=5,
        timeout=5, command_timeout=10, server_settings=settings,
    )  # fmt: skip
    return pool


async def poll(place: Place, moved: Flags, slot: int) -> None:
    """Write a row for each version, in the transaction of the checkpoint."""
    # A failover undoes both, so that nothing waits for the replica.
    async with _pool(place, waits_for_replica=False) as pool, place.client() as client:
        poller = client.poll(
            PostgresCheckpointStore(pool),
            start=BEGINNING,
            interval=1,
            settle=1,
            documents=False,
            standby=True,
            lease=place.lease,
        )
        async for batch in poller.batches():
            rows = [(record.application_id, mark(record.application)) for record in batch]
            with suppress(*_LOST):
                async with batch, pool.acquire() as connection, batch.transaction(connection):
                    await connection.executemany(_INSERT, rows)
                moved[slot] = time.monotonic()


async def work(place: Place, moved: Flags, slot: int) -> None:
    """Handle events: read each application, and keep it in the database."""
    # An event is acknowledged, so its row must not be undone by a failover.
    async with _pool(place, waits_for_replica=True) as pool, place.client() as client:

        async def handle(event: UpdateEvent) -> None:
            while True:
                with suppress(*_LOST):
                    if await _is_kept(event, pool, client):
                        moved[slot] = time.monotonic()
                        return
                await asyncio.sleep(_AGAIN_SECONDS)

        source = nats_events(place.nats, durable=CONSUMER, ack_wait=_ACK_SECONDS)
        await Worker(handle, source).run()


async def _is_kept(event: UpdateEvent, pool: Any, client: IncomeClient) -> bool:
    """Read the application and keep it, unless another worker has written its row meanwhile."""
    key = event.application_id
    writes = await pool.fetchval(_WRITES, key) or 0
    content = mark(await client.get_application(key))
    async with pool.acquire() as connection, connection.transaction():
        if await connection.fetchval(_UPSERT, key, content, writes) is None:
            return False
        await connection.execute(_HANDLED, event.id)
    return True


async def become(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run a command in this process from now on."""
    await asyncio.sleep(0)
    os.execve(command[0], [*command], environment)


@define
class Name:
    """Leads to a database server, as a host's name does; it can be moved to another one."""

    server: PostgresServer
    _open: set[asyncio.WriteTransport] = field(factory=set)
    _serving: set[asyncio.Task[None]] = field(factory=set)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """Yield the folder of its socket, which is what a pool takes for ``host``."""
        with tempfile.TemporaryDirectory(prefix="name-") as folder:
            async with await asyncio.start_unix_server(self._begin, f"{folder}/.s.PGSQL.5432"):
                yield folder
                self.move_to(self.server)
                await asyncio.gather(*self._serving)

    def move_to(self, server: PostgresServer) -> None:
        """Lead to this server, and end all connections."""
        self.server = server
        for one in self._open:
            one.abort()

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        place = f"{self.server.folder}/.s.PGSQL.5432"
        try:
            far_reader, far_writer = await asyncio.open_unix_connection(place)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer.transport, far_writer.transport}
        self._open |= ends
        ways = ((reader, far_writer), (far_reader, writer))
        copying = [asyncio.create_task(_copy(*way)) for way in ways]
        try:
            await asyncio.wait(copying, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.abort()
            self._open -= ends
            await asyncio.wait(copying)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
