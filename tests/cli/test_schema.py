"""``income-client schema``: the SQL of tables."""

import subprocess
import sys

from income_client.engines.postgres import SCHEMA
from tests.support.cli import Cli


def test_what_is_printed_is_what_stores_run(cli: Cli) -> None:
    shown = cli("schema", "postgres")
    assert (shown.status, shown.stdout, shown.stderr) == (0, SCHEMA, "")
    assert "--   GRANT SELECT" in shown.stdout


def test_another_database_is_a_mistake(cli: Cli) -> None:
    shown = cli("schema", "oracle")
    assert (shown.status, shown.stdout) == (2, "")
    assert "postgres" in shown.stderr


def test_the_driver_is_not_needed() -> None:
    """Those who migrate a database need not have it, nor a service."""
    script = (
        "import sys; sys.modules['asyncpg'] = None; from income_client.cli import main; "
        "sys.argv[1:] = ['schema', 'postgres']; main()"
    )
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == (SCHEMA, "")
