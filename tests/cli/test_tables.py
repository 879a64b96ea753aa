"""Rows on standard output: their forms, a terminal, a closed pipe and a full disk."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.cli.entry import ROOT, Terminal, environment

SCRIPT: Final = """
import sys
from datetime import datetime
from decimal import Decimal
from income_client import IncomeClientError
from income_client.cli.output.tables import Column, RowWriter

columns = (
    Column("id", "Id", style="cyan"),
    Column("at", "When"),
    Column("amount", "Amount", "right"),
    Column("note", "Note", is_optional=True),
)
output, quiet, count, fails = sys.argv[1:]
try:
    with RowWriter(columns, output or None, quiet=quiet or None) as rows:
        for number in range(int(count)):
            row = {
                "id": f"app-{number}",
                "at": datetime(2026, 1, 31),
                "amount": Decimal("1.50") * number,
                "note": "=\\x1b[2J" + "long " * 12,
            }
            rows.write(row, b'{"whole":"\\xc2\\x9b"}' if number == 1 else None)
        if fails:
            raise IncomeClientError("enough")
except IncomeClientError as error:
    sys.exit(str(error))
"""


def write(
    output: str = "", quiet: str = "", count: int = 3, fails: str = "", **others: str
) -> "subprocess.CompletedProcess[str]":
    """Write some rows to a pipe."""
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, output, quiet, str(count), fails],
        capture_output=True,
        encoding="utf-8",
        env=environment(**others),
        cwd=ROOT,
        check=False,
        timeout=50,
    )


def on_terminal(*arguments: str, count: int = 3, width: int = 80, **others: str) -> str:
    """Write some rows to a terminal of 24 lines, and return what it got."""
    terminal = Terminal(width=width)
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *(arguments or ("", "")), str(count), ""],
        stdout=terminal.device,
        stderr=terminal.device,
        env=environment(**others),
        cwd=ROOT,
    )
    terminal.attend()
    assert process.wait(50) == 0
    return terminal.close()


def test_other_programs_get_lines_of_json() -> None:
    """Without a terminal a row is a line, and the service's own JSON where there is some."""
    ended = write()
    first, second, _ = ended.stdout.splitlines()
    assert json.loads(first) == {
        "id": "app-0",
        "at": "2026-01-31T00:00:00",
        "amount": "0.00",
        "note": "=\x1b[2J" + "long " * 12,
    }
    assert second == '{"whole":"\\u009b"}'
    assert "\x1b" not in ended.stdout


@pytest.mark.parametrize("count", [0, 1, 3])
def test_json_is_one_array(count: int) -> None:
    """It is an array however many rows there are."""
    assert len(json.loads(write("json", count=count).stdout)) == count


@pytest.mark.parametrize("count", [0, 1, 3])
def test_half_an_array_is_none(count: int) -> None:
    """Where the rows could not be read to their end, nobody takes what came for all of them."""
    ended = write("json", count=count, fails="yes")
    assert ended.stderr == "enough\n"
    with pytest.raises(ValueError, match=r"Expecting|expecting"):
        json.loads(ended.stdout)
    assert ended.stdout.count("\n") == count + 1


def test_csv_has_a_row_of_keys() -> None:
    """They are there without rows too, and the cells are harmless."""
    assert write("csv", count=0).stdout == '"id","at","amount","note"\n'
    note = "'=?[2J" + "long " * 12
    assert write("csv", count=1).stdout.splitlines()[1] == (
        f'"app-0","2026-01-31T00:00:00","0.00","{note}"'
    )


def test_one_value_a_line_for_other_commands() -> None:
    """Whatever the output, ids alone are ids alone."""
    for output in ("", "csv", "json", "table"):
        assert write(output, "id").stdout == "app-0\napp-1\napp-2\n"


def test_a_table_elsewhere_is_whole() -> None:
    """In a file nothing is cut and nothing coloured; numbers stand at the right."""
    lines = write("table").stdout.splitlines()
    assert lines[0] == "Id     When                 Amount  Note"
    assert lines[2].startswith("app-1  2026-01-31 00:00:00    1.50  =?[2Jlong long")
    assert write("table", count=0).stdout == ""


def test_a_table_on_a_terminal_fits() -> None:
    """What has no room is left out, control characters are, and no line is too long."""
    shown = on_terminal()
    assert "\x1b[36mapp-0" in shown
    assert "Note" not in shown
    assert "\x1b[2J" not in shown
    assert "\x1b[3" not in on_terminal(NO_COLOR="1")


def test_what_has_no_room_goes_on_below() -> None:
    """On a narrow terminal ids and amounts are whole, and of a time all is there."""
    lines = on_terminal(width=30, count=30, NO_COLOR="1").splitlines()
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line).split() for line in lines]
    assert plain[1:3] == [["app-0", "2026-01-31", "0.00"], ["00:00:00"]]
    # Behind the first screenful, too.
    assert plain[-2:] == [["app-29", "2026-01-31", "43.50"], ["00:00:00"]]


def test_a_long_table_comes_as_it_grows() -> None:
    """Rows behind the first screenful stand in its columns; headings come once."""
    lines = on_terminal(count=100).splitlines()
    assert len(lines) == 101
    assert sum("Amount" in line for line in lines) == 1
    assert "app-99  2026-01-31 00:00:00" in lines[-1].replace("\x1b[36m", "").replace("\x1b[0m", "")


def test_an_encoding_without_dots_gets_others() -> None:
    """Where the output knows ASCII only, nothing fails."""
    ended = write("table", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.isascii()


@pytest.mark.parametrize("output", ["table", "csv", "json", "jsonl"])
def test_a_full_disk_is_told(output: str) -> None:
    """It is an error with one line of words, whatever is written."""
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-c", SCRIPT, output, "", "3", ""],
            stdout=full,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env=environment(),
            cwd=ROOT,
            check=False,
            timeout=50,
        )
    assert ended.returncode == 1
    assert ended.stderr == "cannot write to standard output: no space left on device\n"
