"""The failures of a poller: some end it, and a pause follows each of the others."""

from typing import Final

from income_client.errors import (
    AuthenticationError,
    CheckpointConflictError,
    CheckpointError,
    ClientClosedError,
    ConfigurationError,
    IncomeClientError,
)
from income_client.system.clock import Clock

from .lease import Lease
from .reading import PollSource
from .schedule import LONGEST_PAUSE, Schedule, backoff_pause
from .status import Monitor

_REFUSED_SECONDS: Final = 300.0
"""Seconds of refusals after which credentials that have worked count as wrong. An identity
provider may refuse valid ones during its own deployment."""
_STORE_TRIES: Final = 6
"""Tries of a save, within about half a minute, before a poller with ``once`` fails."""


class Failures:
    """The failed polls and the failed saves of one poller."""

    def __init__(
        self,
        schedule: Schedule,
        monitor: Monitor,
        clock: Clock,
        source: PollSource,
        *,
        has_standby: bool,
    ) -> None:
        self._schedule, self._monitor = schedule, monitor
        self._clock, self._source = clock, source
        self._has_standby = has_standby
        self._refused_since: float | None = None

    def may_take_again(self, lease: Lease) -> bool:
        """Return whether the poller may acquire the lease again after losing it."""
        # A checkpoint that has vanished from the store was not taken over by another poller.
        return self._has_standby or lease.has_vanished

    def is_replacement(self, error: IncomeClientError, lease: Lease) -> bool:
        """Return whether an error only says that another poller leads and this one stands by."""
        return isinstance(error, CheckpointConflictError) and self.may_take_again(lease)

    def note_failure(
        self,
        error: IncomeClientError,
        tries: int,
        *,
        longest_pause: float = LONGEST_PAUSE,
        is_last: bool = False,
    ) -> None:
        """Count and report the failure of try number ``tries``; raise it if it ends the poller.

        Schedules the next try: after a failure of the store within ``longest_pause`` seconds.
        ``is_last`` says that the caller will not try again.
        """
        now = self._clock.monotonic()
        if isinstance(error, AuthenticationError):
            if self._refused_since is None:
                self._refused_since = now
        elif not isinstance(error, CheckpointError):
            self._refused_since = None
        is_last = is_last or self._is_last(error, now, tries)
        if not is_last and isinstance(error, CheckpointError):
            self._schedule.put_off(now, min(longest_pause, backoff_pause(tries)))
        elif not is_last:
            self._schedule.fail(now, error, self._monitor.failures + 1)
        # After the schedule, so that listeners see the time of the next try in the status.
        self._monitor.failed(error, is_last=is_last)
        if is_last:
            raise error

    def note_success(self) -> None:
        """Note that the service has accepted the credentials."""
        self._refused_since = None

    def _is_last(self, error: IncomeClientError, now: float, tries: int) -> bool:
        is_single = self._schedule.ends_with_poll
        match error:
            case CheckpointError():
                return not error.retryable or (is_single and tries >= _STORE_TRIES)
            case AuthenticationError():
                since = now if self._refused_since is None else self._refused_since
                is_long = now - since >= _REFUSED_SECONDS
                return is_long or is_single or not self._source.has_answered
            case ClientClosedError() | ConfigurationError():
                return True
            case _:
                return is_single
