"""The nightly report, started by a scheduler: nothing of it is asynchronous from outside."""

import asyncio

from income_client import IncomeClient

from .decisions import income_of


async def _incomes() -> dict[str, str]:
    async with IncomeClient.from_env() as client:
        ids = [summary.application_id async for summary in client.list_applications()]
        return {
            record.application_id: f"{income_of(record.application):.2f}"
            async for record in client.fetch_records(ids, documents=False)
        }


def report() -> dict[str, str]:
    """Return the income of every application."""
    return asyncio.run(_incomes())
