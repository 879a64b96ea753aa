"""Read a page of the list row by row, where it cannot be read as a whole.

A malformed row does not hide the others. It keeps its place on the page, so that a full page stays
full, and has a key of its own, by which neighbouring pages recognise it. Its id cannot be the key,
since a sound row may have the same id.
"""

import hashlib
from datetime import datetime
from itertools import islice
from typing import Any, Final

import attrs
from attrs import evolve, frozen

from income_client.errors import DecodeError
from income_client.records.applications import ApplicationPage, ApplicationSummary
from income_client.records.fields import ServiceTime
from income_client.records.window import EPOCH

from .codec import flaws_of, parse_leniently
from .readers import MOST_FAULTS, faults_of, reader_of
from .times import parse_service_time

_BOUNDS: Final = ("updated_after", "updated_before")
_BLANKS: Final[dict[str, Any]] = {
    field.name: EPOCH if field.type is ServiceTime else ""
    for field in attrs.fields(ApplicationSummary)
    if field.default is attrs.NOTHING
}
"""Values of the fields of a row that cannot be read."""
_MOST_MALFORMED: Final = 1_000
_LONGEST_SHOWN: Final = 512
_HALF_CHARACTER: Final = "\ud800"
"""Half a surrogate pair, which no valid id contains."""


@frozen(kw_only=True)
class MalformedRow(ApplicationSummary):
    """Stands for a row that cannot be read; it has an id and a date only."""

    error: DecodeError
    """Error that names the row and its faults."""
    key: str
    """Digest of the row, used in place of an id: the same on every page, and never a valid id."""
    has_id: bool
    """Whether the row itself has an ``application_id``; otherwise it is empty."""


def key_of_row(row: ApplicationSummary) -> str:
    """Return the row's id, or the key of a malformed row."""
    return row.key if isinstance(row, MalformedRow) else row.application_id


def decode_rows(body: bytes, *, keep_extra: bool) -> ApplicationPage | None:
    """Read a page with a `MalformedRow` in place of each row that cannot be read.

    Without ``keep_extra`` the page's own unknown fields are left out, so that they cannot be
    malformed.

    Returns:
        The page; None if the page itself is malformed, not whole, or has more malformed rows
        than the largest page has rows.
    """
    try:
        tree = parse_leniently(body)
    except (DecodeError, ValueError, RecursionError):
        return None
    rows = tree.get("applications") if isinstance(tree, dict) else None
    if not isinstance(rows, list):
        return None
    names = tree if keep_extra else [name for name in _BOUNDS if name in tree]
    head = {**{name: tree[name] for name in names}, "applications": []}
    if _faults_of(ApplicationPage, head, "$"):
        return None
    page: ApplicationPage = reader_of(ApplicationPage)(head, ApplicationPage)
    applications = []
    malformed = 0
    for place, row in enumerate(rows):
        applications.append(_read_row(place, row))
        malformed += isinstance(applications[-1], MalformedRow)
        if malformed > _MOST_MALFORMED:
            return None
    return evolve(page, applications=tuple(applications))


def _read_row(place: int, row: Any) -> ApplicationSummary:
    faults = _faults_of(ApplicationSummary, row, f"$.applications[{place}]")
    if not faults:
        summary: ApplicationSummary = reader_of(ApplicationSummary)(row, ApplicationSummary)
        return summary
    fields = row if isinstance(row, dict) else {}
    raw_id = fields.get("application_id")
    has_id = isinstance(raw_id, str)
    application_id = str(raw_id) if has_id else ""
    is_shown = application_id.isprintable() and 0 < len(application_id) <= _LONGEST_SHOWN
    error = DecodeError(faults, is_row=True, subject=application_id if is_shown else None)
    readable: dict[str, Any] = {
        "application_id": application_id,
        "application_date": _read_date(fields.get("application_date")),
    }
    return MalformedRow(
        **_BLANKS | readable,
        error=error,
        key=_row_key(row),
        has_id=has_id,
    )


def _faults_of(cls: type, value: Any, path: str) -> tuple[Any, ...]:
    return (*islice(flaws_of(value, path), MOST_FAULTS), *faults_of(cls, value, path))


def _row_key(row: Any) -> str:
    content = repr(row).encode("utf-8", "surrogatepass")
    return f"{_HALF_CHARACTER}{hashlib.blake2b(content, digest_size=16).hexdigest()}"


def _read_date(value: Any) -> datetime:
    """Return the date if it can be read: a hint, of which a blank one says nothing."""
    return (parse_service_time(value) if isinstance(value, str) else None) or EPOCH
