"""Ids of applications as commands write them, and as commands read them back.

Whatever an id holds, each form has one that reads as exactly this id.
"""

import csv
import json
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import Final

_ID: Final = "application_id"
_LONGEST_BARE: Final = 4 * 512
"""Bytes of the longest id that stands alone in its line; requests carry 512 characters."""
_NOT_OF_A_BARE_ID: Final = re.compile(r'[\s,"\[\]{}]|^\ufeff', re.ASCII)
"""Pattern of characters that rows of a table, CSV or a JSON array contain."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")

# Where a text begins that a spreadsheet would calculate; some take wide forms for the same.
# Some split at semicolons, and quotes keep them from it in the first column only. An apostrophe
# of the text itself is guarded as well: it would be taken for that of the guard.
_BEGINNING: Final = r'(?:^|;["\s]*)'
_FORMULA: Final = r"(?='*[=+@\uff1d\uff0b\uff0d\uff20-])"
_TO_GUARD: Final = re.compile(_BEGINNING + _FORMULA)
_GUARDED: Final = re.compile(f"({_BEGINNING})'{_FORMULA}")


def without_controls(text: str) -> str:
    """Return a text with ``?`` for each control character, which acts on what prints it."""
    return _CONTROL.sub("?", text)


def guarded(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return _TO_GUARD.sub(r"\g<0>'", text)


def unguarded(text: str) -> str:
    """Return the text that `guarded` was given."""
    return _GUARDED.sub(r"\1", text)


def id_line(text: str) -> str:
    """Return an id as it stands alone in a line: as it is, or quoted as in JSON."""
    is_bare = not (_NOT_OF_A_BARE_ID.search(text) or _CONTROL.search(text))
    return text if is_bare else json.dumps(text)


def read_row(line: str) -> list[str]:
    """Return the cells of a row of CSV; raise `ValueError` for anything else.

    Blanks around a cell count where all cells are quoted, as commands write them.
    """
    if "\0" in line:
        raise ValueError("has a null character")
    try:
        cells = next(csv.reader([line], strict=True))
    except csv.Error:
        raise ValueError("is not a row of CSV") from None
    return cells if line.startswith('"') else [cell.strip() for cell in cells]


class IdLines:
    """Reads the ids in lines: alone, quoted, or in rows of CSV or JSON as commands write them."""

    def __init__(self) -> None:
        self._is_first = True
        self._column: int | None = None
        self._is_array = False

    def read(self, line: bytes) -> Iterator[str]:
        """Yield the id in a line; none in a heading or a bracket. Raise `ValueError` for others."""
        is_first, self._is_first = self._is_first, False
        line = (line.removeprefix(BOM_UTF8) if is_first else line).strip(b" \t\r\n\v\f")
        if not line:
            self._is_first = is_first
            return
        if is_first and self._begins(line):
            return
        if self._is_array and line == b"]":
            self._is_array = False
            return
        application_id = self._id_in(line)
        if not isinstance(application_id, str) or not application_id:
            raise ValueError("no id")
        yield application_id

    def _begins(self, line: bytes) -> bool:
        """Return whether a first line is a heading of CSV, or opens an array."""
        if line == b"[":
            self._is_array = True
        elif _ID.encode() in line and b"," in line and not line.startswith(b"{"):
            names = [name.lower() for name in read_row(line.decode())]
            self._column = names.index(_ID) if len(names) > 1 and _ID in names else None
        return self._is_array or self._column is not None

    def _id_in(self, line: bytes) -> object:
        if self._column is not None:
            cells = read_row(line.decode())
            return unguarded(cells[self._column]) if self._column < len(cells) else None
        if line.startswith(b"{"):
            return _id_of_json(line.removesuffix(b",") if self._is_array else line)
        if line.startswith(b'"'):
            return json.loads(line)
        text = line.decode() if len(line) <= _LONGEST_BARE else ""
        # Sent and reported as an id, a row would carry the references in it.
        return None if _NOT_OF_A_BARE_ID.search(text) else text


def _id_of_json(line: bytes) -> object:
    try:
        record = json.loads(line)
        return record.get("application", record).get(_ID)
    except (AttributeError, RecursionError):
        return None
