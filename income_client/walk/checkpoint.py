"""Checkpoints as short texts that come back whole or are refused; those of walks in full.

A walk's checkpoint holds its outer bounds and what is covered; no row, no id.
"""

import zlib
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec
from attrs import frozen

from income_client.errors import CheckpointError
from income_client.records.window import Window
from income_client.wire.times import FIRST_SECOND, LAST_SECOND

from .windows import Bounds, Intervals

_VERSION: Final = 1
_MEMBERS: Final = {"walk", "after", "before", "covered"}
_CORRUPT: Final = "the checkpoint is not a walk's checkpoint, or is damaged"


@frozen
class WalkState:
    """How far a walk has come."""

    bounds: Bounds
    """Its outer bounds."""
    covered: tuple[Window, ...]
    """What of it is done, in ascending order."""


def walk_state(after: int | None, before: int | None, checkpoint: str | None) -> WalkState:
    """Return where a walk begins; a bound that is None is the checkpoint's.

    Without a checkpoint, the bounds left out are 1970, before any update, and the present.

    Raises:
        CheckpointError: the checkpoint is invalid, or belongs to another span.
    """
    if checkpoint is None:
        beginning = min(0, 0 if before is None else before)
        return WalkState(Bounds(beginning if after is None else after, before), ())
    state = read_checkpoint(checkpoint)
    given = Bounds(
        state.bounds.after if after is None else after,
        state.bounds.before if before is None else before,
    )
    if given != state.bounds:
        raise CheckpointError("the checkpoint belongs to a walk over another span")
    return state


def write_checkpoint(bounds: Bounds, covered: Intervals) -> str:
    """Return the text of a walk's state."""
    state = {
        "walk": _VERSION,
        "after": bounds.after,
        "before": bounds.before,
        "covered": [[window.after, window.before] for window in covered],
    }
    return write_checked(state)


def read_checkpoint(text: object) -> WalkState:
    """Return the state that a text holds.

    Raises:
        CheckpointError: ``write_checkpoint`` did not write the text, or a newer one did.
    """
    match read_checked(text, kind="walk", version=_VERSION, members=_MEMBERS):
        case {"after": int(after), "before": int() | None as before, "covered": list(pairs)}:
            covered = [Window(*pair) for pair in pairs if _is_window(pair)]
            last = covered[-1].before if covered and before is None else (before or 0) + 1
            is_sound = (
                _is_second(after)
                and (before is None or (_is_second(before) and after <= before))
                and all(after <= window.after and window.before <= last for window in covered)
                and len(covered) == len(pairs)
                and list(Intervals(covered)) == covered
            )
            if is_sound:
                return WalkState(Bounds(after, before), tuple(covered))
    raise CheckpointError(_CORRUPT)


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
    return msgspec.json.encode({**state, "check": _check(state)}).decode()


def read_checked(
    text: object, *, kind: str, version: int, members: AbstractSet[str], oldest: int | None = None
) -> dict[str, Any] | None:
    """Return the state that a text holds; None if it is of another kind, or damaged.

    Args:
        text: the result of `write_checked`.
        kind: the member that holds the version, and distinguishes kinds of state.
        version: the newest that is known.
        members: all members of the state, ``kind`` included.
        oldest: the oldest version that is known; the newest by default.

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
