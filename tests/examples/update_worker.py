# update_worker.py
# pip install 'income-client[faststream]'
import asyncio
import os
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing

from faststream import FastStream
from faststream.nats import NatsBroker

from income_client import IncomeClient, to_json
from income_client.engines.faststream import update_subscriber
from income_client.engines.relay import UpdateEvent

NATS_URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")
TABLE = """CREATE TABLE IF NOT EXISTS incomes
    (application_id TEXT PRIMARY KEY, updated_at TEXT, record BLOB, writes INTEGER)"""
WRITES = "SELECT coalesce(max(writes), 0) FROM incomes WHERE application_id = ?"
UPSERT = """INSERT INTO incomes VALUES (?, ?, ?, 1) ON CONFLICT (application_id) DO UPDATE
    SET updated_at = excluded.updated_at, record = excluded.record, writes = writes + 1
    WHERE writes = ?"""


@asynccontextmanager
async def lifespan() -> AsyncGenerator[None, None]:
    global client, incomes
    with closing(sqlite3.connect("incomes.db")) as incomes:
        incomes.execute(TABLE)
        async with IncomeClient.from_env(max_rate=10) as client:
            yield


broker = NatsBroker(NATS_URL.split(","), max_reconnect_attempts=-1, ping_interval=10)
app = FastStream(broker, lifespan=lifespan)


@update_subscriber(broker, durable="incomes")
async def handle(event: UpdateEvent) -> None:
    is_kept = False
    while not is_kept:
        [writes] = incomes.execute(WRITES, (event.application_id,)).fetchone()
        record = await client.get_record(event.application_id)
        row = (record.application_id, record.last_updated_at.isoformat())
        with incomes:
            values = (*row, to_json(record), writes)
            is_kept = incomes.execute(UPSERT, values).rowcount == 1


client: IncomeClient
incomes: sqlite3.Connection

if __name__ == "__main__":
    asyncio.run(app.run())
