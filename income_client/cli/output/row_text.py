"""Values as people and other programs read them, in text that does nothing else; pure."""

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Final

from .printable import printable

_FORMULA: Final = re.compile(r'(?:^|;["\s]*)(?=[=+@\uff1d\uff0b\uff0d\uff20-])')
"""Where a text begins that a spreadsheet would work out; some take wide forms for the same.

Some split at semicolons, and quotes keep them from it in the first column only.
"""
_NOT_ASCII: Final = re.compile(r"[^ -~]")


def cell_text(value: object) -> str:
    """Return a value as it stands in a table: times in ISO 8601, nothing for None."""
    text = _text(value, " ")
    return text if text.isprintable() else printable(text)


def csv_line(values: Iterable[object]) -> bytes:
    """Return a line of CSV, without its end, that no spreadsheet takes for a formula.

    Each value is quoted, and what follows a semicolon is made harmless, too: some
    spreadsheets split there.

    Args:
        values: texts are made harmless; numbers stay what they are.
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="", quoting=csv.QUOTE_ALL).writerow(
        [_cell(value) for value in values]
    )
    return line.getvalue().encode()


def json_line(row: Mapping[str, object]) -> bytes:
    """Return a row as JSON: times in ISO 8601, amounts as text, which is exact."""
    text = json.dumps(row, default=_jsonable, ensure_ascii=False, separators=(",", ":"))
    return inert(text.encode("utf-8", "surrogatepass"))


def inert(text: bytes) -> bytes:
    """Return the same JSON with escapes for characters that could act on a terminal.

    Args:
        text: a line of JSON; what stands between its values is left alone.
    """
    line = text.decode("utf-8", "surrogatepass")
    if line.isprintable():
        return text
    return _NOT_ASCII.sub(_escaped, line).encode()


def _escaped(found: re.Match[str]) -> str:
    letter = found[0]
    if letter.isprintable() or letter == "\n":
        return letter
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _cell(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_cell, value))
    text = _text(value, "T")
    if not isinstance(value, str):
        return text
    text = text if text.isprintable() else printable(text)
    return _FORMULA.sub(r"\g<0>'", text)


def _text(value: object, between: str) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case datetime():
            return value.isoformat(between).replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case list() | tuple():
            return ", ".join(_text(each, between) for each in value)
        case _:
            return str(value)


def _jsonable(value: object) -> object:
    match value:
        case date() | Decimal():
            return _text(value, "T")
        case _:
            raise TypeError(f"no JSON is made of {type(value).__name__}")
