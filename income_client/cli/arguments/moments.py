"""Times on a command line: told outright, or back from the service's own present."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from attrs import frozen
from cyclopts import Parameter, Token

from income_client import IncomeClient

from .misuse import MisuseError
from .service_times import BEGINNING, service_time

_BACK: Final = re.compile(r"(\d{1,8})(s|min|m|h|d|w)", re.ASCII)
_UNITS: Final = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_LONGEST_FIRST: Final = sorted(_UNITS.items(), key=lambda unit: -unit[1])
_BEGINNING: Final = "beginning"
_NOW: Final = "now"
_NO_TIME: Final = timedelta(0)


@frozen
class Moment:
    """A time that somebody typed; neither field is set for the beginning of time."""

    at: datetime | None = None
    """A time; the service's own where it carries no zone."""
    back: timedelta | None = None
    """How long before the service's present."""

    def seen_from(self, present: datetime) -> datetime:
        """Return the time that is meant, the beginning of time at the earliest.

        Args:
            present: service time; looked at only where ``back`` is set.
        """
        if self.back is None:
            return BEGINNING if self.at is None else self.at
        try:
            return max(present - self.back, BEGINNING)
        except OverflowError:
            return BEGINNING

    @property
    def text(self) -> str:
        """What one would type for it."""
        if self.back is None:
            return _BEGINNING if self.at is None else self.at.isoformat()
        fitting = (name for name, unit in _LONGEST_FIRST if self.back % unit == _NO_TIME)
        unit = next(fitting)
        return f"{self.back // _UNITS[unit]}{unit}" if self.back else _NOW


NOW: Final = Moment(back=_NO_TIME)
"""The service's present."""


def read_moment(text: str) -> Moment:
    """Return the moment that a text means.

    Args:
        text: ISO 8601, a span such as ``7d`` or ``12h``, ``now`` or ``beginning``.

    Raises:
        ValueError: it is none of these.
    """
    if text == _BEGINNING:
        return Moment()
    if text == _NOW:
        return NOW
    span = _BACK.fullmatch(text)
    try:
        if span is not None:
            return Moment(back=int(span[1]) * _UNITS[span[2]])
        return Moment(at=datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        raise ValueError(
            "this is no time; 2026-01-31, 2026-01-31T12:00:00, 7d, 12h, now and beginning are"
        ) from None


def _converted(_: Any, tokens: Sequence[Token]) -> Moment:
    return read_moment(tokens[0].value)


When = Annotated[
    Moment,
    Parameter(
        converter=_converted, n_tokens=1, accepts_keys=False, metavar="WHEN", show_default=False
    ),
]
"""An option that takes a time."""


@frozen(kw_only=True)
class Bounds:
    """The bounds of a walk, as `IncomeClient.list_applications` takes them."""

    after: datetime | None
    """Lower bound; None where none is given, which means the beginning of time."""
    before: datetime | None
    """Upper bound; None where none is given, which means the present."""


def ends_before_it_begins(after: Moment | None, before: Moment | None) -> bool:
    """Say whether two bounds cannot be meant together, wherever the service's present is.

    Args:
        after: lower bound, if any.
        before: upper bound, if any.
    """
    if after is None or before is None:
        return False
    if after.back is not None and before.back is not None:
        return after.back < before.back
    if after.at is None or before.at is None:
        return False
    # Where only one of them has a zone, nobody knows before the service is asked.
    has_zones = after.at.utcoffset() is not None, before.at.utcoffset() is not None
    return has_zones[0] == has_zones[1] and after.at > before.at


async def span_between(client: IncomeClient, after: Moment | None, before: Moment | None) -> Bounds:
    """Return the bounds that are meant, by the service's own present.

    Args:
        client: of the service; it is asked for its time where that matters.
        after: lower bound, if any.
        before: upper bound, if any.

    Raises:
        MisuseError: the span begins later than the service's present, or than it ends.
        IncomeClientError: the service does not tell its time.
    """
    present = BEGINNING
    if after not in (None, Moment()) or (before is not None and before.back is not None):
        present = await client.service_time()
    bounds = Bounds(
        after=None if after is None else after.seen_from(present),
        before=None if before is None else before.seen_from(present),
    )
    if bounds.after is not None and bounds.after != BEGINNING:
        begins = service_time(bounds.after)
        if begins > present:
            raise MisuseError(
                f"{begins.isoformat()} is in the future: it is {present.isoformat()} at the service"
            )
        if bounds.before is not None and begins > service_time(bounds.before, up=True):
            raise MisuseError("--updated-after is later than --updated-before")
    return bounds
