"""How many callbacks are sent: enough for the figures to settle, or just to see the rows."""

from typing import Final

from attrs import frozen


@frozen(kw_only=True)
class CallbackScale:
    """The sizes of all loads; each is bounded by them."""

    requests: int
    """Callbacks that one server gets in one round."""
    rounds: int
    """Times that servers are alternated which are compared."""
    connections: int
    """Callbacks on their way at a time."""
    flood: int
    """Tokens with unknown keys."""
    updates: int
    """Updates that a poller is woken for."""


FULL: Final = CallbackScale(requests=800, rounds=7, connections=16, flood=2_000, updates=20)
"""What the goals are about. A receiver remembers 10,000 callbacks; all of one run are fewer."""

QUICK: Final = CallbackScale(requests=20, rounds=1, connections=4, flood=40, updates=2)
"""Enough to see every row; its figures say little."""
