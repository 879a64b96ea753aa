# pay_slips.py
import asyncio
import sys

from income_client import DownloadFailure, IncomeClient


async def save(client: IncomeClient, application_ids: list[str]) -> None:
    documents = client.fetch_documents(application_ids)
    async for file in client.download_all(documents, "pay-slips", on_error="yield"):
        if isinstance(file, DownloadFailure):
            print(file.document_id, "later:" if file.error.retryable else "failed:", file.error)
        else:
            print(file.path, file.size, file.sha256)


async def main() -> None:
    async with IncomeClient.from_env() as client:
        await save(client, sys.argv[1:])


if __name__ == "__main__":
    asyncio.run(main())
