"""Compare the program's times with pages of the list, and choose further list calls."""

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from attrs import define, field

from income_client.records.applications import ApplicationSummary
from income_client.records.window import Window
from income_client.walk.windows import Answer
from income_client.wire.rows import MalformedRow

from .held import HeldTimes


@define
class Findings:
    """Ids that are missing or stale in one window."""

    missing: list[str] = field(factory=list)
    """Ids that are not held."""
    stale: list[int] = field(factory=list)
    """Slots of ids that are held with an older time."""


@define(eq=False)
class ListedPage:
    """A window of the first walk, with the slots whose held time lies within it."""

    window: Window
    slots: "array[int]"
    cuts: Sequence[int] = ()
    """Seconds, in ascending order, at which the window is cut into parts."""
    unknown_from: int | None = None
    """The latest cut behind which a page did not hold every row of its part."""


class Comparison:
    """A comparison of the ids and times held with the list, page by page.

    Args:
        held: ids and times, which do not change any more.
        until: the second before which an update is due.
        margin: seconds after a held time within which an update may be passed over; None for
            any in the same window.
    """

    def __init__(self, held: HeldTimes, until: int, margin: int | None) -> None:
        self.held = held
        self.until = until
        self._margin = margin
        self.listed: int = 0
        self.unreadable: int = 0
        self.missing: dict[str, Window] = {}
        self.stale: dict[int, Window] = {}
        self._nameless: list[Window] = []
        self._pages: list[ListedPage] = []
        self._is_listed = bytearray(len(held))
        self._is_recent = bytearray(len(held))
        self._is_later = bytearray(len(held))
        self._undue: set[str] = set()
        self.unknown_ids: set[str] = set()
        """Ids that the service does not know."""
        self.updated_later: set[str] = set()
        """Ids that were updated after ``until``, but that no walk listed."""

    def add_page(self, window: Window, rows: Sequence[ApplicationSummary]) -> None:
        """Compare rows of the first walk, which were updated within a window."""
        is_due = window.before <= self.until
        slots: array[int] = array("i")
        for application_id in self._ids_on(window, rows):
            self.listed += 1
            slot = self.held.find(application_id)
            if slot is not None:
                self._is_listed[slot] = True
                self._is_later[slot] = self.held.earliest[slot] > window.before
            if slot is not None and self.held.latest[slot] >= window.after:
                if self.held.latest[slot] + 1 < window.before:
                    slots.append(slot)
            elif not is_due:
                # The service has applied a later bound.
                self._undue.add(application_id)
            elif slot is None:
                self.missing[application_id] = window
            else:
                self.stale[slot] = window
        if slots:
            self._pages.append(ListedPage(window, slots))

    def add_beside(self, window: Window, rows: Sequence[ApplicationSummary]) -> None:
        """Mark rows of the seconds beside ``until`` as listed, due or not."""
        for application_id in self._ids_on(window, rows):
            slot = self.held.find(application_id)
            if slot is not None and not self._is_listed[slot]:
                self._is_listed[slot] = self._is_recent[slot] = True

    def add_recent(self, window: Window, rows: Sequence[ApplicationSummary]) -> None:
        """Drop findings about rows that were updated after the first walk."""
        for application_id in self._ids_on(window, rows):
            self._undue.discard(application_id)
            slot = self.held.find(application_id)
            if slot is None:
                self.listed -= self.missing.pop(application_id, None) is not None
                continue
            self.listed -= self._is_listed[slot] and not self._is_recent[slot]
            self._is_listed[slot] = self._is_recent[slot] = True
            self.stale.pop(slot, None)

    @property
    def later_than_listed(self) -> int:
        """Number of ids with a time after the window in which they were listed, and not since."""
        return sum(
            is_later and not is_recent
            for is_later, is_recent in zip(self._is_later, self._is_recent, strict=True)
        )

    def _ids_on(self, window: Window, rows: Sequence[ApplicationSummary]) -> Iterator[str]:
        for row in rows:
            if isinstance(row, MalformedRow) and not row.has_id:
                self.unreadable += 1
                self._nameless.append(window)
            else:
                yield row.application_id

    # Findings, looked at again

    def findings(self) -> Mapping[Window, Findings]:
        """Return missing and stale ids by the window in which they were listed."""
        findings: dict[Window, Findings] = defaultdict(Findings)
        for application_id, window in self.missing.items():
            findings[window].missing.append(application_id)
        for slot, window in self.stale.items():
            findings[window].stale.append(slot)
        return findings

    def look_again(self, window: Window, findings: Findings, answer: Answer | None) -> None:
        """Drop findings of a window that are missing from a later, complete page of the window."""
        if answer is None or not _is_whole(window, answer):
            return
        there = {row.application_id for row in answer.page.applications}
        for application_id in findings.missing:
            if application_id not in there:
                del self.missing[application_id]
        for slot in findings.stale:
            if self.held.id_of(slot) not in there:
                del self.stale[slot]

    # Windows of held times, asked for in parts

    def parts(self) -> Iterator[tuple[ListedPage, Window]]:
        """Choose where to cut pages, and return the parts to request."""
        for page in self._pages:
            page.cuts = self._cuts_within_margin(page)
            # A part reaches a second into the next one, in case bounds are exclusive.
            ends = [*(cut + 1 for cut in page.cuts[1:]), page.window.before][: len(page.cuts)]
            yield from ((page, Window(*edges)) for edges in zip(page.cuts, ends, strict=True))

    def _cuts_within_margin(self, page: ListedPage) -> Sequence[int]:
        """Return the fewest cuts that end a part within the margin of each held time."""
        if self._margin is None:
            return ()
        cuts: list[int] = []
        for first in sorted({self.held.latest[slot] + 1 for slot in self._open_slots(page)}):
            last = first + self._margin - 1
            is_within = cuts and cuts[-1] >= first
            if not is_within and last < page.window.before:
                cuts.append(last)
        return cuts

    def take_part(self, page: ListedPage, part: Window, answer: Answer | None) -> None:
        """Compare rows of a part of a window: held times before the part are stale."""
        if answer is None or not _is_whole(part, answer):
            page.unknown_from = max(part.after, page.unknown_from or part.after)
        if answer is None:
            return
        for row in answer.page.applications:
            slot = self.held.find(row.application_id)
            is_due = answer.echo.before <= self.until
            if slot is not None and is_due and self.held.latest[slot] < answer.echo.after:
                self.stale[slot] = answer.echo

    def _open_slots(self, page: ListedPage) -> Iterator[int]:
        return (slot for slot in page.slots if not self._is_recent[slot])

    # The result

    def undecided(self) -> tuple[int, int]:
        """Return the number of undecided ids, and their largest possible delay in seconds.

        An id is undecided if it was listed in the window of the time held. The delay is how long
        after that time it may have been updated again.
        """
        count, margin = len(self._undue), 0
        for page in self._pages:
            unknown = page.unknown_from
            decided = [cut for cut in page.cuts if unknown is None or cut > unknown]
            ends = [*decided, page.window.before]
            for slot in self._open_slots(page):
                if slot not in self.stale:
                    cut = self.held.latest[slot] + 1
                    possible = ends[bisect_left(ends, cut)] + 1 - cut
                    count += possible > (self._margin or 1)
                    margin = max(margin, possible)
        return count, margin

    def unlisted(self, after: int, saturated: Sequence[Window]) -> tuple[list[str], int]:
        """Return ids held with times after a second that no walk listed, and how many are unclear.

        An unclear id may be hidden in a saturated second or in a row without an id.
        """
        hidden = max((window.before for window in (*self._nameless, *saturated)), default=after)
        ids, unclear = [], 0
        for slot, is_listed in enumerate(self._is_listed):
            is_in_span = after < self.held.earliest[slot] and self.held.latest[slot] < self.until
            if is_listed or not is_in_span:
                continue
            if self.held.earliest[slot] <= hidden:
                unclear += 1
            else:
                ids.append(self.held.id_of(slot))
        return ids, unclear


def _is_whole(window: Window, answer: Answer) -> bool:
    """Return whether a page holds every row between two bounds."""
    is_applied = answer.echo.after <= window.after and window.before <= answer.echo.before
    return is_applied and not answer.is_full
