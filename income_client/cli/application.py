"""``income-client application``: one application to look at, on a terminal or as a page."""

import os
from contextlib import aclosing
from pathlib import Path

from income_client import (
    ApplicationRecord,
    ConfigurationError,
    IncomeClient,
    to_json,
)

from .config import Connection, connect
from .exit_status import ExitStatus
from .looking.page import page
from .looking.page_file import check_place, write_private
from .looking.reading import view_of
from .looking.terminal import show_record
from .options import MisuseError, Switch, TableOrJson
from .output import OutputLines, inert, without_addresses


async def application(
    application_id: str,
    /,
    *,
    show_personal_data: Switch = False,
    html: Path | None = None,
    overwrite: Switch = False,
    output: TableOrJson = "table",
    addresses: Switch = False,
    connection: Connection | None = None,
) -> int:
    """Show an application: its income by year, and what supports each amount.

    Bars show the income of each year and source, on one scale for all applicants.
    The documents behind an amount stand beside it, and all of them with their pay
    periods on a time line. What rests on a document that is suspected fraudulent is
    red, and said so. Who the borrowers are is hidden unless --show-personal-data is
    given.

    With --html the same goes to a page that needs no other file, has no script and
    asks for nothing; only you can read it (mode 0600). JSON is the service's own,
    with all that names the borrowers; it leaves the addresses of files out unless
    --addresses is given.

    Example: income-client application app-000001 --html app-000001.html

    Args:
        application_id: the service's id of it.
        show_personal_data: show who the borrowers are, and who employs them; JSON always does.
        html: write a page to this file instead, with mode 0600, and print its path.
        overwrite: replace that file if it is there.
        output: table, or the service's own JSON of the application and its documents.
        addresses: keep the addresses of files in JSON: who has one can read the file.
        connection: which service.

    Returns:
        The exit status: 2 for --html with JSON, and for what can be no id.
    """
    if html is not None and output == "json":
        raise MisuseError("--html writes a page, not JSON: leave --output json out")
    if html is not None:
        check_place(html, overwrite=overwrite)
    async with connect(connection) as client:
        record = await _read(client, application_id)
    if output == "json":
        _write_json(record if addresses else without_addresses(record))
        return ExitStatus.DONE
    view = view_of(record, show_personal_data=show_personal_data)
    if html is None:
        show_record(view)
    else:
        write_private(html, page(view), overwrite=overwrite)
        # The path as it is: the encoding of the output need not have its letters.
        OutputLines().write(os.fsencode(html))
    return ExitStatus.DONE


async def _read(client: IncomeClient, application_id: str) -> ApplicationRecord:
    async with aclosing(client.fetch_records([application_id], pages=False)) as records:
        try:
            return await anext(records)
        except ConfigurationError as error:
            raise MisuseError(error.message) from None


def _write_json(record: ApplicationRecord) -> None:
    OutputLines().write(inert(to_json(record)))
