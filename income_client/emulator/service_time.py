"""Service time: moved by hand, and passing by itself where asked to; knows no zone."""

from income_client.clock import Clock

from .arguments import check_figure


class ServiceTime:
    """The clock on the service's wall.

    Args:
        start: service second at the beginning.
        flows: whether time passes by itself.
        clock: what it passes by.
    """

    def __init__(self, start: int, *, flows: bool, clock: Clock) -> None:
        self._seconds = float(start)
        self._flows = flows
        self._clock = clock
        self._since = clock.monotonic()

    def now(self) -> int:
        """Return the present service second."""
        passed = self._clock.monotonic() - self._since if self._flows else 0.0
        return int(self._seconds + passed)

    def advance(self, seconds: float) -> None:
        """Move forward.

        Args:
            seconds: how far; fractions add up.

        Raises:
            ConfigurationError: it is no number, or would lead backward.
        """
        check_figure("seconds", seconds)
        self._seconds += seconds
