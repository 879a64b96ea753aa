# w2.py
import asyncio
import sys
from decimal import Decimal

from attrs import frozen

from income_client import IncomeClient, register_document_type


@frozen
class W2:
    employer_name: str
    tax_year: int
    wages_tips_other_compensation: Decimal


async def main() -> None:
    register_document_type("w2", W2)
    async with IncomeClient.from_env() as client:
        async for documents in client.fetch_documents(sys.argv[1:]):
            for document_type, document in documents.all():
                if isinstance(document.extracted_data, W2):
                    print(document_type, document.extracted_data.tax_year)


if __name__ == "__main__":
    asyncio.run(main())
