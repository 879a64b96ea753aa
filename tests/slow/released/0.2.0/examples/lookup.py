# lookup.py
import asyncio
import sys

from income_client import IncomeClient, IncomeClientError, NotFoundError


async def show(client: IncomeClient, reference: str) -> None:
    summary = await client.find_application(reference)
    if summary is None:
        print("no application has this reference")
        return
    application = await client.get_application(summary.application_id)
    documents = await client.get_documents(summary.application_id)
    print(application.last_updated_at, application.total_income(2025))
    for document_type, document in documents.all():
        print(document_type, document.document_id, document.updated_at)


async def main(reference: str) -> None:
    async with IncomeClient.from_env() as client:
        try:
            await show(client, reference)
        except NotFoundError:
            print("deleted meanwhile")
        except IncomeClientError as error:
            print("try again later:" if error.retryable else "failed:", error)


asyncio.run(main(sys.argv[1]))
