"""``income-client documents``: lists the documents of applications."""

from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from attrs import evolve
from cyclopts import Parameter
from rich.text import Text

from .connection import Connection, connect, described, is_of_the_account
from .exit_status import ExitStatus
from .options import STANDARD_INPUT, Chosen, DocumentTypes, IdArgument, Switch, TypesOption
from .output import counted, say
from .progress import StatusLine
from .rows import Column, OutputOption, QuietOption, RowWriter

if TYPE_CHECKING:
    from income_client import ApplicationDocuments, Document
    from income_client.records import DocumentEntry

_COLUMNS: Final = (
    Column("application_id", "Application"),
    Column("document_type", "Type", dropped=1),
    Column("document_id", "Document", style="cyan"),
    Column("pay_begin_date", "From", dropped=2),
    Column("pay_end_date", "To", dropped=2),
    Column("files", "Files", "right", dropped=3),
    Column("updated_at", "Updated", dropped=4),
    Column("data_action", "Action", dropped=5),
)
_PAGES: Final = Column("pages", "Pages", "right", dropped=3)
_FIRST_DROPPED: Final = 6


async def documents(
    *applications: Annotated[IdArgument, Parameter(required=True)],
    type_: TypesOption = (),
    pages: Switch = False,
    addresses: Switch = False,
    output: OutputOption = None,
    quiet: QuietOption = False,
    connection: Connection | None = None,
) -> int:
    """List the documents of applications.

    The output is a table on a terminal and JSON lines elsewhere. JSON has a
    document a line, with all data read from it, which includes names of the
    borrowers.

    Exits with 1 if the documents of an application could not be read, or if no
    document has a type that was asked for. The type paystub may be missing.

    Example: income-client documents app-000001 --type paystub

    Args:
        applications: Ids of applications; - reads them from standard input.
        type_: Only documents of this type, such as paystub. May be repeated.
        pages: Include the pages of each document.
        addresses: Include the signed addresses of files in JSON; anybody can use them.
        output: Format of the output.
        quiet: Print ids of documents only, one a line.
        connection: The service.
    """
    from income_client import FetchFailure

    line = StatusLine()
    chosen = Chosen(applications)
    columns = (*_COLUMNS[:6], _PAGES, *_COLUMNS[6:]) if pages else _COLUMNS
    if len(applications) == 1 and applications[0] != STANDARD_INPUT:
        # The one that was asked for says nothing in each row.
        columns = (evolve(columns[0], dropped=_FIRST_DROPPED), *columns[1:])
    alone = "document_id" if quiet else None
    rows = RowWriter(columns, output, quiet=alone, before=line.make_way)
    failures = 0
    types = DocumentTypes(type_)
    try:
        async with (
            connect(connection) as client,
            aclosing(client.fetch_documents(chosen.ids(), pages, on_error="yield")) as fetched,
        ):
            with rows:
                async for outcome in fetched:
                    if isinstance(outcome, FetchFailure):
                        if is_of_the_account(outcome.error):
                            raise outcome.error  # the same of every other application
                        failures += 1
                        say(described(client, outcome.error))
                        continue
                    for entry in types.chosen(outcome):
                        _write_document(outcome, entry, rows, keeps_address=addresses)
                    line.draw((Text(counted(rows.rows, "document"), style="bold cyan"),))
    finally:
        line.stop()
    if failures:
        return ExitStatus.FAILED
    if types.missing is not None:
        say(types.missing)
    elif not rows.rows and not quiet:
        say("there are no documents")
    return ExitStatus.DONE if types.are_known else ExitStatus.FAILED


def _write_document(
    whose: "ApplicationDocuments", entry: "DocumentEntry", rows: RowWriter, *, keeps_address: bool
) -> None:
    from income_client import to_json

    document = entry.document
    place = {"application_id": whose.application_id, "document_type": entry.document_type}
    row: dict[str, object] = {
        **place,
        "document_id": document.document_id,
        **_period_of(document),
        "files": len(document.file_ids),
        "pages": _count_pages(document.pages),
        "updated_at": document.updated_at,
        "data_action": document.data_action,
    }
    # An address is as secret as its file, and lines are kept for longer than it is good for.
    url = document.url if keeps_address else ""
    visible = evolve(document, url=url, source=None)  # the line has both parts of it
    rows.write(row, msgspec.json.encode({**place, "document": msgspec.Raw(to_json(visible))}))


def _period_of(document: "Document") -> Mapping[str, object]:
    from income_client.records.document_types import type_of

    match type_of(document.extracted_data).period(document.extracted_data):
        case begin, end:
            return {"pay_begin_date": begin, "pay_end_date": end}
        case None:
            return {}


def _count_pages(pages: Any) -> int | None:
    """Return the number of pages where it is visible: the contract does not show their form."""
    match pages:
        case list() | tuple():
            return len(pages)
        case {"count": int(count)}:
            return count
        case _:
            return None
