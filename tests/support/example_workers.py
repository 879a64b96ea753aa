"""How the examples of relays and workers are run, and what must come of each."""

import asyncio
import contextlib
import re
import shlex
import sqlite3
from argparse import ArgumentParser
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from nats.aio.client import Client
from nats.js.api import StreamConfig

from income_client import IncomeClient, MemoryCheckpointStore
from income_client.emulator import Emulator
from income_client.engines.nats import nats_publisher
from income_client.engines.relay import UpdateEvent, relay
from tests.support import rabbit_server, redis_server
from tests.support.examples import RunExample, loaded, started, until
from tests.support.nats_server import NatsServer, connected
from tests.support.pages import EXAMPLES, commands
from tests.support.postgres import postgres_server

_SHOWN_URL: Final = "nats://127.0.0.1:4222"
_UPDATED: Final = 5
_SECONDS: Final = 40.0


@contextlib.contextmanager
def _nats(folder: Path) -> Any:
    """Run a server, which the environment names."""
    data = folder / "nats"
    data.mkdir()
    server = NatsServer(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NATS_URL", server.url)
        try:
            yield server
        finally:
            server.kill()


async def _set_up(client: Client) -> None:
    """Make the streams and the bucket as the commands of the page do, on one server."""
    parser = ArgumentParser()
    parser.add_argument("--subjects")
    parser.add_argument("--storage", choices=["file"])
    parser.add_argument("--replicas", type=int)
    parser.add_argument("--dupe-window", choices=["10m"])
    parser.add_argument("--max-age", choices=["14d"])
    parser.add_argument("--history", type=int)
    parser.add_argument("--defaults", action="store_true")
    streams = client.jetstream()
    for command in commands("nats"):
        _, kind, verb, name, *flags = shlex.split(command)
        given = parser.parse_args(flags)
        assert verb == "add"
        if kind == "kv":
            await streams.create_key_value(bucket=name, history=given.history)
        else:
            await streams.add_stream(StreamConfig(name=name, subjects=[given.subjects]))


@asynccontextmanager
async def _working(service: Emulator, folder: Path) -> AsyncIterator[Client]:
    """Run the worker as a process, with what it needs on a server."""
    name = "update_worker.py"
    (folder / name).write_text((EXAMPLES / name).read_text("utf-8"), "utf-8")
    with _nats(folder) as server:
        async with connected(server) as client:
            await _set_up(client)
            worker = ("-W", "default", name)
            process = await started(service, folder, *worker, NATS_URL=server.url)
            try:
                yield client
                assert process.returncode is None, "the worker has ended"
            finally:
                with suppress(ProcessLookupError):
                    process.terminate()
                _, complaints = await process.communicate()
            assert "Traceback" not in complaints.decode()
            assert process.returncode == 0


def _kept() -> dict[str, str]:
    """Return what the worker keeps: times of update by application."""
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect("incomes.db")) as incomes:
        return dict(incomes.execute("SELECT application_id, updated_at FROM incomes"))
    return {}


def _is_kept(chosen: Sequence[str], known: Mapping[str, str]) -> Callable[[], bool]:
    return lambda: sorted(_kept()) == sorted(chosen) and _kept() != known


async def keeps_the_last_record(service: Emulator, path: Path) -> None:
    """One row for each application; what cannot be read goes to the dead letters."""
    chosen = service.world.ids[:_UPDATED]
    async with _working(service, path.parent) as client, IncomeClient.from_env() as reader:
        store, before = MemoryCheckpointStore(), datetime.now(UTC) + timedelta(seconds=30)
        service.advance(60)
        for updated in (chosen, chosen[:1]):
            known = _kept()
            for one in updated:
                service.touch(one)
            service.advance(10)
            poller = reader.poll(store, start=before, once=True)
            await relay(poller, nats_publisher(client.jetstream()))
            await until(_is_kept(chosen, known))
        await client.jetstream().publish("income.updates", b"not an event")
        gone = UpdateEvent(id="1", application_id="app-gone", updated_at=datetime.now(UTC))
        await nats_publisher(client.jetstream())(gone)
        assert await _dead(client, 2) == ["income.dead.deleted", "income.dead.unreadable"]


async def _dead(client: Client, count: int) -> list[str]:
    """Wait for some dead letters, and return their subjects."""
    streams = client.jetstream()
    async with asyncio.timeout(_SECONDS):
        while (await streams.stream_info("DEAD")).state.messages < count:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    letters = [await streams.get_msg("DEAD", one + 1) for one in range(count)]
    return sorted(str(letter.subject) for letter in letters)


async def enqueues_and_answers(service: Emulator, path: Path) -> None:
    """A refresh is accepted, and the worker does it."""
    async with _working(service, path.parent):
        backend = loaded(path)
        transport = httpx.ASGITransport(backend.app)
        async with (
            backend.app.router.lifespan_context(backend.app),
            httpx.AsyncClient(transport=transport, base_url="http://backend") as http,
        ):
            chosen = service.world.ids[0]
            accepted = await http.post(f"/applications/{chosen}/refresh")
            assert accepted.status_code == 202
            assert accepted.json()["application_id"] == chosen
            await until(lambda: chosen in _kept())


def _migration_of(path: Path) -> str:
    (statement,) = re.findall(r"migrations make the table: (.*)", path.read_text("utf-8"))
    return str(statement)


async def writes_each_update_once(service: Emulator, path: Path) -> None:
    """However often the program runs, each update is one row."""
    with postgres_server() as server:
        place = server.address()
        url = f"postgresql://{place['user']}@/{place['database']}?host={place['host']}"
        migration = _migration_of(path)
        async with server.pool() as pool:
            await pool.execute(migration.replace("updates", "public.updates"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DATABASE_URL", url)
            main = loaded(path).main
            for _ in range(2):
                await main(once=True)
        async with server.pool() as pool:
            rows = await pool.fetch("SELECT application_id FROM public.updates")
    assert sorted(row["application_id"] for row in rows) == sorted(service.world.ids)


async def queues_on_brokers(service: Emulator, path: Path) -> None:
    """On Redis as it is shown, and on RabbitMQ with the other two functions."""
    if redis_server.EXECUTABLE is None or not rabbit_server.LAUNCHER.exists():
        pytest.skip("no redis-server or no rabbitmq-server; Debian has both")
    text = (EXAMPLES / "update_queue.py").read_text("utf-8")
    on_rabbit = text.replace(', group="incomes"', "").replace("redis_", "rabbit_")
    on_rabbit = on_rabbit.replace("worker_redis", "worker_rabbit")
    folder = path.parent / "redis"
    folder.mkdir()
    for redis in redis_server.running_redis(folder, *redis_server.DURABLE):
        await _publishes_and_works(service, folder, text, redis.url)
    folder = path.parent / "rabbit"
    folder.mkdir()
    for rabbit in rabbit_server.running_rabbit(folder):
        await _publishes_and_works(service, folder, on_rabbit, rabbit.url)


async def _publishes_and_works(service: Emulator, folder: Path, text: str, url: str) -> None:
    """The worker prints each application; SIGTERM ends both."""
    (folder / "update_queue.py").write_text(text, "utf-8")
    program = ("-W", "default", "update_queue.py")
    publishing = await started(service, folder, *program, "relay", QUEUE_URL=url)
    working = await started(service, folder, *program, QUEUE_URL=url)
    assert working.stdout is not None
    printed: set[str] = set()
    try:
        async with asyncio.timeout(_SECONDS):
            while printed != set(service.world.ids):
                printed.add((await working.stdout.readline()).decode().strip())
    finally:
        for process in (publishing, working):
            with suppress(ProcessLookupError):
                process.terminate()
        _, complaints = await working.communicate()
        await publishing.communicate()
    assert complaints == b""
    assert working.returncode == 0


async def relays_by_command(service: Emulator, folder: Path, command: str) -> None:
    """The line works on a server that is set up as the page says; one poll is enough here."""
    with _nats(folder) as server:
        async with connected(server) as client:
            await _set_up(client)
            _, *words = shlex.split(command.replace(_SHOWN_URL, server.url))
            start = () if "--start" in words else ("--start", "beginning")
            run = ("-m", "income_client.cli", *words, *start, "--once")
            process = await started(service, folder, *run)
            _, said = await process.communicate()
            begins, did = said.decode().splitlines()
            stored = (await client.jetstream().stream_info("UPDATES")).state.messages
    assert (process.returncode, stored) == (0, len(service.world.ids))
    assert "'relay' is new in bucket income, begins at 1970-01-01 00:00:00" in begins
    assert f"1 poll, {stored} records" in did


RUN: Final[Mapping[str, RunExample]] = {
    "exactly_once.py": writes_each_update_once,
    "update_backend.py": enqueues_and_answers,
    "update_queue.py": queues_on_brokers,
    "update_worker.py": keeps_the_last_record,
}
