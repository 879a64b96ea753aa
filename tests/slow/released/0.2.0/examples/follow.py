# follow.py
import asyncio
import signal

from income_client import IncomeClient, SQLiteCheckpointStore


async def main() -> None:
    async with IncomeClient.from_env() as client:
        poller = client.poll(SQLiteCheckpointStore("polls.db"), start="2026-01-01")
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, poller.stop)
        async for record in poller:
            print(record.application_id, record.last_updated_at, flush=True)


asyncio.run(main())
