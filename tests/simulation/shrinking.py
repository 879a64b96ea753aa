"""Leaves out what a failing run does not need, within a time limit."""

import time
from typing import Any

from attrs import evolve

from .outcomes import Outcome
from .scenarios import Scenario


def shrink(scenario: Scenario, outcome: Outcome, *, seconds: float) -> Outcome:
    """Return the smallest run that was found in time and breaks the same promise.

    Large parts are left out first, of every field in turn: what is left is played faster.
    """
    ends_at, best, parts = time.monotonic() + seconds, outcome, 2
    while any(parts <= 2 * len(getattr(best.plan, name)) for name in scenario.shrinks):
        for name in scenario.shrinks:
            best = _leave_out(scenario, best, name, parts, ends_at)
        parts *= 2
    return best


def _leave_out(scenario: Scenario, best: Outcome, name: str, parts: int, ends_at: float) -> Outcome:
    """Try to leave out each part of a field, the last one first."""
    size = max(1, len(getattr(best.plan, name)) // parts)
    at = len(getattr(best.plan, name)) - size
    while at > -size and time.monotonic() < ends_at:
        outcome = scenario.play(_without(best.plan, name, max(at, 0), size))
        if _is_same(best, outcome):
            best = outcome
        at -= size
    return best


def _without(plan: Any, name: str, at: int, size: int) -> Any:
    items = getattr(plan, name)
    return evolve(plan, **{name: items[:at] + items[at + size :]})


def _is_same(one: Outcome, other: Outcome) -> bool:
    if one.violation is None or other.violation is None:
        return False
    return one.violation.promise == other.violation.promise
