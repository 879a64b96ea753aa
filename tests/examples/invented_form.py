# invented_form.py
import asyncio
import sys
from decimal import Decimal

from attrs import frozen

from income_client import IncomeClient, register_document_type


@frozen
class InventedForm:
    employer_name: str
    year: int
    wages: Decimal


async def main() -> None:
    register_document_type("invented_form", InventedForm)
    async with IncomeClient.from_env() as client:
        async for documents in client.fetch_documents(sys.argv[1:]):
            for document in documents:
                if isinstance(document.extracted_data, InventedForm):
                    print(document.document_type, document.extracted_data.year)


if __name__ == "__main__":
    asyncio.run(main())
