"""Times on a command line: told outright, or back from the service's own present."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from attrs import frozen
from cyclopts import Parameter, Token

from income_client import IncomeClient

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

    def seen_from(self, present: datetime | None) -> datetime | None:
        """Return the time that is meant, None for the beginning of time.

        Args:
            present: service time; needed only where ``back`` is set.
        """
        if self.back is None or present is None:
            return self.at
        try:
            return present - self.back
        except OverflowError:
            return None

    @property
    def text(self) -> str:
        """What one would type for it."""
        if self.back is None:
            return _BEGINNING if self.at is None else self.at.isoformat()
        fitting = (name for name, unit in _LONGEST_FIRST if self.back % unit == _NO_TIME)
        unit = next(fitting)
        return f"{self.back // _UNITS[unit]}{unit}" if self.back else _NOW


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
        return Moment(back=_NO_TIME)
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
class Span:
    """The bounds of a walk, as `IncomeClient.list_applications` takes them."""

    after: datetime | None
    """Lower bound; None for the beginning of time."""
    before: datetime | None
    """Upper bound; None for the present."""


async def span_between(client: IncomeClient, after: Moment | None, before: Moment | None) -> Span:
    """Return the span that is meant; asks for the service's time where that matters.

    Args:
        client: of the service.
        after: lower bound, if any.
        before: upper bound, if any.

    Raises:
        IncomeClientError: the service does not tell its time.
    """
    present = None
    if any(one is not None and one.back is not None for one in (after, before)):
        # What it applies where no upper bound is given; the local clock may be wrong.
        present = (await client.get_application_page(limit=1)).updated_before
    return Span(
        after=None if after is None else after.seen_from(present),
        before=None if before is None else before.seen_from(present),
    )
