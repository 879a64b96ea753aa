"""Leaves out what a failing run does not need, within a time limit."""

import time

from attrs import evolve

from .cluster import Outcome, play
from .plan import Plan


def shrink(outcome: Outcome, *, seconds: float) -> Outcome:
    """Return the smallest run that was found in time and breaks the same promise."""
    ends_at, best = time.monotonic() + seconds, outcome
    for name in ("faults", "updates"):
        size = max(1, len(getattr(best.plan, name)) // 2)
        while size:
            best = _leave_out(best, name, size, ends_at)
            size //= 2
    return best


def _leave_out(best: Outcome, name: str, size: int, ends_at: float) -> Outcome:
    """Try to leave out each run of so many faults or updates."""
    at = 0
    while at < len(getattr(best.plan, name)) and time.monotonic() < ends_at:
        outcome = play(_without(best.plan, name, at, size))
        if _is_same(best, outcome):
            best = outcome
        else:
            at += size
    return best


def _without(plan: Plan, name: str, at: int, size: int) -> Plan:
    items = getattr(plan, name)
    return evolve(plan, **{name: items[:at] + items[at + size :]})


def _is_same(one: Outcome, other: Outcome) -> bool:
    if one.violation is None or other.violation is None:
        return False
    return one.violation.promise == other.violation.promise
