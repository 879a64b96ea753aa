"""A part of the walk's span with one walker, and what it knows; decides nothing."""

from attrs import define

from income_client.records.window import Window

from .density import Density
from .windows import Question, Rows, Second, second_of


@define
class Stretch:
    """Seconds that are walked from start to end, with at most one question in flight."""

    start: int
    """First second not yet received."""
    end: int
    """First second behind the stretch."""
    density: Density
    """What is known of the rows ahead."""
    asked: Question | None = None
    """The question in flight."""
    overfull: int | None = None
    """Width of the window at the start that came back full."""
    second: Second | None = None
    """The first second, while it is narrowed down."""
    doubts: int = 0
    """How often rows of that second moved while it was narrowed down."""

    @property
    def free_from(self) -> int:
        """First second that no question in flight is about."""
        return self.asked.window.before if self.asked else self.start

    @property
    def pages_ahead(self) -> float:
        """Pages that probably lie behind the question in flight."""
        return self.density.pages(self.free_from, self.end)

    def pass_second(self) -> None:
        """Go on behind the first second."""
        self.start += 1
        self.second = self.overfull = None
        self.doubts = 0

    def part(self, window: Window) -> "Stretch":
        """Return the stretch that is left of this one in a window."""
        if window.before == self.end:
            self.start = window.after
            return self
        return Stretch(window.after, window.before, self.density.without_crowds())

    def split(self) -> "Stretch | None":
        """Cut the free part in two and return the later one; None where it is too short."""
        cut = (self.free_from + self.end + 1) // 2
        if cut >= self.end:
            return None
        half = Stretch(cut, self.end, self.density.fork(self.start, cut))
        self.end = cut
        return half

    def set_apart_quiet(self, rows: Rows) -> "Stretch | None":
        """Give up what lies before the oldest of these applications, and return it.

        Nothing is updated before it was made, so one question probably does for
        all of it. It is a hint like any other: the rows are a sample.
        """
        if self.density.rate is not None or not rows:
            return None
        oldest = second_of(min(row.application_date for row in rows.values()))
        if not self.start < oldest < self.end - 1:
            return None
        quiet = Stretch(self.start, oldest, Density(self.density.limit))
        self.start, self.overfull = oldest, None
        return quiet
