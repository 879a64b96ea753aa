"""``income-client find``: finds the application with a reference."""

from typing import Annotated

from cyclopts import Parameter

from income_client import ConfigurationError

from .applications import COLUMNS, write_summary
from .connection import Connection, connect
from .exit_status import ExitStatus
from .output import say
from .rows import OutputOption, QuietOption, RowWriter


async def find(
    reference: Annotated[str, Parameter(name="REFERENCE")],
    /,
    *,
    output: OutputOption = None,
    quiet: QuietOption = False,
    connection: Connection | None = None,
) -> int:
    """Find an application by its reference.

    The reference is the application_reference_id under which the application was
    registered. Exits with 1 if there is no such application.

    Example: income-client find LOAN-2026-000123 --output jsonl

    Args:
        reference: Reference of the application.
        output: Format of the output.
        quiet: Print the id only.
        connection: The service.
    """
    rows = RowWriter(COLUMNS, output, quiet=COLUMNS[0].key if quiet else None)
    async with connect(connection) as client:
        try:
            found = await client.find_application(reference)
        except ConfigurationError as error:
            if error.argument != "application_reference_id":
                raise
            raise ConfigurationError(f"REFERENCE {error.detail}")
    if found is None:
        say(f'no application has the reference "{reference}"')
        return ExitStatus.FAILED
    with rows:
        write_summary(found, rows)
    return ExitStatus.DONE
