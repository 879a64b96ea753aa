"""``income-client find``: finds the application with a reference of the partner's own."""

import sys
from typing import Annotated, Final

from cyclopts import Parameter

from .accounts.connecting import Connection, connect
from .applications import COLUMNS, write_summary
from .output.printable import printable
from .output.tables import OutputOption, QuietOption, RowWriter

_NONE: Final = 1


async def find(
    reference: Annotated[str, Parameter(name="REFERENCE")],
    /,
    *,
    output: OutputOption = None,
    quiet: QuietOption = False,
    connection: Connection | None = None,
) -> int:
    """Find the application with a reference of your own.

    Args:
        reference: the application_reference_id under which it was registered.
        output: how; a table on a terminal, else JSON lines.
        quiet: only its id.
        connection: which service.

    Returns:
        The exit status: 1 if there is none.
    """
    rows = RowWriter(COLUMNS, output, quiet=COLUMNS[0].key if quiet else None)
    async with connect(connection) as client:
        found = await client.find_application(reference)
    if found is None:
        message = f"no application has the reference {printable(reference)}"
        print(f"income-client: {message}", file=sys.stderr)
        return _NONE
    with rows:
        write_summary(found, rows)
    return 0
