"""How many calls are made: those of the goals, and few to try the benchmark itself."""

from typing import Final

from attrs import frozen


@frozen(kw_only=True)
class CallScale:
    """The sizes of all loads; each is bounded by them."""

    rounds: int
    """Times that things are alternated which are compared."""
    calls: int
    """Small calls of each kind in a round."""
    large_calls: int
    """Calls with replies of usual size in a round, where the slowest peer makes them too."""
    first_calls: int
    """Calls made at once by a client without a token."""
    imports: int
    """Fresh processes for each of the imports that are compared."""


FULL: Final = CallScale(rounds=15, calls=1_000, large_calls=100, first_calls=10_000, imports=15)
"""What the goals are about."""

QUICK: Final = CallScale(rounds=1, calls=50, large_calls=8, first_calls=100, imports=1)
"""Enough to see every row; its figures mean nothing."""
