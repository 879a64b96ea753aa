"""A walk's checkpoint as a short text: its outer bounds and what is covered; no row, no id."""

import zlib
from typing import Any, Final, TypeGuard

import orjson
from attrs import frozen

from income_client.errors import CheckpointError
from income_client.records.window import Window

from .intervals import Intervals
from .questions import Bounds
from .timestamps import FIRST_SECOND, LAST_SECOND

_VERSION: Final = 1
_KEYS: Final = {"walk", "after", "before", "covered", "check"}
_CORRUPT: Final = "the checkpoint is no walk's checkpoint, or is damaged"


@frozen
class WalkState:
    """How far a walk has come."""

    bounds: Bounds
    """Its outer bounds."""
    covered: tuple[Window, ...]
    """What of it is done, in ascending order."""


def walk_state(after: int | None, before: int | None, checkpoint: str | None) -> WalkState:
    """Return where a walk begins.

    Args:
        after: outer bound in seconds; None for 1970, before any update, or for the checkpoint's.
        before: outer bound in seconds; None for the present, or for the checkpoint's.
        checkpoint: what an earlier walk over the same span has written.

    Raises:
        CheckpointError: the checkpoint is none, is damaged, or belongs to another span.
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
    return orjson.dumps(state | {"check": _check(state)}).decode()


def read_checkpoint(text: object) -> WalkState:
    """Return the state that a text holds.

    Raises:
        CheckpointError: the text was not written by ``write_checkpoint``, or by a newer one.
    """
    state = _parsed(text)
    if not isinstance(state, dict) or "walk" not in state:
        raise CheckpointError(_CORRUPT)
    version = state["walk"]
    if type(version) is not int or version < _VERSION:
        raise CheckpointError(_CORRUPT)
    if version > _VERSION:
        raise CheckpointError("the checkpoint was written by a newer version of this package")
    bounds = _bounds(state)
    if bounds is None or not _is_intact(state):
        raise CheckpointError(_CORRUPT)
    covered = tuple(_windows(state["covered"]))
    end = covered[-1].before if bounds.before is None and covered else (bounds.before or 0) + 1
    inside = all(bounds.after <= window.after and window.before <= end for window in covered)
    if not inside or list(Intervals(covered)) != list(covered):
        raise CheckpointError(_CORRUPT)
    return WalkState(bounds, covered)


def _is_intact(state: dict[str, Any]) -> bool:
    rest = {name: value for name, value in state.items() if name != "check"}
    return state.keys() == _KEYS and state["check"] == _check(rest)


def _check(state: dict[str, Any]) -> int:
    return zlib.crc32(orjson.dumps(state))


def _parsed(text: object) -> Any:
    if isinstance(text, str):
        try:
            return orjson.loads(text)
        except ValueError:
            return None
    return None


def _bounds(state: dict[str, Any]) -> Bounds | None:
    after, before = state.get("after"), state.get("before")
    if not _is_bound(after) or not (before is None or _is_bound(before)):
        return None
    return None if before is not None and before < after else Bounds(after, before)


def _windows(covered: object) -> list[Window]:
    if not isinstance(covered, list):
        raise CheckpointError(_CORRUPT)
    windows = []
    for pair in covered:
        match pair:
            case [after, before] if _is_edge(after) and _is_edge(before) and after < before:
                windows.append(Window(after, before))
            case _:
                raise CheckpointError(_CORRUPT)
    return windows


def _is_bound(value: object) -> TypeGuard[int]:
    return type(value) is int and FIRST_SECOND <= value <= LAST_SECOND


def _is_edge(value: object) -> TypeGuard[int]:
    # A covered window ends one second behind its last.
    return type(value) is int and FIRST_SECOND <= value <= LAST_SECOND + 1
