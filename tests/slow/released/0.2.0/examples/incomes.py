# incomes.py
import asyncio
from datetime import timedelta

from income_client import IncomeClient


async def main() -> None:
    async with IncomeClient.from_env() as client:
        week_ago = await client.service_time() - timedelta(days=7)
        changed = client.list_applications(updated_after=week_ago)
        async for record in client.fetch_records(changed):
            for name, calculation in record.application.income_calculations.items():
                for income in calculation.incomes:
                    print(record.application_id, name, income.year, income.total)


asyncio.run(main())
