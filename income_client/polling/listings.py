"""Seconds that a poller lists again, and the delay with which an update was listed.

    position ....... settled ........ older ...... recent ...... until ...... present
    read and         due: listed      listed again                 not listed   service
    delivered        and read         for what is listed late      yet          time
                     once more

    settled = present - settle         until = the present of the last poll

A poll lists the seconds from ``until`` on, and reads all their rows. In earlier seconds it reads
only rows that it has not read: updates that were listed late. Once ``settle`` has passed, it reads
every row again, since an application may be updated twice in one second, and the progress moves.
"""

from typing import Final

from attrs import define, field, frozen

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
