"""``income-client find``: finds the application with a reference of the partner's own."""

from typing import Annotated

from cyclopts import Parameter

from income_client import ConfigurationError

from .applications import COLUMNS, write_summary
from .config import Connection, connect
from .exit_status import ExitStatus
from .options import MisuseError
from .output import OutputOption, QuietOption, RowWriter, say


async def find(
    reference: Annotated[str, Parameter(name="REFERENCE")],
    /,
    *,
    output: OutputOption = None,
    quiet: QuietOption = False,
    connection: Connection | None = None,
) -> int:
    """Find the application with a reference of your own.

    The exit status is 1 if there is none.

    Example: income-client find LOAN-2026-000123 --output jsonl

    Args:
        reference: the application_reference_id under which it was registered.
        output: how; a table on a terminal, else JSON lines.
        quiet: only its id.
        connection: which service.

    Returns:
        The exit status: 1 if there is none, 2 for what can be no reference.
    """
    rows = RowWriter(COLUMNS, output, quiet=COLUMNS[0].key if quiet else None)
    async with connect(connection) as client:
        try:
            found = await client.find_application(reference)
        except ConfigurationError as error:
            raise MisuseError(error.message) from None
    if found is None:
        say(f"no application has the reference {reference}")
        return ExitStatus.FAILED
    with rows:
        write_summary(found, rows)
    return ExitStatus.DONE
