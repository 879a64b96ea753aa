"""``income-client schema``: prints the SQL of the package's database tables."""

from typing import Literal

from .exit_status import ExitStatus
from .output import write_text


def schema(database: Literal["postgres"], /) -> int:
    """Print the SQL that makes the tables in a database.

    For people whose database is migrated by others; a program makes the tables by
    create_schema() of its store. Comments say which rights a user needs. Nothing is
    connected to.

    Example: income-client schema postgres > income_client.sql

    Args:
        database: Kind of the database.

    Returns:
        The exit status.
    """
    from income_client.engines.postgres import SCHEMA

    sql = {"postgres": SCHEMA}[database]
    write_text(sql.rstrip())
    return ExitStatus.DONE
