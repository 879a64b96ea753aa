"""What a poller tells about itself; counts, and decides nothing."""

import logging
from datetime import UTC, datetime, timedelta
from typing import Final

from attrs import define, frozen

from income_client.errors import IncomeClientError
from income_client.records.window import EPOCH, Window

_LOGGER: Final = logging.getLogger("income_client.poller")
_COST_LOGGER: Final = logging.getLogger("income_client.poller.cost")
_MANY_UNCHANGED: Final = 1_000


@frozen(kw_only=True)
class PollerStatus:
    """How a poller is doing."""

    reached: datetime | None
    """Service time, without zone: whatever was updated before is handed out. None at first."""
    lag: float | None
    """Seconds from there to the service's present; None until it was told."""
    polls: int
    """Polls that came to their end."""
    records: int
    """Records handed out; those of a batch that is handed out again count again."""
    unchanged: int
    """Applications that the last poll, or the one under way, has read again and found as they were
    delivered: all that were updated within ``settle`` and ``lookback``."""
    dead_letters: int
    """What could not be read and is tried again now and then."""
    saturated: tuple[Window, ...]
    """Seconds that held more rows than can be asked for when they were last listed."""
    failures: int
    """Polls that failed, and tries to store something, since the last poll that did not."""
    last_error: IncomeClientError | None
    """Why the last one of these failed, also if others have come to their end since."""
    next_poll_at: datetime | None
    """When the next poll begins, in UTC by the local clock; None during a poll."""


@define
class Tally:
    """The counts behind the status."""

    polls: int = 0
    records: int = 0
    unchanged: int = 0
    failures: int = 0
    last_error: IncomeClientError | None = None
    has_warned: bool = False
    _service_time: int | None = None
    _heard_at: float = 0.0

    def hear(self, service_time: int | None, now: float) -> None:
        """Note what the service says of the time."""
        if service_time is not None and service_time != self._service_time:
            self._service_time, self._heard_at = service_time, now

    def succeed(self) -> None:
        """Note that a poll came to its end."""
        self.polls += 1
        self.failures = 0

    def fail(self, error: IncomeClientError) -> None:
        """Note that a poll failed."""
        self.failures += 1
        # Without its frames, which would keep alive what they hold.
        self.last_error = error.again()
        name = type(error).__name__
        facts = {"error": name, "status": error.status, "failures": self.failures}
        _LOGGER.warning("polling failed (%s: %s)", name, error, extra=facts)

    def read_again(self, unchanged: int, seconds: int) -> None:
        """Note how many applications of this poll are as they were; warn once if they are many.

        Args:
            unchanged: how many so far.
            seconds: before the present that each poll reads again.
        """
        self.unchanged = unchanged
        if unchanged > _MANY_UNCHANGED and not self.has_warned:
            self.has_warned = True
            message = (
                "a poll has read more than %d applications again that had not changed: every "
                "one updated within settle and lookback (%d seconds) is read again by each "
                "poll, and takes 20 bytes of each checkpoint; a shorter lookback costs less"
            )
            facts = {"unchanged": unchanged, "seconds": seconds}
            _COST_LOGGER.warning(message, _MANY_UNCHANGED, seconds, extra=facts)

    def lag(self, now: float, reached: int | None) -> float | None:
        """Return the seconds from a checkpoint to the service's present; None if unknown."""
        if reached is None or self._service_time is None:
            return None
        return self._service_time + now - self._heard_at - reached

    def status(
        self,
        *,
        now: float,
        reached: int | None,
        dead_letters: int,
        saturated: tuple[Window, ...],
        next_poll: float | None,
    ) -> PollerStatus:
        """Return how things stand.

        Args:
            now: a moment of the poller's clock.
            reached: the second that the checkpoint has come to.
            dead_letters: how many there are.
            saturated: those of them that are seconds.
            next_poll: the moment at which the next poll begins; None during one.
        """
        wait = None if next_poll is None else timedelta(seconds=max(0.0, next_poll - now))
        return PollerStatus(
            reached=None if reached is None else EPOCH + timedelta(seconds=reached),
            lag=self.lag(now, reached),
            polls=self.polls,
            records=self.records,
            unchanged=self.unchanged,
            dead_letters=dead_letters,
            saturated=saturated,
            failures=self.failures,
            last_error=self.last_error,
            next_poll_at=None if wait is None else datetime.now(UTC) + wait,
        )
