"""The edges of a part of a span: which rows around its two cuts it yields, and which others do.

Whether bounds are inclusive is not known, so a row of the very second of a cut may be listed
by the walks on both sides, or by none. The page of ``(cut - 1, cut + 1)`` holds all rows of
that second, whatever the bounds mean, and everyone who asks for it gets the same rows, but for
those that were updated meanwhile. So these rows are the later part's: it yields the page,
and both walks leave its rows out. Rows of a past second only ever leave it. One that
has left before its part was read is found by the part that is read last, and that yields the
page of its own cut as well.
"""

from attrs import frozen

from income_client.errors import UnexpectedResponseError
from income_client.records.window import Window

from .windows import Answer, Bounds, Rows


@frozen
class Cuts:
    """The seconds at which a part was cut off from its neighbours; None where it has none."""

    after: int | None = None
    before: int | None = None


def bounds_around(cut: int) -> Bounds:
    """Return the bounds of the page that holds every row of a cut's second."""
    return Bounds(cut - 1, cut + 1)


def is_whole(cut: int, answer: Answer) -> bool:
    """Return whether the page around a cut was applied as asked, and hides no row."""
    bounds, echo = bounds_around(cut), answer.echo
    return not answer.is_full and (echo.after, echo.before) == (bounds.after, bounds.before)


class Edges:
    """Asks for the pages around the cuts of a part, before anything else of it is walked."""

    def __init__(self, cuts: Cuts) -> None:
        self.excluded: frozenset[str] = frozenset()
        """Ids that the walk leaves out: of both pages."""
        self._cuts = cuts
        self._left = [cut for cut in (cuts.before, cuts.after) if cut is not None]

    @property
    def is_settled(self) -> bool:
        """Whether both pages have come."""
        return not self._left

    def next(self) -> Bounds:
        """Return the bounds to ask with; there are some until the edges are settled."""
        return bounds_around(self._left[0])

    def receive(self, answer: Answer) -> Rows:
        """Take the requested page; return its rows that the part yields.

        Raises:
            UnexpectedResponseError: it does not hold all rows around the cut, as it did when
                the span was cut.
        """
        cut = self._left[0]
        if not is_whole(cut, answer):
            second = Window(cut, cut + 1).starts_at.isoformat()
            raise UnexpectedResponseError(
                f"the list around {second} no longer fits into one page: split the span again"
            )
        del self._left[0]
        fresh = {key: row for key, row in answer.rows.items() if key not in self.excluded}
        self.excluded |= answer.rows.keys()
        return fresh if cut == self._cuts.after else {}
