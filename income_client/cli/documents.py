"""``income-client documents``: lists documents of applications, with the data read from them."""

from collections.abc import Mapping
from contextlib import aclosing
from typing import Annotated, Any, Final

import msgspec
from attrs import evolve
from cyclopts import Parameter
from rich.text import Text

from income_client import (
    ApplicationDocuments,
    AuthenticationError,
    Document,
    DocumentEntry,
    FetchFailure,
    Paystub,
    to_json,
)

from .config import Connection, connect, described
from .exit_status import ExitStatus
from .options import Chosen, DocumentTypes, IdArgument, Switch, TypesOption
from .output import Column, OutputOption, QuietOption, RowWriter, counted
from .progress import StatusLine, say_warnings

_COLUMNS: Final = (
    Column("application_id", "Application"),
    Column("document_type", "Type", is_optional=True),
    Column("document_id", "Document", style="cyan"),
    Column("pay_begin_date", "From", is_optional=True),
    Column("pay_end_date", "To", is_optional=True),
    Column("files", "Files", "right", is_optional=True),
    Column("updated_at", "Updated", is_optional=True),
    Column("data_action", "Action", is_optional=True),
)
_PAGES: Final = Column("pages", "Pages", "right", is_optional=True)


async def documents(
    *applications: Annotated[IdArgument, Parameter(required=True)],
    type_: TypesOption = (),
    pages: Switch = False,
    addresses: Switch = False,
    output: OutputOption = None,
    quiet: QuietOption = False,
    connection: Connection | None = None,
) -> int:
    """List documents of applications, with the data read from them.

    JSON holds all of it, a document a line, with its application and its type, and
    so it names the borrowers. The addresses of files are left out unless
    --addresses is given: who has one can read the file. The output is a table on a
    terminal and JSON lines elsewhere. Ids come from standard input where - stands
    for them. The exit status is 1 if the documents of an application could not be
    read, while the others are listed, or if no document has a type that was asked
    for (paystub may be missing); 4 if the credentials are refused.

    Example: income-client documents app-000001 --type paystub

    Args:
        applications: whose documents; - for ids on standard input.
        type_: only documents of this type, such as paystub; may be repeated.
        pages: ask for their pages too.
        addresses: keep the addresses of files in JSON: who has one can read the file.
        output: how; a table on a terminal, else JSON lines.
        quiet: only ids of documents, one a line.
        connection: which service.

    Returns:
        The exit status: 1 if the documents of an application could not be read, or if no
            document has a type that was asked for and that may be misspelt.
    """
    line = StatusLine()
    say_warnings(line.say)
    chosen = Chosen(applications, on_known=lambda _: None)
    columns = (*_COLUMNS[:6], _PAGES, *_COLUMNS[6:]) if pages else _COLUMNS
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
                async for found in fetched:
                    if isinstance(found, FetchFailure):
                        if isinstance(found.error, AuthenticationError):
                            raise found.error  # the same of every other application
                        failures += 1
                        line.say(described(client, found.error))
                        continue
                    for entry in types.chosen(found):
                        _write(found, entry, rows, keeps_address=addresses)
                    line.draw((Text(counted(rows.rows, "document"), style="bold cyan"),))
    finally:
        line.clear()
    if failures:
        return ExitStatus.FAILED
    if types.missing is not None:
        line.say(types.missing)
    elif not rows.rows and not quiet:
        line.say("there are no documents")
    return ExitStatus.DONE if types.are_known else ExitStatus.FAILED


def _write(
    whose: ApplicationDocuments, entry: DocumentEntry, rows: RowWriter, *, keeps_address: bool
) -> None:
    document = entry.document
    place = {"application_id": whose.application_id, "document_type": entry.document_type}
    row: dict[str, object] = {
        **place,
        "document_id": document.document_id,
        **_period(document),
        "files": len(document.file_ids),
        "pages": _count(document.pages),
        "updated_at": document.updated_at,
        "data_action": document.data_action,
    }
    # An address is as secret as its file, and lines are kept for longer than it is good for.
    shown = document if keeps_address else evolve(document, url="")
    rows.write(row, msgspec.json.encode({**place, "document": msgspec.Raw(to_json(shown))}))


def _period(document: Document) -> Mapping[str, object]:
    match document.extracted_data:
        case Paystub(pay_begin_date=begin, pay_end_date=end):
            return {"pay_begin_date": begin, "pay_end_date": end}
        case _:
            return {}


def _count(pages: Any) -> int | None:
    """Return how many pages there are, as far as that shows: the contract has no form of them."""
    match pages:
        case list() | tuple():
            return len(pages)
        case {"count": int(count)}:
            return count
        case _:
            return None
