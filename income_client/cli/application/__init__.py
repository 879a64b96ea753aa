"""``income-client application``: one application to look at, on a terminal or as a page."""

import os
import shlex
from contextlib import aclosing
from pathlib import Path

from income_client import ConfigurationError, NotFoundError, to_json
from income_client.cli.connection import Connection, connect
from income_client.cli.exit_status import ExitStatus
from income_client.cli.options import Switch, TableOrJson
from income_client.cli.output import OutputLines, inert, without_addresses
from income_client.cli.private_file import write_private


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
    """Show an application: its income by year, and the documents behind each amount.

    Bars show the income of each year and source, on one scale for all applicants.
    Each amount has its documents beside it; below, all documents are on a time
    line with their pay periods. Amounts that rest on a document suspected to be
    fraudulent are red, and marked with an exclamation mark. Personal data is
    hidden unless --show-personal-data is given.

    --html writes a page instead: one file without scripts that loads nothing and
    that only you can read (mode 0600). JSON is the service's own, personal data
    included; signed addresses of files are left out unless --addresses is given.

    Example: income-client application app-000001 --html app-000001.html

    Args:
        application_id: Id of the application.
        show_personal_data: Show names, numbers, addresses and employers.
        html: Write a page to this file and print its path.
        overwrite: Replace that file if it exists.
        output: Format of the output.
        addresses: Include the signed addresses of files in JSON, with which anyone can read them.
        connection: The service.
    """
    if html is not None and output == "json":
        raise ConfigurationError("--html writes a page, not JSON: leave --output json out")
    async with (
        connect(connection) as client,
        aclosing(client.fetch_records([application_id])) as records,
    ):
        try:
            record = await anext(records)
        except NotFoundError as error:
            reference = shlex.quote(application_id)
            error.add_note(f"(a reference has its id from income-client find {reference})")
            raise
    if output == "json":
        OutputLines().write(inert(to_json(record if addresses else without_addresses(record))))
        return ExitStatus.DONE
    # Not needed for help and JSON.
    from .view import view_of

    view = view_of(record, show_personal_data=show_personal_data)
    if html is None:
        from .terminal import show

        show(view)
    else:
        from .html import page

        write_private(html, page(view), overwrite=overwrite)
        # The path as it is: the encoding of the output need not have its letters.
        OutputLines().write(os.fsencode(html))
    return ExitStatus.DONE
