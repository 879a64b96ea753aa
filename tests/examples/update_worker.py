# update_worker.py
# pip install 'income-client[nats]' 'faststream[nats]'
import asyncio
import os
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from typing import Annotated

from faststream import AckPolicy, Context, ContextRepo, FastStream
from faststream.nats import JStream, NatsBroker, NatsMessage, PullSub
from nats.js.api import ConsumerConfig

from income_client import DecodeError, IncomeClient, IncomeClientError, NotFoundError, to_json
from income_client.engines.relay import UpdateEvent

ATTEMPTS = 8
TABLE = """CREATE TABLE IF NOT EXISTS incomes
    (application_id TEXT PRIMARY KEY, updated_at TEXT, record BLOB, writes INTEGER)"""
UPSERT = """INSERT INTO incomes VALUES (?, ?, ?, 1) ON CONFLICT (application_id) DO UPDATE
    SET updated_at = excluded.updated_at, record = excluded.record, writes = writes + 1
    WHERE writes = ?"""
broker = NatsBroker(os.environ.get("NATS_URL", "nats://127.0.0.1:4222"))


@asynccontextmanager
async def lifespan(context: ContextRepo) -> AsyncGenerator[None, None]:
    with closing(sqlite3.connect("incomes.db")) as incomes:
        incomes.execute(TABLE)
        async with IncomeClient.from_env(max_rate=10) as client:
            context.set_global("incomes", incomes)
            context.set_global("client", client)
            yield


app = FastStream(broker, lifespan=lifespan)


async def undecoded(message: NatsMessage) -> bytes:
    return message.body


@broker.subscriber(
    "income.updates",
    stream=JStream("UPDATES", declare=False),
    durable="incomes",
    pull_sub=PullSub(batch_size=10, timeout=5),
    config=ConsumerConfig(ack_wait=150, max_deliver=ATTEMPTS + 1, max_ack_pending=100),
    ack_policy=AckPolicy.MANUAL,
    decoder=undecoded,
)
async def handle(
    message: NatsMessage,
    client: Annotated[IncomeClient, Context()],
    incomes: Annotated[sqlite3.Connection, Context()],
) -> None:
    try:
        event = UpdateEvent.from_json(message.body)
        seen = writes_of(incomes, event.application_id)
        [record] = [one async for one in client.fetch_records([event.application_id])]
        values = (record.application_id, record.last_updated_at.isoformat(), to_json(record))
        with incomes:
            is_kept = incomes.execute(UPSERT, (*values, seen)).rowcount == 1
        await (message.ack() if is_kept else message.nack(delay=1))
    except DecodeError:
        await give_up(message, "unreadable")
    except NotFoundError:
        await give_up(message, "deleted")
    except (IncomeClientError, sqlite3.OperationalError):
        attempt = message.raw_message.metadata.num_delivered
        if attempt < ATTEMPTS:
            await message.nack(delay=min(600, 5 * 2**attempt))
        else:
            await give_up(message, "failed")


def writes_of(incomes: sqlite3.Connection, application_id: str) -> int:
    query = "SELECT writes FROM incomes WHERE application_id = ?"
    row = incomes.execute(query, (application_id,)).fetchone()
    return int(row[0]) if row else 0


async def give_up(message: NatsMessage, reason: str) -> None:
    await broker.publish(message.body, f"income.dead.{reason}", stream="DEAD")
    await message.reject()


if __name__ == "__main__":
    asyncio.run(app.run())
