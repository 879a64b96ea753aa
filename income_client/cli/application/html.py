"""An application as one HTML file that needs no other, has no script and loads nothing."""

from decimal import Decimal
from functools import cache
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from .view import RecordView, TimeLine, amount_text

_FEW_YEARS: Final = 4
"""Up to so many years there is room for all digits above a column."""
_HUES: Final = 6
"""So many has the style sheet."""
_UNITS: Final = ((10**9, "B"), (10**6, "M"), (1000, "k"))
_HUGE: Final = 10**12


@cache
def _load_template() -> Template:
    """Return the page's template, which takes longer to parse than to fill in."""
    environment = Environment(
        loader=PackageLoader("income_client.cli.application", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(amount=amount_text, short=_short_text)
    return environment.get_template("page.html.jinja")


def page(view: RecordView) -> bytes:
    """Return the page of an application, in UTF-8."""
    years = [year for person in view.applicants for year in person.years]
    # What is called the same has the same colour: a key of colours names it once.
    kinds = dict.fromkeys(kind for person in view.applicants for kind in person.kinds)
    text = _load_template().render(
        view=view,
        together=view.together,
        line=TimeLine.of(view.documents),
        highest=max((year.height for year in years), default=0) or 1,
        few=_FEW_YEARS,
        hues={kind: f"h{place % _HUES}" for place, kind in enumerate(kinds)},
    )
    return text.encode()


def _short_text(amount: Decimal) -> str:
    """Return an amount in thousands or millions, where the exact one is elsewhere."""
    size = abs(amount)
    if size >= _HUGE:
        return f"{amount:.0e}"
    for unit, letter in _UNITS:
        if size >= unit:
            scaled = amount / unit
            return f"{scaled:.{1 if size < 10 * unit else 0}f}{letter}"
    return f"{amount:.0f}"
