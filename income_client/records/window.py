"""A span of the service's time."""

from datetime import datetime, timedelta
from typing import Final

from attrs import frozen

EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - the service's times carry no zone
_LAST_SECOND: Final = (datetime.max - EPOCH) // timedelta(seconds=1)  # noqa: DTZ901 - as above


@frozen(order=True)
class Window:
    """The span ``[after, before)`` in whole seconds of the service's clock since 1970.

    >>> str(Window(1782820800, 1782824400))
    '[2026-06-30T12:00:00, 2026-06-30T13:00:00)'
    >>> bool(Window(5, 5))
    False

    Attributes:
        after: first second of the span.
        before: first second after the span.
    """

    after: int
    before: int

    @property
    def starts_at(self) -> datetime:
        """First second of the span, as a time without zone in the service's frame."""
        return EPOCH + timedelta(seconds=self.after)

    @property
    def ends_at(self) -> datetime:
        """First second after the span, as a time without zone in the service's frame."""
        return EPOCH + timedelta(seconds=min(self.before, _LAST_SECOND))

    def overlaps(self, other: "Window") -> bool:
        """Return whether both windows contain a common second.

        Args:
            other: a window that is not empty.
        """
        return self.after < other.before and other.after < self.before

    def touches(self, other: "Window") -> bool:
        """Return whether both windows overlap, or one begins where the other ends.

        Args:
            other: a window that is not empty.
        """
        return self.after <= other.before and other.after <= self.before

    def contains(self, second: int) -> bool:
        """Return whether a second of the service's clock lies in the window."""
        return self.after <= second < self.before

    def __bool__(self) -> bool:
        """Return whether the span contains any second."""
        return self.after < self.before

    def __str__(self) -> str:
        return f"[{self.starts_at.isoformat()}, {self.ends_at.isoformat()})"
