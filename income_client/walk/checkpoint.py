"""A walk's checkpoint as a short text: its outer bounds and what is covered; no row, no id."""

from typing import Any, Final, TypeGuard

from attrs import frozen

from income_client.errors import CheckpointError
from income_client.records.window import Window
from income_client.wire.checked_text import read_checked, write_checked
from income_client.wire.times import FIRST_SECOND, LAST_SECOND

from .windows import Bounds, Intervals

_VERSION: Final = 1
_MEMBERS: Final = {"walk", "after", "before", "covered"}
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
    return write_checked(state)


def read_checkpoint(text: object) -> WalkState:
    """Return the state that a text holds.

    Raises:
        CheckpointError: the text was not written by ``write_checkpoint``, or by a newer one.
    """
    state = read_checked(text, kind="walk", version=_VERSION, members=_MEMBERS)
    bounds = None if state is None else _bounds(state)
    if state is None or bounds is None:
        raise CheckpointError(_CORRUPT)
    covered = tuple(_windows(state["covered"]))
    end = covered[-1].before if bounds.before is None and covered else (bounds.before or 0) + 1
    inside = all(bounds.after <= window.after and window.before <= end for window in covered)
    if not inside or list(Intervals(covered)) != list(covered):
        raise CheckpointError(_CORRUPT)
    return WalkState(bounds, covered)


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
