"""Leave behind what a user of this version has: stores, events, records, checkpoints.

A Python that has this version runs it once, beside a PostgreSQL server and a NATS server:

    python leave.py FOLDER POSTGRES_URL NATS_URL

Each store is of a poller that has delivered three applications, and could not read ``app-3``. All
were updated within its ``settle``, so that its checkpoint holds their digests. ``schema.sql`` is
what ``income-client schema postgres`` prints, ``config.toml`` what ``income-client configure``
writes.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import nats

from income_client import IncomeClient, SQLiteCheckpointStore, StoredToken, to_json
from income_client.emulator import Emulator, Fault
from income_client.engines.nats import NatsCheckpointStore, nats_publisher
from income_client.engines.postgres import PostgresCheckpointStore, PostgresTokenStore
from income_client.engines.relay import relay
from income_client.testing import JumpingClock, make_record

BEGINNING = datetime(2026, 6, 30, 12)
EXPIRY = datetime(2027, 1, 1, tzinfo=UTC)
TOKEN = StoredToken(access_token="invented-token", expires_at=EXPIRY, lifetime=3_600)
OPTIONS: Any = {"start": "2026-06-30", "once": True, "standby": True, "settle": 300}
RECORDS = [
    make_record(
        number=number,
        application_id=f"app-{number}",
        last_updated_at=BEGINNING.replace(tzinfo=UTC) - timedelta(seconds=50 - number),
    )
    for number in range(1, 5)
]


async def leave(folder: Path, postgres: str, broker: str) -> None:
    pool = await asyncpg.create_pool(postgres)
    connection = await nats.connect(broker)
    js = connection.jetstream()
    bucket = await js.create_key_value(bucket="income")
    await js.add_stream(name="UPDATES", subjects=["income.updates"])
    in_postgres = PostgresCheckpointStore(pool)
    await in_postgres.create_schema()
    for store in (SQLiteCheckpointStore(folder / "polls.db"), in_postgres):
        async with client() as one:
            async for _ in one.poll(store, **OPTIONS):
                pass
    async with client() as one:
        poller = one.poll(NatsCheckpointStore(bucket), **OPTIONS)
        await relay(poller, nats_publisher(js), payload="record")
        walk = one.list_applications(updated_after="2026-06-30")
        rows = [row async for row in walk]
    await PostgresTokenStore(pool).save(TOKEN)
    save(folder / "walk.txt", walk.checkpoint)
    save(folder / "rows.jsonl", lines(rows))
    save(folder / "records.jsonl", lines(RECORDS))
    save(folder / "postgres.json", json.dumps(await tables_of(pool), indent=1))
    entries = {key: (await bucket.get(key)).value.decode() for key in await bucket.keys()}
    save(folder / "bucket.json", json.dumps(entries, indent=1))
    save(folder / "events.json", json.dumps(await messages_of(js), indent=1))
    await connection.close()
    await pool.close()


@asynccontextmanager
async def client() -> AsyncIterator[IncomeClient]:
    """Lend a client of a service of its own."""
    clock = JumpingClock()
    async with (
        Emulator([], clock=clock, time_flows=True, start=BEGINNING) as service,
        IncomeClient(service.url, auth=service.oauth2, clock=clock) as one,
    ):
        service.faults.add(Fault("status", status=404, path="*/app-3", times=None))
        for record in RECORDS:
            content, documents = to_json(record.application), to_json(record.documents)
            service.world.add(json.loads(content), json.loads(documents))
        yield one


async def tables_of(pool: Any) -> dict[str, Any]:
    names = ("income_checkpoints", "income_dead_letters", "income_tokens")
    rows = [await pool.fetchval(f"SELECT json_agg({name}) FROM {name}") for name in names]
    return dict(zip(names, map(json.loads, rows)))


async def messages_of(js: Any) -> list[Any]:
    last = (await js.stream_info("UPDATES")).state.last_seq
    found = [await js.get_msg("UPDATES", seq) for seq in range(1, last + 1)]
    return [{"headers": one.headers, "data": one.data.decode()} for one in found]


def lines(records: list[Any]) -> str:
    return "".join(f"{to_json(record).decode()}\n" for record in records)


def save(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")


asyncio.run(leave(Path(sys.argv[1]), *sys.argv[2:]))
