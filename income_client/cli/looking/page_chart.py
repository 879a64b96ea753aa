"""Income by year as columns of a page, a year beside the other; knows no more of anybody."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final

from .amounts import amount_text, share, short_text
from .elements import Markup, element
from .view import SourceView, YearView
from .words import RESTS_ON_SUSPECTED

_HUES: Final = 6
FEW: Final = 4
"""Up to so many years there is room for all digits above a column."""
_ROOM: Final = 11
"""Characters above a column where there are few."""
_REM: Final = 10
"""Height of the highest column."""


def look_of(source: SourceView) -> str:
    """Return the class of what stands for a source: its colour, with stripes for a doubtful one."""
    hue = f"h{source.hue % _HUES}"
    return f"{hue} doubt" if source.is_suspected else hue


def chart(years: Sequence[YearView], highest: Decimal) -> Iterator[Markup]:
    """Yield a key and the columns, the earliest year first.

    Args:
        years: what is drawn.
        highest: the amount as high as the chart.
    """
    shown = sorted(years, key=lambda year: year.year)
    yield element("ul", *_key(shown), class_="key")
    is_many = len(shown) > FEW
    said = ", ".join(f"{year.text}: {amount_text(year.total)}" for year in shown)
    yield element(
        "div",
        *(_column(year, highest, is_short=is_many) for year in shown),
        class_="columns many" if is_many else "columns",
        role="img",
        aria_label=f"Income by year. {said}",
    )
    names = (element("span", year.text) for year in shown)
    yield element("div", *names, class_="years", aria_hidden="true")


def _key(years: Sequence[YearView]) -> Iterator[Markup]:
    seen = {source.hue: source for year in years for source in year.sources}
    doubtful = any(source.is_suspected for year in years for source in year.sources)
    for hue in sorted(seen):
        look = element("span", class_=f"swatch h{hue % _HUES}")
        yield element("li", look, seen[hue].name)
    if doubtful:
        look = element("span", class_="swatch blank doubt")
        yield element("li", look, RESTS_ON_SUSPECTED, class_="alarm")


def _column(year: YearView, highest: Decimal, *, is_short: bool) -> Markup:
    whole = year.height
    parts = (_part(source, whole) for source in year.sources if source.amount > 0)
    height = share(whole, highest) * _REM
    doubt = year.is_suspected
    mark = [element("span", "\u26a0 ", class_="mark")] if doubt else []
    total = amount_text(year.total)
    if is_short or len(total) > _ROOM:
        total = short_text(year.total)
    return element(
        "div",
        element("div", *mark, total, class_="top alarm" if doubt else "top"),
        element("div", *parts, class_="stack", style=f"height: {height:.2f}rem"),
        class_="column",
    )


def _part(source: SourceView, whole: Decimal) -> Markup:
    grow = share(source.amount, whole) * 1000
    return element("div", class_=f"part {look_of(source)}", style=f"flex: {grow:.2f} 1 0")
