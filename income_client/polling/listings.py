"""Seconds that a poller lists again, and the delay with which an update was listed.

    position ....... settled ........ older ...... recent ...... until ...... present
    read and         due: listed      listed again                 not listed   service
    delivered        and read         for what is listed late      yet          time
                     once more

    settled = present - settle         until = the present of the last poll

A poll lists the seconds from ``until`` on, and reads all their rows. In earlier seconds it reads
only rows that it has not read: updates that were listed late. Once ``settle`` has passed, it reads
every row again, since an application may be updated twice in one second, and the progress moves.

Rows that were read show which seconds a page includes (`LearnedBounds`), which saves requests.
"""

from typing import Final

from attrs import define, field, frozen

from income_client.records.window import Window

PARTS_OF_AGE: Final = 4
"""A second is listed again once this part of its age has passed since it was listed last: with a
quarter, an update that is listed late is found within a quarter more of its lateness."""
_DUE: Final = 10
"""Fewest seconds that become due at once. The second at either edge may be read twice, and takes a
list call: ten seconds cost a tenth of a reading for each version."""
_APART: Final = 2
"""Fewest seconds between two listings of one second; with one, a poll a second would make a third
more list calls."""
_RECENT: Final = 8
"""Seconds before ``until`` that are listed again apart from older ones. Of an application that a
narrow window shows, the record read last tells whether that update was read."""
_CONVINCING: Final = 3
"""Polls in a row that must show the present second. A row may also have been updated between the
page that shows it and the reading of its record, but hardly in three polls in a row."""


@frozen
class Span:
    """Seconds to list again."""

    first: int
    before: int
    is_due: bool = False
    """Whether every row is read, and the progress moves over them."""


@frozen
class Relisting:
    """The seconds that one poll lists again."""

    spans: tuple[Span, ...]
    """Spans in the order of listing: due spans last, otherwise the latest first."""
    listed_from: int
    """First second of those listed again, which reach from here to the present."""
    is_all: bool
    """Whether nothing is left that an earlier poll has listed."""


@define
class Listings:
    """The complete listings of one poller since it has acquired its lease."""

    until: int | None = None
    """First second that is not listed completely; None before the first listing."""
    _parts: list[tuple[int, int]] = field(factory=list)
    """First seconds of parts, ascending, and when each part was listed last, in service time."""

    def note(self, first: int, now: int) -> None:
        """Note that every second from the first one up to the present was listed."""
        self._parts = [part for part in self._parts if part[0] < first]
        self._parts.append((first, now))
        # Others may be updated within the present second, which is listed from its start again. A
        # server whose clock is behind that of the last one lists nothing new.
        self.until = now if self.until is None else max(self.until, now)

    def forget_before(self, second: int) -> None:
        """Forget what lies before a second."""
        while len(self._parts) > 1 and self._parts[1][0] <= second:
            del self._parts[0]

    def forget(self) -> None:
        """Forget all, because the service's clock went back or does not move."""
        self.until = None
        self._parts.clear()

    def plan(self, now: int, *, position: int, settled: int) -> Relisting:
        """Return what to list again.

        Args:
            now: the service's present second.
            position: the second before which every update is delivered.
            settled: the second before which ``settle`` has passed.
        """
        if self.until is None:
            return Relisting((), position, is_all=True)
        due = min(settled, self.until)
        is_due = due - position >= _DUE
        start = due if is_due else min(position, self.until)
        recent = start if self.until - start <= 2 * _RECENT else self.until - _RECENT
        overdue = self._first_overdue(start, now)
        older = recent
        if overdue >= self.until:
            older = recent = self.until
        elif overdue < recent:
            # Twice as far as needed, or a poll after the other would list a little more.
            older = max(start, now - 2 * (now - overdue))
        spans = [Span(recent, self.until), Span(older, recent)]
        if is_due:
            spans.append(Span(position, due, is_due=True))
        filled = tuple(span for span in spans if span.first < span.before)
        return Relisting(filled, older, is_all=older <= start)

    def _first_overdue(self, start: int, now: int) -> int:
        """Return the first second from a start on that must be listed again, or the present."""
        ends = [first for first, _ in self._parts[1:]] + [now]
        for (first, listed_at), end in zip(self._parts, ends, strict=True):
            overdue = max(first, start, now - PARTS_OF_AGE * (now - listed_at))
            if overdue < end and now - listed_at >= _APART:
                return overdue
        return now

    def listed_at(self, second: int) -> int | None:
        """Return when a second was listed last, in service time; None if it was not."""
        if self.until is None or second >= self.until:
            return None
        return next((at for first, at in reversed(self._parts) if first <= second), None)


@define
class LearnedBounds:
    """The meaning of the list call's bounds, as far as rows that were read have shown it.

    A hint that saves requests: if it is wrong, an update is delivered by a later poll.
    """

    _has_shown_first: bool = False
    _polls: int = 0
    """Polls in a row whose first page alone has shown rows of the present second."""
    _has_shown: bool = False
    """Whether the first page of the current poll has shown a row of the present second."""
    _has_hidden: bool = False
    """Whether a later page has shown a row of that second, or of the next one."""

    @property
    def include_first(self) -> bool:
        """Whether a page shows the rows of the second of its lower bound as well."""
        return self._has_shown_first

    @property
    def show_present(self) -> bool:
        """Whether a page without an upper bound shows the rows of the present second as well."""
        return self._polls >= _CONVINCING

    def learn(self, applied: Window, updated: int, present: int) -> None:
        """Learn from a row that was read.

        Args:
            applied: the bounds that the service has applied to the row's page.
            updated: the second of the last update in the row's record.
            present: the service's present in the first reply of the poll.
        """
        self._has_shown_first |= updated == applied.after
        if updated >= present:
            self._has_shown |= applied.before <= present
            self._has_hidden |= applied.before > present

    def end_poll(self, *, has_last_page: bool) -> None:
        """Judge a poll by its rows; without a page up to the future, it shows nothing."""
        if has_last_page and self._has_hidden:
            # They may have been updated after the first page, too: other polls will tell.
            self._polls = 0
        elif has_last_page and self._has_shown:
            self._polls += 1
        self._has_shown = self._has_hidden = False
