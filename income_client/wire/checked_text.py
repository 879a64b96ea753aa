"""A state as a text that is whole or refused; knows no walk and no poll."""

import zlib
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from income_client.errors import CheckpointError


def write_checked(state: Mapping[str, Any]) -> str:
    """Return a state as a text, with the check of its own content."""
    return msgspec.json.encode({**state, "check": _check(state)}).decode()


def read_checked(
    text: object, *, kind: str, version: int, members: AbstractSet[str], oldest: int | None = None
) -> dict[str, Any] | None:
    """Return the state that a text holds; None if it is of another kind, or damaged.

    Args:
        text: what `write_checked` has made of one.
        kind: the member that holds the version, and tells one kind of state from another.
        version: the newest that is known.
        oldest: the oldest that is known; the newest by default.
        members: all that belong to it, ``kind`` included.

    Raises:
        CheckpointError: the text is of a newer version.
    """
    state = _parsed(text)
    found = state.get(kind) if isinstance(state, dict) else None
    if type(found) is not int or found < (version if oldest is None else oldest):
        return None
    if found > version:
        raise CheckpointError("the checkpoint was written by a newer version of this package")
    check = state.pop("check", None)
    is_whole = state.keys() == members and _is_intact(state, check)
    return dict(state) if is_whole else None


def _is_intact(state: dict[str, Any], check: object) -> bool:
    try:
        return check == _check(state)
    except (TypeError, RecursionError):  # nested too deep to be written
        return False


def _check(state: Mapping[str, Any]) -> int:
    # Sorted, since a database may give the members back in another order.
    return zlib.crc32(msgspec.json.encode(dict(state), order="deterministic"))


def _parsed(text: object) -> Any:
    if not isinstance(text, str):
        return None
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None
