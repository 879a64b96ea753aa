"""What a walk asks, what it hears and what it delivers, as values; decides nothing."""

import enum
from collections.abc import Mapping

from attrs import frozen

from income_client.records.applications import ApplicationSummary
from income_client.records.window import Window

Rows = Mapping[str, ApplicationSummary]


@frozen
class Bounds:
    """The two bounds of a list call, in seconds; whether they are inclusive nobody knows."""

    after: int
    """``updated_after``, as sent or as echoed."""
    before: int | None
    """``updated_before``; None is left to the service, which takes it for the present."""

    @property
    def reach(self) -> Window:
        """Every second of which a page for these bounds may hold rows."""
        before = self.after if self.before is None else self.before
        return Window(min(self.after, before), max(self.after, before) + 1)

    def around(self, window: Window) -> "Bounds":
        """Return the bounds that ask for a window within these: one second more, if there is."""
        before = window.before if self.before is None else min(window.before, self.before)
        return Bounds(max(window.after - 1, self.after), before)


class Kind(enum.Enum):
    """Why a question is asked."""

    WINDOW = "window"
    """To cover a window."""
    SECOND = "second"
    """To narrow down one second that came back full."""
    TAIL = "tail"
    """To learn the present, or to end the walk there."""


@frozen
class Question:
    """One list call that the walk wants made."""

    kind: Kind
    """Why it is asked."""
    window: Window
    """The seconds that it is responsible for."""
    bounds: Bounds
    """The bounds to send."""


@frozen
class Pause:
    """The walk can only go on when the service's clock has moved."""

    seconds: float
    """How long to wait."""


@frozen(kw_only=True)
class Answer:
    """What the service said to a question."""

    echo: Window
    """The bounds that it applied."""
    rows: Rows
    """The rows of the page, by their id."""
    is_full: bool
    """Whether the page holds as many rows as it could, so that some may be hidden."""
    served_at: int | None
    """The second at which the service says that it answered."""


@frozen(kw_only=True)
class Delivery:
    """Rows for the consumer, and the windows that are covered once it is done with them."""

    covers: Window
    """The window that the rows complete; may be empty."""
    bounds: Window
    """The bounds that the service applied."""
    applications: tuple[ApplicationSummary, ...]
    """Rows that no earlier delivery of a neighbouring window held."""
