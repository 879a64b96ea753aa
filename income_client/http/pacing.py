"""When a request may go out: the gate that a 429 closes, and an even rate.

Both only compute with moments of a monotonic clock, in seconds; neither waits.
"""

from typing import Final

_LATEST: Final = 0.1
"""Seconds by which the timers of a busy event loop are late."""


class Gate:
    """Closed for everybody while the service wants to be left alone."""

    __slots__ = ("_opens_at",)

    def __init__(self) -> None:
        self._opens_at = 0.0

    def close(self, until: float) -> None:
        """Keep the gate closed until this moment, or longer if it is already."""
        self._opens_at = max(self._opens_at, until)

    def remaining(self, now: float) -> float:
        """Return the seconds until it opens, 0 when it is open."""
        return self._opens_at - now if self._opens_at > now else 0.0


class Pacer:
    """Spaces requests evenly: a line of calls, the first of which goes when its turn comes.

    A turn is taken only when it is used, so that a call which has to wait for something
    else meanwhile keeps its place.

    Args:
        rate: requests a second.
    """

    __slots__ = ("_ahead", "_interval", "_line", "_next_at")

    def __init__(self, rate: float) -> None:
        self._interval = 1.0 / rate
        self._next_at = 0.0
        self._line: list[object] = []
        self._ahead = 0

    def join(self, call: object, *, ahead: bool = False) -> None:
        """Put a call at the end of the line, or of those in it that go ahead of the others."""
        if ahead:
            self._line.insert(self._ahead, call)
            self._ahead += 1
        else:
            self._line.append(call)

    def leave(self, call: object) -> None:
        """Remove a call from the line."""
        place = self._line.index(call)
        self._ahead -= place < self._ahead
        del self._line[place]

    def turn_of(self, call: object, ready_at: float) -> float:
        """Return the moment of a call's turn, as far as is known by now.

        Args:
            call: one in the line.
            ready_at: the moment from which on it could go.
        """
        return max(self._next_at, ready_at) + self._line.index(call) * self._interval

    def take(self, ready_at: float, now: float) -> None:
        """Take the next turn, for a call that could go from ``ready_at`` on and goes now."""
        # Not counted from the present: each timer that is late would slow down all that follow.
        self._next_at = max(self._next_at, ready_at, now - _LATEST) + self._interval
