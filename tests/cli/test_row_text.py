"""Values in tables, CSV and JSON: exact, and harmless to terminals and spreadsheets."""

import csv
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.cli.output.row_text import cell_text, csv_line, inert, json_line

DAY = date(2026, 1, 31)
SERVICE_TIME = datetime(2026, 1, 31, 12, 0, 5)  # noqa: DTZ001 - the service's times carry no zone
UTC_TIME = datetime(2026, 1, 31, 12, 0, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("text", "text"),
        ("\x1b[31mred\x07\n", "?[31mred??"),
        (DAY, "2026-01-31"),
        (SERVICE_TIME, "2026-01-31 12:00:05"),
        (UTC_TIME, "2026-01-31 12:00:05Z"),
        (Decimal("1234.50"), "1234.50"),
        (7, "7"),
        (True, "yes"),
        (("a", "b"), "a, b"),
    ],
)
def test_what_a_table_shows(value: object, text: str) -> None:
    """Times in ISO 8601, amounts as they are, nothing for None."""
    assert cell_text(value) == text


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@x", "'@x"),
        ("\uff1d1", "'\uff1d1"),
        ("\t=1", "?=1"),
        (-1, "-1"),
        (Decimal("-1.50"), "-1.50"),
        ("a,b", "a,b"),
        ('a"b', 'a""b'),
        ("a;=1+1", "a;'=1+1"),
        ('a; "=1', 'a; ""\'=1'),
        ("a;b-1", "a;b-1"),
        (("=1+1", "b", "@x"), "'=1+1, b, '@x"),
        ([-1, 2], "-1, 2"),
        ("a\nb", "a?b"),
        (SERVICE_TIME, "2026-01-31T12:00:05"),
        (None, ""),
    ],
)
def test_no_cell_is_a_formula(value: object, cell: str) -> None:
    """Texts that a spreadsheet would work out are marked; numbers stay numbers.

    All are quoted, which is not enough where semicolons part values: there, too, they are marked.
    """
    assert csv_line((value, "x")) == f'"{cell}","x"'.encode()


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_no_cell_begins_where_a_spreadsheet_splits_otherwise(delimiter: str) -> None:
    """Whatever parts values there, what was a text within one is no cell of its own."""
    line = csv_line(("a;=1+1", "b\t=2", 'c";=3', ("d;", "=4"))).decode()
    (row,) = csv.reader(io.StringIO(line), delimiter=delimiter)
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row)


@given(st.lists(st.text(), min_size=2))
def test_a_row_of_csv_is_one_line(values: list[str]) -> None:
    """Whatever the texts hold, a reader finds as many cells, none with a control character."""
    line = csv_line(values).decode()
    (row,) = csv.reader(io.StringIO(line))
    assert len(row) == len(values)
    assert line.isprintable()


def test_json_is_exact() -> None:
    """Amounts are texts, since a float is not exact; times are in ISO 8601."""
    row = {"a": Decimal("0.10"), "t": UTC_TIME, "d": DAY, "n": None, "i": 3}
    assert json_line(row) == (
        b'{"a":"0.10","t":"2026-01-31T12:00:05Z","d":"2026-01-31","n":null,"i":3}'
    )


def test_what_is_no_value_is_refused() -> None:
    """An object is not written as something that looks like data."""
    with pytest.raises(TypeError, match="object"):
        json_line({"a": object()})


@given(st.dictionaries(st.text(), st.text(st.characters(codec=None))))
def test_json_says_the_same_and_does_nothing(row: dict[str, str]) -> None:
    """What could act on a terminal is escaped, which readers undo: nothing is lost."""
    line = json_line(row)
    assert line.decode().isprintable()
    assert json.loads(line) == row


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_the_services_own_json_is_kept(text: str) -> None:
    """A line from the service reads the same before and after."""
    line = json.dumps({"a": text}, ensure_ascii=False).encode()
    assert json.loads(inert(line)) == json.loads(line)
    assert inert(line).decode().isprintable()
