"""How long polling is watched: long enough for its figures to settle, or just to see the rows."""

from typing import Final

from attrs import frozen


@frozen(kw_only=True)
class PollingScale:
    """The sizes of all loads; each is bounded by them."""

    polls: int
    """Polls of everyday life."""
    speed: float
    """Seconds of these in one of the machine's."""
    history: int
    """Applications that a first poll finds."""
    rounds: int
    """Times that things are alternated which are compared."""
    costs: int
    """Times that a digest is measured."""
    commits: int
    """Commits to the store."""


FULL: Final = PollingScale(polls=60, speed=4.0, history=2_500, rounds=3, costs=200, commits=300)
"""What the goals are about."""

QUICK: Final = PollingScale(polls=4, speed=12.0, history=60, rounds=1, costs=3, commits=3)
"""Enough to see every row; its figures say little."""
