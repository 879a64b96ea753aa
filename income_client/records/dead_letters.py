"""Dead letters: what a poller listed and could not read, without any content."""

from datetime import datetime, timedelta
from typing import Final

from attrs import frozen

from .window import Window

_FIRST_PAUSE: Final = timedelta(seconds=30)
_LONGEST_PAUSE: Final = timedelta(days=1)
_MOST_DOUBLINGS: Final = 12


@frozen(kw_only=True)
class DeadLetter:
    """What a poller listed and could not read: an application, or a part of the list.

    >>> from income_client.records import Window
    >>> letter = DeadLetter(
    ...     application_id=None,
    ...     window=Window(1782820800, 1782820801),
    ...     reason="more rows than one page holds",
    ...     attempts=3,
    ...     first_tried_at=datetime(2026, 6, 30, 12),
    ...     last_tried_at=datetime(2026, 6, 30, 13),
    ... )
    >>> letter.key
    'window:1782820800'
    >>> letter.next_try_at.isoformat()
    '2026-06-30T13:04:00'
    """

    application_id: str | None
    """Which application; None for a second that holds more rows than can be asked for, and for
    a longer window in which a row without an id is listed."""
    window: Window
    """Where the list showed it."""
    reason: str
    """The last error, without any content."""
    attempts: int
    """How often it was tried, the first time included."""
    first_tried_at: datetime
    """Service time of the first attempt, without zone."""
    last_tried_at: datetime
    """Service time of the last attempt, without zone."""

    @property
    def key(self) -> str:
        """Identifies it among the dead letters of a poller."""
        if self.application_id is None:
            return key_of_window(self.window)
        return key_of_application(self.application_id)

    @property
    def next_try_at(self) -> datetime:
        """Service time, without zone, from which on a poller that runs tries it again."""
        pause: timedelta = _FIRST_PAUSE * (1 << min(self.attempts, _MOST_DOUBLINGS))
        # There is no time after the last one.
        left = datetime.max - self.last_tried_at  # noqa: DTZ901 - without zone, as all of these
        return self.last_tried_at + min(pause, _LONGEST_PAUSE, left)


def key_of_application(application_id: str) -> str:
    """Return the key of the dead letter about an application."""
    return f"application:{application_id}"


def key_of_window(window: Window) -> str:
    """Return the key of the dead letter about a second of the list, or about a longer window."""
    return f"{'window' if is_second(window) else 'rows'}:{window.after}"


def is_second(window: Window) -> bool:
    """Return whether a window of a dead letter is a saturated second; others are longer."""
    return window.before - window.after == 1
