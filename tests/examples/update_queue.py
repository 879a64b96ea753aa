# update_queue.py
# pip install 'income-client[redis]'
import asyncio
import os
import sys

from income_client import IncomeClient, SQLiteCheckpointStore
from income_client.engines.relay import UpdateEvent, relay
from income_client.engines.worker import Worker
from income_client.engines.worker_redis import redis_events, redis_publisher

URL = os.environ.get("QUEUE_URL", "redis://127.0.0.1:6379")


async def publish() -> None:
    store = SQLiteCheckpointStore("relay.db")
    async with IncomeClient.from_env() as client, redis_publisher(URL) as send:
        await relay(client.poll(store, start="2026-01-01", documents=False), send)


async def handle(event: UpdateEvent) -> None:
    print(event.application_id)


async def work() -> None:
    await Worker(handle, redis_events(URL, group="incomes")).run(until_signal=True)


if __name__ == "__main__":
    asyncio.run(publish() if sys.argv[1:] == ["relay"] else work())
