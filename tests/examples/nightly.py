# nightly.py
import asyncio

from income_client import IncomeClient, SQLiteCheckpointStore


async def main() -> None:
    async with IncomeClient.from_env() as client:
        poller = client.poll(SQLiteCheckpointStore("nightly.db"), start="2026-01-01", once=True)
        async for record in poller:
            print(record.application_id, record.last_updated_at)


if __name__ == "__main__":
    asyncio.run(main())
