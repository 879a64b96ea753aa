"""What the list call was seen to do, and what may be concluded; knows no service and no terminal.

The contract does not say whether bounds are inclusive. A row whose second is known, from
its application, tells: it is asked for with that very second as one bound, then as the
other. All of that counts only if the row was, before and after, where its second says.
"""

import enum
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from attrs import frozen

from .times import Reading

LARGEST: Final = 1000
"""The highest limit of a page (contract section 4.1)."""


class Sight(enum.Enum):
    """Whether a row was on a page."""

    THERE = "there"
    """It was."""
    ABSENT = "absent"
    """It was not, and the page has room."""
    HIDDEN = "more rows share those seconds than one page holds"
    """It was not, and the page is full."""
    ELSEWHERE = "the service answered for another window than it was asked for"
    """The bounds that were applied are not those that were sent."""
    UNASKED = "a question was not answered"
    """There is no page."""


class Cannot(enum.Enum):
    """Why the meaning of the bounds cannot be told."""

    NO_ROWS = "the service lists no application whose last update can be read"
    MOVED = "the list does not show the row at its last_updated_at, or it changed meanwhile"
    WIDE = "the list shows the row in seconds beside its last_updated_at too"
    HIDDEN = Sight.HIDDEN.value
    ELSEWHERE = Sight.ELSEWHERE.value
    UNASKED = Sight.UNASKED.value
    MIXED = "rows differ, as where fractions of a second are compared that are not shown"


@frozen(kw_only=True)
class Trial:
    """Where a row was seen, T being the second of its last update."""

    before: Sight
    """From T-1 to T+1, first of all."""
    at_lower: Sight
    """From T to T+1."""
    at_upper: Sight
    """From T-1 to T."""
    below: Sight
    """From T-2 to T-1, where it cannot be."""
    above: Sight
    """From T+1 to T+2, where it cannot be."""
    after: Sight
    """From T-1 to T+1, last of all."""


@frozen(kw_only=True)
class Meaning:
    """What the bounds mean."""

    lower_closed: bool
    """Whether a row of the very second ``updated_after`` is listed."""
    upper_closed: bool
    """Whether a row of the very second ``updated_before`` is listed."""
    rows: int
    """How many rows said so."""


_UNTOLD: Final = {
    Sight.HIDDEN: Cannot.HIDDEN,
    Sight.ELSEWHERE: Cannot.ELSEWHERE,
    Sight.UNASKED: Cannot.UNASKED,
}


def meaning_of_bounds(trials: Sequence[Trial]) -> Meaning | Cannot:
    """Return what the bounds mean, or why that cannot be told (contract section 4.1)."""
    said = [_one(trial) for trial in trials]
    told = [each for each in said if isinstance(each, Meaning)]
    if not told:
        return next((each for each in said if isinstance(each, Cannot)), Cannot.NO_ROWS)
    first = told[0]
    if any(each != first for each in told):
        return Cannot.MIXED
    return Meaning(lower_closed=first.lower_closed, upper_closed=first.upper_closed, rows=len(told))


def _one(trial: Trial) -> Meaning | Cannot:
    sights = (
        trial.before, trial.at_lower, trial.at_upper, trial.below, trial.above, trial.after,
    )  # fmt: skip
    untold = next((_UNTOLD[sight] for sight in sights if sight in _UNTOLD), None)
    if untold is not None:
        return untold
    if Sight.ABSENT in (trial.before, trial.after):
        return Cannot.MOVED
    if Sight.THERE in (trial.below, trial.above):
        return Cannot.WIDE
    return Meaning(
        lower_closed=trial.at_lower is Sight.THERE,
        upper_closed=trial.at_upper is Sight.THERE,
        rows=1,
    )


class RowOrder(enum.Enum):
    """In which order a page gives its rows, by their update times."""

    ASCENDING = "ascending"
    DESCENDING = "descending"
    NONE = "none"
    UNTOLD = "untold"


_ENOUGH: Final = 4
"""Different times that are no longer in order by chance (one time in twelve, then falling fast)."""


def order_of(seconds: Sequence[int]) -> RowOrder:
    """Return the order of rows, of the update times of some of them."""
    pairs = list(pairwise(seconds))
    rises, falls = any(a < b for a, b in pairs), any(a > b for a, b in pairs)
    if rises and falls:
        return RowOrder.NONE
    if len(set(seconds)) < _ENOUGH:
        return RowOrder.UNTOLD
    return RowOrder.ASCENDING if rises else RowOrder.DESCENDING


class Future(enum.Enum):
    """What becomes of a bound in the future."""

    ACCEPTED = "accepted"
    LOWERED = "lowered"
    REFUSED = "refused"
    UNTOLD = "untold"


class Clamp(enum.Enum):
    """What becomes of a window from the beginning of time to the present."""

    NONE = "none"
    OLDEST = "oldest"
    """Nothing older than some day is kept."""
    WIDTH = "width"
    """Windows have a greatest width."""
    UNTOLD = "untold"


@frozen(kw_only=True)
class Limits:
    """What pages hold."""

    default_rows: int
    """Rows of a page without a limit."""
    large: int
    """Rows of a page with the largest limit, from the beginning of time."""
    small_limit: int
    """A limit below those, 0 where there was none."""
    small: int
    """Rows of a page with it."""
    hidden: int | None
    """Rows that smaller windows had and the large page, which was not full, did not; None where
    that was not looked at."""
    repeats: bool | None
    """Whether the small page began like the large one; None where that was not looked at."""


@frozen(kw_only=True)
class ListFacts:
    """What the list does."""

    limits: Limits | None = None
    """What pages hold; None where that was not found out."""
    default_span: int | None = None
    """Seconds from the lower to the upper bound that the service applies of itself."""
    starts_at_the_beginning: bool = False
    """Whether that lower bound lies at the beginning of time."""
    ends_at_the_present: bool = True
    """Whether the upper bound that goes with it is the present."""
    clamp: Clamp = Clamp.UNTOLD
    """What becomes of a very wide window."""
    clamp_seconds: int | None = None
    """Width of what is kept of it."""
    future: Future = Future.UNTOLD
    """What becomes of a bound in the future."""
    update_seconds: tuple[int, ...] = ()
    """Update times of rows of one page, in the page's order."""
    unread: tuple[str, ...] = ()
    """Errors of applications that could not be read, without their ids."""
    trials: tuple[Trial, ...] = ()
    """Rows that were looked for at the bounds."""
    shift: int = 0
    """Seconds from last_updated_at, in UTC, to where the list has the row."""
    presents: tuple[Reading, ...] = ()
    """The upper bound that the service applies where none is sent."""
