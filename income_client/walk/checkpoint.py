"""Checkpoints as short texts with a checksum; the checkpoints of walks in full.

A walk's checkpoint holds its outer bounds and what is covered; no row, no id.
"""

import zlib
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec

from income_client.errors import CheckpointError
from income_client.records.window import Window
from income_client.wire.times import FIRST_SECOND, LAST_SECOND

from .windows import Bounds, Intervals

_VERSION: Final = 1
_MEMBERS: Final = {"walk", "after", "before", "covered"}
_OPTIONAL: Final = {"filter"}


def write_checkpoint(bounds: Bounds, covered: Intervals, filter_digest: str | None = None) -> str:
    """Return the text of a walk's state."""
    state: dict[str, Any] = {
        "walk": _VERSION,
        "after": bounds.after,
        "before": bounds.before,
        "covered": [[window.after, window.before] for window in covered],
    }
    if filter_digest is not None:
        state["filter"] = filter_digest
    return write_checked(state)


def read_checkpoint(
    text: object,
    after: int | None = None,
    before: int | None = None,
    filter_digest: str | None = None,
) -> tuple[Bounds, list[Window]]:
    """Return a walk's bounds and the windows that it has covered, in ascending order.

    Raises `CheckpointError` if `write_checkpoint` did not write the text, or a newer one
    did, or if the walk has other bounds or another filter than those given.
    """
    state = read_checked(text, kind="walk", version=_VERSION, members=_MEMBERS, optional=_OPTIONAL)
    match state:
        case {"after": int(first), "before": int() | None as last, "covered": list(pairs), **rest}:
            covered = [Window(*pair) for pair in pairs if _is_window(pair)]
            end = covered[-1].before if covered and last is None else (last or 0) + 1
            is_sound = (
                _is_second(first)
                and (last is None or (_is_second(last) and first <= last))
                and all(first <= window.after and window.before <= end for window in covered)
                and len(covered) == len(pairs)
                and list(Intervals(covered)) == covered
            )
            if is_sound and rest.get("filter") != filter_digest:
                raise CheckpointError("the checkpoint belongs to a walk with another filter")
            if is_sound and after in (None, first) and before in (None, last):
                return Bounds(first, last), covered
            if is_sound:
                raise CheckpointError("the checkpoint belongs to a walk over another span")
    raise CheckpointError("the checkpoint is not a walk's checkpoint, or is damaged")


def _is_second(value: object, last: int = LAST_SECOND) -> bool:
    return type(value) is int and FIRST_SECOND <= value <= last


def _is_window(pair: object) -> bool:
    match pair:
        case [int(after), int(before)]:
            # A covered window ends one second behind its last.
            return all(_is_second(edge, LAST_SECOND + 1) for edge in pair) and after < before
        case _:
            return False


def write_checked(state: Mapping[str, Any]) -> str:
    """Return a state as a text that holds a checksum of its content."""
    return msgspec.json.encode({**state, "check": _checksum(state)}).decode()


def read_checked(
    text: object,
    *,
    kind: str,
    version: int,
    members: AbstractSet[str],
    optional: AbstractSet[str] = frozenset(),
    oldest: int | None = None,
) -> dict[str, Any] | None:
    """Return the state in a text of `write_checked`; None if it is of another kind, or damaged.

    ``kind`` is the member that holds the version, ``members`` are those it has, and ``optional``
    those that it may have besides. Raises
    `CheckpointError` for a version newer than ``version``; ``oldest`` is the same by default.
    """
    state = _parse_json(text)
    stored_version = state.get(kind) if isinstance(state, dict) else None
    if type(stored_version) is not int or stored_version < (version if oldest is None else oldest):
        return None
    if stored_version > version:
        raise CheckpointError("the checkpoint was written by a newer version of this package")
    check = state.pop("check", None)
    try:
        is_whole = state.keys() - optional == members and check == _checksum(state)
    except (TypeError, RecursionError):  # nested too deep to be written
        return None
    return state if is_whole else None


def _checksum(state: Mapping[str, Any]) -> int:
    # Sorted, since a database may give the members back in another order.
    return zlib.crc32(msgspec.json.encode(state, order="deterministic"))


def _parse_json(text: object) -> Any:
    if not isinstance(text, str):
        return None
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None
