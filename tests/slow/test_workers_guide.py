"""The guide's examples of workers, run against real servers and FastStream's test brokers."""

import asyncio
import importlib.util
import json
import os
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import httpx
import pytest
from faststream.kafka import KafkaBroker, TestKafkaBroker
from faststream.rabbit import RabbitBroker, TestRabbitBroker
from faststream.redis import RedisBroker, TestRedisBroker
from nats.aio.client import Client
from nats.js.api import StreamConfig
from tests.support.readme import examples, file_name, kind_of

from income_client import IncomeClient, MemoryCheckpointStore
from income_client.emulator import Emulator
from income_client.engines.nats import nats_publisher
from income_client.engines.relay import UpdateEvent, faststream_publisher, relay
from tests.support.nats_server import NatsServer, connected
from tests.support.postgres import postgres_server
from tests.support.processes import ROOT

GUIDE: Final = ROOT / "income_client" / "guide" / "workers.md"
FILES: Final = {
    file_name(one): str(one.parsed) for one in examples(path=GUIDE) if kind_of(one) == "python"
}
APPLICATIONS: Final = 12
SECONDS: Final = 40.0
NOON: Final = datetime(2026, 6, 30, 12, tzinfo=UTC)
RUN: Final = "import asyncio, worker; asyncio.run(worker.app.run())"


@pytest.fixture
async def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Emulator]:
    """Run a service that the environment names, in a folder with the guide's files."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    async with Emulator(APPLICATIONS, days=30) as made:
        monkeypatch.setenv("INCOME_BASE_URL", made.url)
        monkeypatch.setenv("INCOME_CLIENT_ID", made.oauth2.client_id)
        monkeypatch.setenv("INCOME_CLIENT_SECRET", made.oauth2.client_secret.reveal())
        yield made


def loaded(name: str) -> ModuleType:
    """Import a file of the guide."""
    spec = importlib.util.spec_from_file_location(name, f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def until(is_true: Callable[[], Any]) -> None:
    """Wait until something holds that another process brings about."""
    async with asyncio.timeout(SECONDS):
        while not is_true():  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)


def rows() -> dict[str, str]:
    """Return what the worker has kept: times of update by application."""
    with suppress(sqlite3.OperationalError), sqlite3.connect("incomes.db") as incomes:
        return dict(incomes.execute("SELECT application_id, updated_at FROM incomes"))
    return {}


@asynccontextmanager
async def working(server: NatsServer) -> AsyncIterator[Client]:
    """Run the guide's worker as a process, with the streams that the guide names."""
    async with connected(server) as client:
        streams = client.jetstream()
        await streams.add_stream(StreamConfig(name="UPDATES", subjects=["income.updates"]))
        await streams.add_stream(StreamConfig(name="DEAD", subjects=["income.dead.>"]))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", RUN), env={**os.environ, "PYTHONPATH": f"{ROOT}:."}
        )
        try:
            yield client
        finally:
            process.terminate()
            await process.wait()


async def test_the_worker_keeps_the_last_record_of_each_application(
    service: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for all, however often its event comes; what nobody can read goes to dead letters."""
    folder = tmp_path / "nats"
    folder.mkdir()
    server = NatsServer(folder)
    monkeypatch.setenv("NATS_URL", server.url)
    try:
        async with working(server) as client, IncomeClient.from_env() as reader:
            streams = client.jetstream()
            store = MemoryCheckpointStore()
            for _ in range(2):
                poller = reader.poll(store, start="2020-01-01", once=True)
                await relay(poller, nats_publisher(streams))
                await until(lambda: len(rows()) == APPLICATIONS)
                service.touch(service.world.ids[0])
                service.advance(10)
            await until(lambda: max(rows().values()) > "2026-06-30T12")
            await streams.publish("income.updates", b"not an event")
            gone = UpdateEvent(id="1", application_id="app-gone", updated_at=NOON)
            await nats_publisher(streams)(gone)
            dead: list[str | None] = []
            async with asyncio.timeout(SECONDS):
                while len(dead) < 2:
                    await asyncio.sleep(0.05)
                    last = (await streams.stream_info("DEAD")).state.messages
                    found = [await streams.get_msg("DEAD", one + 1) for one in range(last)]
                    dead = [message.subject for message in found]
            assert sorted(map(str, dead)) == ["income.dead.deleted", "income.dead.unreadable"]
            await ask_the_backend(service.world.ids[1])
    finally:
        server.kill()


async def ask_the_backend(application_id: str) -> None:
    """Ask the guide's backend to refresh an application, and for what became of it."""
    backend = loaded("backend")
    transport = httpx.ASGITransport(backend.app)
    async with (
        backend.lifespan(backend.app),
        httpx.AsyncClient(transport=transport, base_url="http://backend") as http,
    ):
        accepted = await http.post(f"/applications/{application_id}/refresh")
        assert accepted.status_code == 202
        status = await http.get(accepted.json()["status_at"])
        assert status.json()["updated_at"] == rows()[application_id]
        assert (await http.get("/applications/none")).status_code == 404


async def test_the_relay_publishes_through_kafka(service: Emulator) -> None:
    """The checkpoint is in a file: the second run has nothing to publish."""
    broker = KafkaBroker()
    found: list[UpdateEvent] = []

    @broker.subscriber("income.updates")
    async def keep(body: Any) -> None:
        found.append(UpdateEvent.from_json(json.dumps(body)))

    service.advance(60)
    main = loaded("relay_anywhere").main
    for _ in range(2):
        service.touch(service.world.ids[0])
        async with TestKafkaBroker(broker):
            await main(broker)
        service.advance(60)
    assert {event.application_id for event in found} == {service.world.ids[0]}


@pytest.mark.parametrize("kind", ["rabbit", "redis"])
async def test_other_brokers_take_the_same_events(kind: str) -> None:
    """With the publishers that the guide names."""
    found: list[bytes] = []

    async def keep(body: Any) -> None:
        found.append(json.dumps(body).encode())

    broker: Any
    test: Any
    if kind == "rabbit":
        broker, test = RabbitBroker(), TestRabbitBroker
        publisher = broker.publisher("income.updates", persist=True)
        broker.subscriber("income.updates")(keep)
    else:
        broker, test = RedisBroker(), TestRedisBroker
        publisher = broker.publisher(stream="income.updates")
        broker.subscriber(stream="income.updates")(keep)
    event = UpdateEvent(id="1", application_id="app-1", updated_at=NOON)
    async with test(broker):
        await faststream_publisher(publisher)(event)
    assert [UpdateEvent.from_json(one) for one in found] == [event]


async def test_each_update_is_a_row_of_ones_own_database(
    service: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often the program runs."""
    with postgres_server() as server:
        place = server.address()
        url = f"postgresql://{place['user']}@/{place['database']}?host={place['host']}"
        monkeypatch.setenv("DATABASE_URL", url)
        main = loaded("exactly_once").main
        for _ in range(2):
            await main()
        async with server.pool() as pool:
            ids = await pool.fetch("SELECT application_id FROM public.updates")
    assert sorted(row["application_id"] for row in ids) == sorted(service.world.ids)
