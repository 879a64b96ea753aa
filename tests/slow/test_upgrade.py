"""What the last version has left behind is read, and no update is lost or delivered again.

``released/VERSION/left`` holds it; ``leave.py`` there says how it was made. Since then, two of its
applications were updated, and ``app-3`` can be read again.
"""

import json
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from nats.js.kv import KeyValue

from income_client import (
    ApplicationRecord,
    ApplicationSummary,
    CheckpointStore,
    IncomeClient,
    SQLiteCheckpointStore,
    from_json,
    to_json,
)
from income_client.emulator import Emulator
from income_client.engines.nats import NatsCheckpointStore
from income_client.engines.postgres import PostgresCheckpointStore, PostgresTokenStore
from income_client.engines.relay import UpdateEvent
from income_client.testing import JumpingClock, make_record
from tests.slow.last_version import KEPT
from tests.support.nats_server import NatsServer, bucket, connected, running_server
from tests.support.postgres import PostgresServer, postgres_server

LEFT: Final = KEPT / "left"
NOON: Final = datetime(2026, 6, 30, 12, tzinfo=UTC)
LATER: Final = timedelta(minutes=10)
UPDATED: Final = ["app-2", "app-3", "app-5"]
"""The applications that 0.2.0 has not delivered in their present version."""


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    yield from running_server(tmp_path_factory.mktemp("nats"))


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@asynccontextmanager
async def pool_left(postgres: PostgresServer) -> AsyncIterator[Any]:
    """Lend a pool of a schema with the tables and rows that are left, and no others."""
    async with postgres.pool() as pool:
        await pool.execute((LEFT / "schema.sql").read_text("utf-8"))
        for table, rows in json.loads((LEFT / "postgres.json").read_text("utf-8")).items():
            fill = f"INSERT INTO {table} SELECT * FROM json_populate_recordset(NULL::{table}, $1)"
            await pool.execute(fill, json.dumps(rows))
        yield pool


@asynccontextmanager
async def bucket_left(server: NatsServer) -> AsyncIterator[KeyValue]:
    """Lend a bucket with the entries that are left."""
    async with connected(server) as connection:
        kv = await bucket(connection)
        for key, text in json.loads((LEFT / "bucket.json").read_text("utf-8")).items():
            await kv.put(key, text.encode())
        yield kv


@asynccontextmanager
async def store_left(
    kind: str, folder: Path, postgres: PostgresServer, nats_server: NatsServer
) -> AsyncIterator[CheckpointStore]:
    """Lend the store of this kind that is left."""
    match kind:
        case "sqlite":
            yield SQLiteCheckpointStore(shutil.copy(LEFT / "polls.db", folder))
        case "nats":
            async with bucket_left(nats_server) as kv:
                yield NatsCheckpointStore(kv)
        case _:
            async with pool_left(postgres) as pool:
                store = PostgresCheckpointStore(pool)
                if kind == "postgres, its schema made anew":
                    await store.create_schema()
                yield store


def records_left() -> list[ApplicationRecord]:
    lines = (LEFT / "records.jsonl").read_text("utf-8").splitlines()
    return [from_json(ApplicationRecord, line) for line in lines]


@asynccontextmanager
async def later() -> AsyncIterator[IncomeClient]:
    """Lend a client of the service, ten minutes after the last poll."""
    clock = JumpingClock()
    known = {record.application_id: record for record in records_left()}
    for number in (2, 5):
        updated = make_record(
            number=number, application_id=f"app-{number}", last_updated_at=NOON + LATER / 2
        )
        known[updated.application_id] = updated
    start = (NOON + LATER).replace(tzinfo=None)
    async with (
        Emulator([], clock=clock, time_flows=True, start=start) as service,
        IncomeClient(service.url, auth=service.oauth2, clock=clock) as client,
    ):
        for record in known.values():
            content, documents = to_json(record.application), to_json(record.documents)
            service.world.add(json.loads(content), json.loads(documents))
        yield client


@pytest.mark.parametrize("standby", [False, True])
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "postgres, its schema made anew", "nats"])
async def test_pollers_resume(
    kind: str, standby: bool, tmp_path: Path, postgres: PostgresServer, nats_server: NatsServer
) -> None:
    """An update since the last poll comes, and so does what could not be read; nothing else."""
    options: dict[str, Any] = {"once": True, "standby": standby, "must_exist": True}
    async with store_left(kind, tmp_path, postgres, nats_server) as store, later() as client:
        found = [record.application_id async for record in client.poll(store, **options)]
        assert sorted(found) == UPDATED
        assert await store.dead_letters("default") == ()
        assert [record async for record in client.poll(store, **options)] == []


async def test_walks_resume() -> None:
    """A walk continues behind what the last version had covered."""
    async with later() as client:
        walk = client.list_applications(resume=(LEFT / "walk.txt").read_text("utf-8"))
        assert sorted([row.application_id async for row in walk]) == ["app-2", "app-5"]


def test_records_are_read() -> None:
    """Records and rows are read from their texts, which would be written as they were."""
    for path, kind in (("records.jsonl", ApplicationRecord), ("rows.jsonl", ApplicationSummary)):
        lines = (LEFT / path).read_bytes().splitlines()
        assert lines
        for line in lines:
            assert to_json(from_json(kind, line)) == line


def test_events_are_read() -> None:
    """A worker reads what a relay of the last version has published."""
    events = json.loads((LEFT / "events.json").read_text("utf-8"))
    read = [UpdateEvent.from_json(event["data"]) for event in events]
    assert [event.application_id for event in read] == ["app-1", "app-2", "app-4"]
    assert [event.id for event in read] == [event["headers"]["Nats-Msg-Id"] for event in events]
    known = {record.application_id: record for record in records_left()}
    assert all(event.record == known[event.application_id] for event in read)


async def test_a_shared_token_is_read(postgres: PostgresServer) -> None:
    """The token that processes share need not be requested again."""
    async with pool_left(postgres) as pool:
        token = await PostgresTokenStore(pool).load()
    assert token is not None
    assert token.access_token.reveal() == "invented-token"


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    """Return a copy of the file that `configure` has written."""
    path = Path(shutil.copy(LEFT / "config.toml", tmp_path))
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    ("profile", "host"), [(None, "income.example"), ("staging", "staging.example")]
)
async def test_a_configuration_file_is_read(
    profile: str | None, host: str, configuration: Path
) -> None:
    """Each profile has an address and credentials."""
    async with IncomeClient.from_config(profile, configuration) as client:
        assert host in repr(client)
