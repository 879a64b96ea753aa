"""Query parameters of the service, read strictly; knows the contract's names and no data."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl

from attrs import frozen

from .listing import Refused
from .seconds import parse_bound

DEFAULT_LIMIT: Final = 25
MOST_ROWS: Final = 1000

_LIMIT_DIGITS: Final = 4
_BOUNDS: Final = ("updated_after", "updated_before")
_LIST_NAMES: Final = frozenset((*_BOUNDS, "limit", "application_reference_id"))


@frozen(kw_only=True)
class ListQuestion:
    """What a list request asks for (contract section 4.1)."""

    after: int | None
    """``updated_after`` in service seconds, None if unset."""
    before: int | None
    """``updated_before`` in service seconds, None if unset."""
    limit: int
    """Most rows to return."""
    reference: str | None
    """The one reference to select, None for all."""


def _parameters(query: str, known: frozenset[str]) -> dict[str, str] | Refused:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True, errors="strict")
    except ValueError:
        if query:
            return Refused(parameter="query", reason="must be name=value pairs in UTF-8")
        pairs = []
    for name, _ in pairs:
        if name not in known:
            return Refused(parameter="query", reason=f"may hold {', '.join(sorted(known))}")
    found = dict(pairs)
    if len(found) < len(pairs):
        return Refused(parameter="query", reason="must name each parameter once")
    return found


def _limit(found: Mapping[str, str]) -> int | Refused:
    text = found.get("limit", str(DEFAULT_LIMIT))
    digits = text.isascii() and text.isdecimal() and len(text) <= _LIMIT_DIGITS
    if not digits or not 1 <= int(text) <= MOST_ROWS:
        return Refused(parameter="limit", reason=f"must be an integer from 1 to {MOST_ROWS}")
    return int(text)


def read_list_question(query: str) -> ListQuestion | Refused:
    """Read the raw query of a list request.

    Args:
        query: raw, without the question mark.
    """
    found = _parameters(query, _LIST_NAMES)
    if isinstance(found, Refused):
        return found
    limit = _limit(found)
    if isinstance(limit, Refused):
        return limit
    bounds: dict[str, int | None] = dict.fromkeys(_BOUNDS)
    for name in _BOUNDS:
        if name in found:
            bounds[name] = parse_bound(found[name])
            if bounds[name] is None:
                return Refused(parameter=name, reason="must be YYYY-mm-dd or YYYY-mm-ddTHH:MM:SS")
    return ListQuestion(
        after=bounds["updated_after"],
        before=bounds["updated_before"],
        limit=limit,
        reference=found.get("application_reference_id"),
    )


def read_pages(query: str) -> bool | Refused:
    """Read the raw query of a documents request (contract section 4.3).

    Args:
        query: raw, without the question mark.
    """
    found = _parameters(query, frozenset({"pages"}))
    if isinstance(found, Refused):
        return found
    match found.get("pages", "false"):
        case "true":
            return True
        case "false":
            return False
        case _:
            return Refused(parameter="pages", reason="must be true or false")
