"""Ids with update times of a program, from CSV, JSON lines or the folder of an export.

An error names the line, and nothing of its content.
"""

import json
import os
from codecs import BOM_UTF8
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from income_client import ConfigurationError, IncomeClientError
from income_client.system.texts import parse_iso_time, reason_of

from .id_lines import read_row, unguarded
from .options import STANDARD_INPUT, read_lines
from .output import counted, say

_ID: Final = "application_id"
_TIMES: Final = ("last_updated_at", "updated_at")
"""Names of the update time; the first one in a file counts."""
_MANIFEST: Final = "manifest.json"
_TABLES: Final = (("applications", "last_updated_at"), ("documents", "updated_at"))
"""Tables of an export with their update times: a document may change alone."""

Pair = tuple[str, datetime]
_ReadPair = Callable[[str, str], Pair]
"""Function that reads an id and a time from a line and its position."""


class _Document(msgspec.Struct):
    updated_at: str


class _Documents(msgspec.Struct):
    documents: dict[str, list[_Document]] = {}


class _Line(msgspec.Struct):
    """A line of `export`, `poll` or `documents`, or an application alone."""

    application: "_Line | None" = None
    documents: _Documents | None = None
    document: _Document | None = None
    application_id: str | None = None
    last_updated_at: str | None = None
    updated_at: str | None = None


def exported_span(path: Path) -> tuple[datetime | None, datetime | None]:
    """Return the bounds in an export's manifest; no bounds without a manifest."""
    try:
        facts = json.loads(_manifest_of(path).read_bytes())
        bounds = [facts["updated_after"], facts["updated_before"]]
        after, before = (text and datetime.fromisoformat(text) for text in bounds)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None, None
    return after, before


def _manifest_of(path: Path) -> Path:
    return path / _MANIFEST if path.is_dir() else path.with_name(f"{path.name}.{_MANIFEST}")


async def read_pairs(path: Path) -> AsyncGenerator[Pair, None]:
    """Yield the ids and times in a file, in an export, or on standard input.

    An empty file is an error: it may come from a query that failed, and all would be read again.
    An export may be empty, of a period without updates.
    """
    is_empty = str(path) != STANDARD_INPUT and not _manifest_of(path).exists()
    try:
        if path.is_dir():  # noqa: ASYNC240 - one look at a path
            for pair in _read_tables(path):
                is_empty = False
                yield pair
        else:
            async with aclosing(_read_rows(path)) as pairs:
                async for pair in pairs:
                    is_empty = False
                    yield pair
    except OSError as error:
        raise IncomeClientError(f"{path} cannot be read: {reason_of(error)}") from None
    if is_empty:
        raise IncomeClientError(f"{path} holds no application")


def _read_tables(folder: Path) -> Iterator[Pair]:
    from income_client.exporting.parquet import read_columns

    try:
        for table, time in _TABLES:
            path = folder / f"{table}.parquet"
            for place, row in enumerate(read_columns(path, _ID, time), start=1):
                yield _checked_pair(*row, f"row {place:,} of {path}")
    except ConfigurationError as error:
        raise IncomeClientError(error.message) from None


async def _read_rows(path: Path) -> AsyncGenerator[Pair, None]:
    """Yield the pairs in a file or on standard input; the first line shows the format."""
    is_input = str(path) == STANDARD_INPUT
    name = "standard input" if is_input else str(path)
    if is_input and os.isatty(0):
        say("ids and times are read from this terminal; Ctrl-D ends them")
    read: _ReadPair | None = None
    number, is_array = 0, False
    with nullcontext() if is_input else path.open("rb") as file:
        async with aclosing(read_lines(file.fileno() if file else 0, name)) as lines:
            async for line in lines:
                number += 1
                where = f"line {number:,} of {name}"
                text = _decode_line(line.removeprefix(BOM_UTF8) if number == 1 else line, where)
                if not text or (is_array and text == "]"):
                    continue
                if read is None and text == "[":
                    is_array = True
                    continue
                if is_array:
                    text = text.removesuffix(",")
                if read is None:
                    read, is_heading = _choose_format(text, where)
                    if is_heading:
                        continue
                yield read(text, where)


def _decode_line(line: bytes, where: str) -> str:
    try:
        return line.decode().strip(" \t\r\n")
    except UnicodeDecodeError:
        raise IncomeClientError(f"{where} is not UTF-8: it must be CSV or JSON lines") from None


def _choose_format(text: str, where: str) -> tuple[_ReadPair, bool]:
    """Return the reader for a file by its first line, and whether that is a heading."""
    if text.startswith("{"):
        return _read_json, False
    cells = _split_row(text, where)
    names = [cell.strip().lower() for cell in cells]
    time = next((name for name in _TIMES if name in names), None)
    if _ID in names and time is not None:
        return partial(_read_csv, (names.index(_ID), names.index(time), len(names))), True
    pair = (_ID, _TIMES[0])
    if len(cells) == len(pair) and _read_time(cells[1]) is not None:
        return partial(_read_csv, (0, 1, len(pair))), False
    raise IncomeClientError(f"{where} has no columns {_ID} and {_TIMES[0]}")


def _read_json(text: str, where: str) -> Pair:
    try:
        line = msgspec.json.decode(text, type=_Line)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise IncomeClientError(
            f"{where} is not a line of JSON with {_ID} and {_TIMES[0]}"
        ) from None
    application = line.application or line
    updated_at = application.last_updated_at or application.updated_at
    if line.document is not None:
        updated_at = line.document.updated_at
    application_id, latest = _checked_pair(application.application_id, updated_at, where)
    for documents in line.documents.documents.values() if line.documents else ():
        for document in documents:
            latest = max(latest, _checked_pair(application_id, document.updated_at, where)[1])
    return application_id, latest


def _read_csv(columns: tuple[int, int, int], text: str, where: str) -> Pair:
    id_column, time_column, count = columns
    cells = _split_row(text, where)
    if len(cells) != count:
        raise IncomeClientError(
            f"{where} has {counted(len(cells), 'cell')}, the first line has {count}"
        )
    return _checked_pair(unguarded(cells[id_column]), cells[time_column].strip(), where)


def _split_row(text: str, where: str) -> list[str]:
    try:
        return read_row(text)
    except ValueError as error:
        raise IncomeClientError(f"{where} {error}") from None


def _checked_pair(application_id: Any, updated_at: Any, where: str) -> Pair:
    if not isinstance(application_id, str) or not application_id:
        raise IncomeClientError(f"{where} has no {_ID}")
    time = _read_time(updated_at)
    if time is None:
        raise IncomeClientError(f"{where} has no time, such as 2026-01-31T12:00:00Z")
    return application_id, time


def _read_time(value: object) -> datetime | None:
    """Return a time in a form of databases or of this package; None for other values."""
    try:
        time = parse_iso_time(value) if isinstance(value, str) else value
        if not isinstance(time, datetime):
            return None
        # A time without a zone is in UTC, as all times of the command.
        return time.replace(tzinfo=UTC) if time.utcoffset() is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
