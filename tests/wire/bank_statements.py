"""A program in which bank statements are typed too: a class of records, and an entry for it.

It prints what becomes of a statement wherever typed documents go.
"""

import asyncio
import json
import os
import sys
from contextlib import suppress
from datetime import date
from decimal import Decimal
from typing import Any, Final

from attrs import field, frozen

from income_client.records.document_types import DOCUMENT_TYPES, DocumentType
from income_client.records.fields import NO_EXTRA, masked


@frozen(kw_only=True)
class BankStatement:
    """The data that is read from a bank statement."""

    bank_name: str = field(repr=masked)
    opened_on: date
    closed_on: date
    balance: Decimal = field(repr=masked)
    bookings: tuple[Any, ...] = field(hash=False, repr=masked)
    extra: Any = field(default=NO_EXTRA, hash=False, repr=False)


KEY: Final = "bank_statement"
DOCUMENT_TYPES[KEY] = DocumentType(
    data=BankStatement,
    period=lambda statement: (statement.opened_on, statement.closed_on),
    shown=("bank_name", "balance"),
)

# What is imported from here on finds the entry in the table.
from income_client import IncomeClient  # noqa: E402
from income_client.cli import main  # noqa: E402
from income_client.exporting import to_arrow  # noqa: E402
from income_client.testing import IncomeService, make_application, make_document  # noqa: E402


def _run(*arguments: str) -> None:
    sys.argv = ["income-client", *arguments]
    with suppress(SystemExit):
        main()


async def _read(service: IncomeService, application_id: str) -> None:
    async with IncomeClient(service.url, auth=service.basic) as client:
        async for record in client.fetch_records([application_id]):
            assert record.documents is not None
            (entry,) = record.documents.all()
            (row,) = to_arrow([record]).documents.to_pylist()
            shown, exported = repr(entry.document.extracted_data), json.dumps(row, default=str)
            sys.stdout.write(f"{shown}\n{exported}\n")
            sys.stdout.flush()


def _main() -> None:
    statement = make_document(KEY, number=7)
    application = make_application(number=7, documents=[statement])
    with IncomeService(applications=0) as service:
        service.add(application, [statement])
        os.environ.update(service.environment)
        one = application.application_id
        asyncio.run(_read(service, one))
        _run("documents", one, "--output", "csv", "--type", KEY)
        _run("application", one, "--output", "table")


if __name__ == "__main__":
    _main()
