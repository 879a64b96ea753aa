# application_files.py
import asyncio
import sys

from income_client import IncomeClient


async def main() -> None:
    async with IncomeClient.from_env() as client:
        documents = await client.get_documents(sys.argv[1])
        async for file in client.download_all(documents, "files", keep_partial=True):
            print(file.path, "was there" if file.was_there else "downloaded")


if __name__ == "__main__":
    asyncio.run(main())
