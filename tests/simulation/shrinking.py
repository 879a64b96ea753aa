"""Leaves out what a failing run does not need, within a time limit."""

import time
from typing import Any

from attrs import evolve

from .outcomes import Outcome
from .scenarios import Scenario


def shrink(scenario: Scenario, outcome: Outcome, *, seconds: float) -> Outcome:
    """Return the smallest run that was found in time and breaks the same promise."""
    ends_at, best = time.monotonic() + seconds, outcome
    for name in scenario.shrinks:
        size = max(1, len(getattr(best.plan, name)) // 2)
        while size:
            best = _leave_out(scenario, best, name, size, ends_at)
            size //= 2
    return best


def _leave_out(scenario: Scenario, best: Outcome, name: str, size: int, ends_at: float) -> Outcome:
    """Try to leave out each run of so many items of a field."""
    at = 0
    while at < len(getattr(best.plan, name)) and time.monotonic() < ends_at:
        outcome = scenario.play(_without(best.plan, name, at, size))
        if _is_same(best, outcome):
            best = outcome
        else:
            at += size
    return best


def _without(plan: Any, name: str, at: int, size: int) -> Any:
    items = getattr(plan, name)
    return evolve(plan, **{name: items[:at] + items[at + size :]})


def _is_same(one: Outcome, other: Outcome) -> bool:
    if one.violation is None or other.violation is None:
        return False
    return one.violation.promise == other.violation.promise
