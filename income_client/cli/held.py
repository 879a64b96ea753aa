"""Ids with the update times held, out of a file: CSV, JSON lines, Parquet, or an export.

What a file is shows at its beginning. An error names the line, and nothing that is in it.
"""

import csv
import json
import os
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from attrs import frozen

from income_client import ConfigurationError, IncomeClientError
from income_client.texts import reason_of

from .options import LONGEST_LINE, STANDARD_INPUT, read_lines
from .output import counted, say

ID: Final = "application_id"
TIMES: Final = ("last_updated_at", "updated_at")
"""Names of columns, of which the first one that is there counts."""
_PARQUET: Final = b"PAR1"
_LONGEST: Final = 2**20
"""Bytes of a row of CSV over several lines: a quote that is never closed is not sought for ever."""
_MANIFEST: Final = "manifest.json"
_TABLES: Final = (("applications", "last_updated_at"), ("documents", "updated_at"))
"""Of an export: what they were updated by, since a document's update may be one of its own."""

Pair = tuple[str, datetime]


class _Dated(msgspec.Struct):
    updated_at: str


class _Documents(msgspec.Struct):
    documents: dict[str, list[_Dated]] = {}


class _Line(msgspec.Struct):
    """A line of `export` or `poll`, or an application alone."""

    application: "_Line | None" = None
    documents: _Documents | None = None
    application_id: str | None = None
    last_updated_at: str | None = None
    updated_at: str | None = None


@frozen(kw_only=True)
class ExportedSpan:
    """The span that the manifest of an export names."""

    after: datetime | None = None
    before: datetime | None = None


def exported_span(path: Path) -> ExportedSpan:
    """Return the span of an export by its manifest; without one, no bounds."""
    try:
        facts = json.loads(_manifest_of(path).read_bytes())
        bounds = [facts["updated_after"], facts["updated_before"]]
        after, before = (None if one is None else datetime.fromisoformat(one) for one in bounds)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ExportedSpan()
    return ExportedSpan(after=after, before=before)


def _manifest_of(path: Path) -> Path:
    return path / _MANIFEST if path.is_dir() else path.with_name(f"{path.name}.{_MANIFEST}")


async def read_pairs(path: Path) -> AsyncGenerator[Pair, None]:
    """Yield the ids and times in a file, in an export, or on standard input.

    A file that holds nothing is an error, since all would be read again; an export may be of a
    period without updates.
    """
    is_empty = str(path) != STANDARD_INPUT and not _manifest_of(path).exists()
    try:
        tables = _tables_at(path)
        for table, times in tables:
            for pair in _parquet_pairs(table, times):
                is_empty = False
                yield pair
        if not tables:
            async with aclosing(_line_pairs(path)) as pairs:
                async for pair in pairs:
                    is_empty = False
                    yield pair
    except OSError as error:
        raise IncomeClientError(f"{path} cannot be read: {reason_of(error)}")
    if is_empty:
        raise _unreadable(str(path), "holds no application")


def _tables_at(path: Path) -> list[tuple[Path, Sequence[str]]]:
    """Return the Parquet files at a path, each with the names that its time may have."""
    if str(path) == STANDARD_INPUT:
        return []
    if path.is_dir():
        return [(path / f"{table}.parquet", (time,)) for table, time in _TABLES]
    with path.open("rb") as file:
        return [(path, TIMES)] if file.read(len(_PARQUET)) == _PARQUET else []


def _parquet_pairs(path: Path, times: Sequence[str]) -> Iterator[Pair]:
    from income_client.exporting.parquet import read_columns

    rows = read_columns(path, ID, times)
    try:
        for place, (application_id, updated) in enumerate(rows, start=1):
            yield _checked_pair(application_id, updated, f"row {place:,} of {path}")
    except ConfigurationError as error:
        raise IncomeClientError(error.message)


async def _line_pairs(path: Path) -> AsyncGenerator[Pair, None]:
    is_input = str(path) == STANDARD_INPUT
    name = "standard input" if is_input else str(path)
    if is_input and os.isatty(0):
        say("ids and times are read from this terminal; Ctrl-D ends them")
    source = read_lines(0) if is_input else _lines_of(path)
    number, columns, rest = 0, None, ""
    begun = 0
    is_json = False
    async with aclosing(source) as lines:
        async for line in lines:
            number += 1
            text = _decoded(line, number, name)
            if not rest and not text.strip():
                continue
            if columns is None and not rest:
                is_json = is_json or text.lstrip().startswith("{")
            if is_json:
                yield _pair_in_json(text, f"line {number:,} of {name}")
                continue
            begun = begun if rest else number
            rest += text
            if rest.count('"') % 2 and len(rest) < _LONGEST:
                continue  # a cell of several lines
            cells, rest = _cells(rest, f"line {begun:,} of {name}"), ""
            if columns is None:
                columns = _columns_in(cells, name)
                if columns.has_heading:
                    continue
            yield columns.pair_in(cells, f"line {begun:,} of {name}")
    if rest:
        raise _unreadable(f"line {begun:,} of {name}", "has a quote that is not closed")


async def _lines_of(path: Path) -> AsyncGenerator[bytes, None]:
    with path.open("rb") as file:
        while line := file.readline(LONGEST_LINE + 1):
            if len(line) > LONGEST_LINE:
                raise IncomeClientError(f"{path} has a line of over {LONGEST_LINE:,} bytes")
            yield line


def _decoded(line: bytes, number: int, name: str) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError:
        raise _unreadable(f"line {number:,} of {name}", "is not UTF-8")


def _pair_in_json(text: str, where: str) -> Pair:
    try:
        line = msgspec.json.decode(text, type=_Line)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise _unreadable(where, f"is not a line of JSON with {ID} and {TIMES[0]}")
    application = line.application or line
    updated = application.last_updated_at or application.updated_at
    application_id, held = _checked_pair(application.application_id, updated, where)
    by_type = {} if line.documents is None else line.documents.documents
    for documents in by_type.values():
        for document in documents:
            held = max(held, _checked_pair(application_id, document.updated_at, where)[1])
    return application_id, held


def _cells(row: str, where: str) -> list[str]:
    if "\0" in row:
        raise _unreadable(where, "has a null character")
    try:
        return next(csv.reader([row], strict=True))
    except (csv.Error, StopIteration):
        raise _unreadable(where, "is not CSV")


@frozen
class _Columns:
    """Where the id and the time are in a row of CSV."""

    id: int
    time: int
    count: int
    has_heading: bool = True

    def pair_in(self, cells: Sequence[str], where: str) -> Pair:
        if len(cells) != self.count:
            first = "the heading" if self.has_heading else "the first line"
            raise _unreadable(where, f"has {counted(len(cells), 'cell')}, {first} {self.count}")
        return _checked_pair(cells[self.id].strip(), cells[self.time].strip(), where)


def _columns_in(cells: Sequence[str], name: str) -> _Columns:
    """Return the columns by their names; without names, there are an id and a time."""
    names = [cell.strip().lower() for cell in cells]
    time = next((one for one in TIMES if one in names), None)
    if ID in names and time is not None:
        return _Columns(names.index(ID), names.index(time), len(cells))
    if len(cells) == 2 and _time_in(cells[1].strip()) is not None:  # noqa: PLR2004 - a pair
        return _Columns(0, 1, len(cells), has_heading=False)
    raise _unreadable(name, f"has no columns {ID} and {TIMES[0]}")


def _checked_pair(application_id: Any, updated: Any, where: str) -> Pair:
    if not isinstance(application_id, str) or not application_id:
        raise _unreadable(where, f"has no {ID}")
    time = _time_in(updated)
    if time is None:
        raise _unreadable(where, "has no time, such as 2026-01-31T12:00:00Z")
    return application_id, time


def _time_in(value: object) -> datetime | None:
    """Return a time, also as databases and this package write it; None if it is none."""
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else value
        if not isinstance(time, datetime):
            return None
        # One without a zone is in UTC, as all times of the command.
        return time.replace(tzinfo=UTC) if time.utcoffset() is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _unreadable(where: str, why: str) -> IncomeClientError:
    return IncomeClientError(f"{where} {why}")
