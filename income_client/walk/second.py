"""Whether one overfull second is saturated, or only shares its page with its neighbours.

A question about the second ``s`` is sent as ``(s-1, s+1)`` and, where both
bounds are inclusive, returns three seconds. The narrower forms settle it. With
one inclusive bound ``(s-1, s)`` or ``(s, s+1)`` returns ``s`` alone, and the two
together always hold it. With both inclusive ``(s, s)`` returns it alone. Any row
on a page whose two bounds are equal proves that meaning; so an empty page is
believed too once such a row was seen, be it about a neighbour or earlier in the
walk. A form counts only when it was echoed exactly; and nothing is believed
before the forms together, those about the neighbours included, hold every row
of the full page.
"""

from typing import Final

from income_client.records.applications import ApplicationSummary
from income_client.records.window import Window

from .questions import Answer, Bounds, Rows

_APART: Final = 3
"""Seconds from which on two questions about a second each have no second in common."""


class Second:
    """The narrower questions about one second, and what their pages prove."""

    def __init__(
        self, second: int, outer: Bounds, asked: Bounds, answer: Answer, *, inclusive: bool
    ) -> None:
        self.inclusive: bool = inclusive
        """Whether both bounds are known to be inclusive."""
        self.rows: dict[str, ApplicationSummary] = dict(answer.rows)
        self.echo: Window = answer.echo
        self._full_page = frozenset(answer.rows)
        self._held: set[str] = set()
        low, high = Bounds(second - 1, second), Bounds(second, second + 1)
        self._pair = (low, high)
        self._alone = Bounds(second, second)
        self._complete: set[Bounds] = set()
        self._neighbours = (Bounds(second - 1, second - 1), Bounds(second + 1, second + 1))
        self._to_ask = [
            form
            for form in (low, high, self._alone, *self._neighbours)
            if form != asked and _is_inside(form, outer)
        ]

    @property
    def covered(self) -> bool:
        """Tell whether the pages so far prove that every row of the second was given."""
        return self.is_whole and self._full_page <= self._held

    @property
    def is_whole(self) -> bool:
        """Tell whether some form holds the second, whatever became of the full page's rows."""
        is_alone = self.inclusive and self._alone in self._complete
        return is_alone or self._complete.issuperset(self._pair)

    def next(self) -> Bounds | None:
        """Return the form to ask next, None when the matter is settled."""
        if self.covered or not self._to_ask:
            return None
        form = self._to_ask[0]
        # The neighbours can only vouch for a second that some form holds, or may hold.
        may_help = self.is_whole or self._alone in self._complete
        return form if may_help or form not in self._neighbours else None

    def receive(self, form: Bounds, answer: Answer) -> None:
        """Take the page of a form; one that was not echoed exactly proves nothing."""
        self._to_ask.remove(form)
        self.rows.update(answer.rows)
        if (answer.echo.after, answer.echo.before) != (form.after, form.before):
            return
        self._held |= answer.rows.keys()
        self.inclusive |= form.after == form.before and bool(answer.rows)
        if not answer.is_full:
            self._complete.add(form)

    def refuse(self, form: Bounds) -> None:
        """Take note that the service does not accept the form."""
        self._to_ask.remove(form)


def _is_inside(form: Bounds, outer: Bounds) -> bool:
    inside = form.after >= outer.after
    if outer.before is not None and form.before is not None:
        inside = inside and form.before <= outer.before
    return inside


class Saturation:
    """Tells seconds that are really full from a service that does not apply the bounds.

    A row belongs to one second. Pages about seconds that are three apart have
    none in common, unless the service gives the same rows whatever it is asked.
    """

    def __init__(self) -> None:
        self._last: tuple[int, frozenset[str]] | None = None

    def contradicts(self, second: int, rows: Rows) -> bool:
        """Take a saturated second; tell whether its rows were those of another one."""
        ids = frozenset(rows)
        if self._last is not None:
            last, known = self._last
            if abs(second - last) < _APART:
                return False
            if 2 * len(ids & known) > len(ids):
                return True
        self._last = (second, ids)
        return False
