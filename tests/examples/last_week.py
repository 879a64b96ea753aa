# last_week.py
import asyncio
from datetime import timedelta

from income_client import FetchFailure, IncomeClient


async def main() -> None:
    async with IncomeClient.from_env() as client:
        since = await client.service_time() - timedelta(days=7)
        changed = client.list_applications(updated_after=since)
        async for record in client.fetch_records(changed, on_error="yield"):
            if isinstance(record, FetchFailure):
                print(record.application_id, "not read:", record.error)
            else:
                print(record.application_id, record.last_updated_at)


if __name__ == "__main__":
    asyncio.run(main())
