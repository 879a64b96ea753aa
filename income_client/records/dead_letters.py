"""Dead letters: applications and windows that a poller listed and could not read."""

from datetime import datetime, timedelta
from typing import Final

from attrs import frozen

from .window import Window

_FIRST_PAUSE: Final = timedelta(seconds=30)
_LONGEST_PAUSE: Final = timedelta(days=1)
_MOST_DOUBLINGS: Final = 12


@frozen(kw_only=True)
class DeadLetter:
    """An application, or a window of the list, that a poller could not read.

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

    Attributes:
        application_id: id of the application; None for a dead letter about a window. A window
            becomes a dead letter if it is a saturated second, or if a row in it has no id.
        window: window of the list in which the application was listed, or which could not be read.
        reason: last error, without any content of a reply.
        attempts: number of attempts, the first one included; 0 once ``retry`` of the store has made
            it due.
        first_tried_at: service time of the first attempt, without zone.
        last_tried_at: service time of the last attempt, without zone.
    """

    application_id: str | None
    window: Window
    reason: str
    attempts: int
    first_tried_at: datetime
    last_tried_at: datetime

    @property
    def key(self) -> str:
        """Key of the dead letter among the dead letters of its poller."""
        if self.application_id is None:
            return key_of_window(self.window)
        return key_of_application(self.application_id)

    @property
    def next_try_at(self) -> datetime:
        """Service time, without zone, from which on a running poller tries again."""
        if not self.attempts:
            return self.last_tried_at
        pause: timedelta = _FIRST_PAUSE * (1 << min(self.attempts, _MOST_DOUBLINGS))
        # A sum later than `datetime.max` would raise an `OverflowError`.
        longest = datetime.max - self.last_tried_at  # noqa: DTZ901 - service time has no zone
        return self.last_tried_at + min(pause, _LONGEST_PAUSE, longest)


def key_of_application(application_id: str) -> str:
    """Return the key of the dead letter about an application."""
    return f"application:{application_id}"


def key_of_window(window: Window) -> str:
    """Return the key of the dead letter about a saturated second or a longer window."""
    return f"{'window' if is_second(window) else 'rows'}:{window.after}"


def is_second(window: Window) -> bool:
    """Return whether a window is a single second, as in a dead letter about a saturated second."""
    return window.before - window.after == 1
