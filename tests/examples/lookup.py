# lookup.py
import asyncio
import sys

from income_client import IncomeClient, IncomeClientError, NotFoundError


async def show(client: IncomeClient, reference: str) -> None:
    summary = await client.find_application(reference)
    if summary is None:
        print("no application has this reference")
        return
    record = await client.get_record(summary)
    paystubs = record.documents.paystubs if record.documents else ()
    print(record.last_updated_at, record.application.total_income(2025), len(paystubs))


async def main(reference: str) -> None:
    async with IncomeClient.from_env() as client:
        try:
            await show(client, reference)
        except NotFoundError:
            print("deleted meanwhile")
        except IncomeClientError as error:
            print("try again later:" if error.retryable else "failed:", error)


asyncio.run(main(sys.argv[1]))
