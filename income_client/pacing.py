"""When a request may go out: the gate that a 429 closes, and an even rate.

Both only compute with moments of a monotonic clock, in seconds; neither waits.
"""


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
    """Spaces requests evenly.

    Args:
        rate: requests a second.
    """

    __slots__ = ("_interval", "_next_at")

    def __init__(self, rate: float) -> None:
        self._interval = 1.0 / rate
        self._next_at = 0.0

    def reserve(self, now: float, *, latest: float) -> float | None:
        """Take the next free moment.

        Args:
            now: the present.
            latest: the moment from which on it would be of no use.

        Returns:
            Seconds until it comes; None, and nothing is taken, if that is too late.
        """
        moment = max(self._next_at, now)
        if moment >= latest:
            return None
        self._next_at = moment + self._interval
        return moment - now
