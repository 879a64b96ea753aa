"""Which rows of a page were there before: memory of the pages whose surroundings are not done."""

from collections.abc import Set as AbstractSet

from attrs import frozen

from income_client.records.window import Window

from .intervals import Intervals


@frozen
class _Page:
    reach: Window
    """Every second of which the page may hold rows."""
    ids: AbstractSet[str]


class Overlap:
    """Recognises rows that a neighbouring window already gave.

    A page may hold rows of the seconds beside its window. Its ids are kept
    until every second that it may reach, and the one beside, is covered: no page
    asked for later can then hold one of its rows again, even where a saturated
    second, of which no page holds every row, lies between them. Those are the
    pages at both ends of each covered interval, however long the walk.
    """

    def __init__(self, span: Window) -> None:
        self._span = span
        self._pages: list[_Page] = []

    def __len__(self) -> int:
        return len(self._pages)

    def admit(self, reach: Window, ids: AbstractSet[str]) -> AbstractSet[str]:
        """Return the ids that are new, and remember all of them."""
        fresh = ids
        for page in self._pages:
            if page.reach.after < reach.before and reach.after < page.reach.before:
                fresh = fresh - page.ids
        self._pages.append(_Page(reach, ids))
        return fresh

    def forget(self, covered: Intervals) -> None:
        """Drop the pages that no uncovered second can touch."""
        low, high = self._span.after, self._span.before
        self._pages = [
            page
            for page in self._pages
            if not covered.covers(
                Window(max(low, page.reach.after - 1), min(high, page.reach.before + 1)),
            )
        ]
