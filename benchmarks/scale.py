"""How much is measured: the figures of the goals, and small ones to try the benchmark itself."""

from typing import Final

from attrs import frozen


@frozen(kw_only=True)
class Scale:
    """The sizes of all loads; each is bounded by them."""

    walked: int
    """Applications of a walk."""
    seeds: tuple[int, ...]
    """The walk is made over the data of each."""
    streamed: int
    """Summaries of the walk whose memory is watched."""
    kinds: int
    """Different records of those whose memory is watched, again and again."""
    fetched: int
    """Records with documents whose memory is watched."""
    first_calls: int
    """Calls made at once by a client without a token."""
    records: int
    """Records fetched with their documents."""
    latency: float
    """Seconds that the service takes, where latency matters."""
    rounds: int
    """Times that things are alternated which are compared."""
    slow_rounds: int
    """Likewise, of what takes long and differs by much."""


FULL: Final = Scale(
    walked=100_000,
    seeds=(7, 11, 23),
    streamed=1_000_000,
    kinds=500,
    fetched=50_000,
    first_calls=1_000,
    records=1_000,
    latency=0.020,
    rounds=7,
    slow_rounds=3,
)
"""What the goals are about."""

QUICK: Final = Scale(
    walked=3_000,
    seeds=(7,),
    streamed=5_000,
    kinds=20,
    fetched=200,
    first_calls=50,
    records=40,
    latency=0.002,
    rounds=1,
    slow_rounds=1,
)
"""Enough to see every row; its figures mean nothing."""
