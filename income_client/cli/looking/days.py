"""A time line for the documents of an application; knows days and shares, and no layout."""

from collections.abc import Iterable, Iterator
from datetime import MAXYEAR, MINYEAR, date, timedelta
from typing import Final, Self

from attrs import frozen

from .view import Days, DocumentView

_MOST_TICKS: Final = 6
_MONTH_STEPS: Final = (1, 2, 3, 6)
_YEAR_STEPS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
_MONTHS: Final = 12


@frozen(kw_only=True)
class Stretch:
    """A part of the line, as shares of its length."""

    start: float
    """Where it begins, 0 to 1."""
    length: float
    """How long it is, 0 to 1."""


@frozen(kw_only=True)
class Tick:
    """A day that is named on the line."""

    at: float
    """Where it stands, 0 to 1."""
    text: str
    """What it is called."""


@frozen(kw_only=True)
class TimeLine:
    """Whole months from the first day that matters to the last."""

    first: date
    """The first day of a month."""
    last: date
    """The last day of a month."""

    @classmethod
    def of(cls, documents: Iterable[DocumentView]) -> Self | None:
        """Return the line that has room for these documents, None where no day is known."""
        days = [day for each in documents for day in _days_of(each)]
        if not days:
            return None
        return cls(first=min(days).replace(day=1), last=_month_end(max(days)))

    def place(self, day: date) -> float:
        """Return where a day begins, 0 to 1."""
        return min(max((day - self.first).days / self._days, 0.0), 1.0)

    def stretch(self, span: Days) -> Stretch:
        """Return the part of the line that a span takes."""
        start = self.place(span.first)
        return Stretch(start=start, length=((span.last - span.first).days + 1) / self._days)

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """Months or years, no more than can be told apart."""
        years = self.last.year - self.first.year + 1
        months = (years - 1) * _MONTHS + self.last.month - self.first.month + 1
        for step in _MONTH_STEPS:
            if months <= step * _MOST_TICKS and years <= _MOST_TICKS // 2:
                return tuple(self._months(step))
        return tuple(self._years(next(s for s in _YEAR_STEPS if years <= s * _MOST_TICKS)))

    @property
    def _days(self) -> int:
        return (self.last - self.first).days + 1

    def _months(self, step: int) -> Iterator[Tick]:
        for year in range(self.first.year, self.last.year + 1):
            for month in range(1, _MONTHS + 1, step):
                day = date(year, month, 1)
                if self.first <= day <= self.last:
                    yield Tick(at=self.place(day), text=f"{year:04}-{month:02}")

    def _years(self, step: int) -> Iterator[Tick]:
        for year in range(self.first.year, self.last.year + 1):
            day = date(year, 1, 1)
            if year % step == 0 and day >= self.first:
                yield Tick(at=self.place(day), text=f"{year:04}")


def spans_of(document: DocumentView) -> tuple[Days, ...]:
    """Return what a document takes of the line: its pay period, else the years it supports."""
    if document.period is not None:
        return (document.period,)
    return tuple(
        Days(first=date(year, 1, 1), last=date(year, 12, 31))
        for year in document.years
        if MINYEAR <= year <= MAXYEAR
    )


def _days_of(document: DocumentView) -> Iterator[date]:
    for span in spans_of(document):
        yield span.first
        yield span.last
    if document.paid is not None:
        yield document.paid


def _month_end(day: date) -> date:
    if (day.year, day.month) == (MAXYEAR, _MONTHS):
        return date.max
    after = date(day.year + day.month // _MONTHS, day.month % _MONTHS + 1, 1)
    return after - timedelta(days=1)
