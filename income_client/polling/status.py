"""The status of a poller: its counts, log lines and events."""

import logging
from collections.abc import Container, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from attrs import frozen

from income_client.errors import (
    CheckpointConflictError,
    CheckpointError,
    DeadlineExceededError,
    IncomeClientError,
    copy_without_traceback,
)
from income_client.events.instrumentation import Instrumentation
from income_client.events.kinds import (
    CheckpointCommitted,
    CheckpointCreated,
    DeadLettered,
    DeadLetterResolved,
    PollFailed,
    PollFinished,
    RecordDelivered,
)
from income_client.records.dead_letters import DeadLetter, is_second
from income_client.records.documents import ApplicationRecord
from income_client.records.window import EPOCH, Window
from income_client.system.clock import Clock
from income_client.system.logs import GuardedLogger

from .progress import Progress

_LOGGER: Final = GuardedLogger("income_client.poller")
_LEASE_LOGGER: Final = GuardedLogger("income_client.poller.lease")
_CLOCK_LOGGER: Final = GuardedLogger("income_client.poller.clock")
_OUTAGE_LOGGER: Final = GuardedLogger("income_client.poller.outage")
"""Logger of what no event tells: requests without an answer, and the end of failures."""
_COST_LOGGER: Final = GuardedLogger("income_client.poller.cost")
_MANY_UNCHANGED: Final = 1_000
_MOST_SHOWN: Final = 10
"""New dead letters of one save that are a warning each; one more warning counts the others."""
_SKEW: Final = 5
"""Seconds by which two clocks of one service may differ."""


@frozen(kw_only=True)
class PollerStatus:
    """A snapshot of a poller's progress and failures."""

    reached: datetime | None
    """Service time before which every update was delivered, without zone; None before the first
    poll."""
    lag: float | None
    """Seconds from ``reached`` to the service's present; None until a reply has shown that."""
    late: int
    """Seconds, rounded down, by which an update was listed late within the last day, at most. It
    was not in the list when an earlier poll of the same process had listed its second. One that
    is listed more than ``settle`` late is missed, and not counted. A poller that resumes a name
    includes what the checkpoint says of the day before. 0 before the first poll."""
    late_p999: int
    """Seconds by which 999 of 1,000 updates were not listed later."""
    polls: int
    """Polls that succeeded."""
    records: int
    """Records delivered; those of a batch that is delivered again count again."""
    unchanged: int
    """Applications that the last poll, or the current one, has read again and found unchanged:
    those for which ``settle`` has passed, and all that were updated within ``lookback``."""
    dead_letters: int
    """Applications and seconds that could not be read; they are retried from time to time."""
    saturated: tuple[Window, ...]
    """Seconds that held more rows than can be asked for when they were last listed."""
    failures: int
    """Failed polls, failed tries to store something and requests without an answer in time since
    the last poll that succeeded, blocks of batches that failed since the last commit, and renewals
    of the lease since the last save."""
    last_error: IncomeClientError | None
    """Reason of the last of these failures, or of the loss of the checkpoint; it stays after a
    success. Of an error of yours it names the class."""
    next_poll_at: datetime | None
    """Time of the next poll, or of the next try of a failed save, in UTC by the local clock; None
    during a poll."""
    is_standby: bool = False
    """Whether the poller stands by while another poller holds the lease."""
    is_leader: bool = False
    """Whether the poller holds the lease of its name, and was not stopped."""


class Monitor:
    """The counts of one poller, its logs and its events."""

    def __init__(self, name: str, instrumentation: Instrumentation, clock: Clock) -> None:
        self.polls: int = 0
        self.records: int = 0
        self.unchanged: int = 0
        self.failures: int = 0
        """Failed polls and failed saves in a row."""
        self.unanswered: int = 0
        """Requests without an answer in time, since a poll succeeded."""
        self.failed_blocks: int = 0
        self.failed_renewals: int = 0
        self.last_error: IncomeClientError | None = None
        self.progress: Progress | None = None
        """The progress of the poller; None before it has acquired its lease."""
        self._name = name
        self._instrumentation = instrumentation
        self._clock = clock
        self._failing_since = 0.0
        self._not_renewed_since = 0.0
        self._has_warned = False
        self._has_warned_of_skipped = False
        self._has_warned_of_left_loop = False
        self._stands_by = False
        self._halves_warned_of = 0
        """Halves of ``settle``, 2 at most, by more than which an update was late in a warning."""
        self._service_time: int | None = None
        self._heard_at = 0.0

    def note_service_time(self, service_time: int | None) -> None:
        """Note the present second of the service, from which the lag is counted."""
        if service_time is not None and service_time != self._service_time:
            self._service_time, self._heard_at = service_time, self._clock.monotonic()

    def warn_of_lateness(self, seconds: int, settle: int) -> None:
        """Warn once if an update was listed later than half of ``settle``, and once if later."""
        halves = (seconds > settle / 2) + (seconds > settle)
        if halves <= self._halves_warned_of:
            return
        self._halves_warned_of = halves
        message = (
            "poller %r: an update was listed %d s late, or more; one that is listed more than "
            "%d s late (settle) is missed: give poll() a greater settle"
        )
        facts = {"poller": self._name, "seconds": seconds, "settle": settle}
        _CLOCK_LOGGER.warning(message, self._name, seconds, settle, extra=facts)

    @property
    def lag(self) -> float | None:
        """The seconds from what is delivered to the service's present; None if unknown."""
        progress = self.progress  # which another thread may read while it is replaced
        if progress is None or self._service_time is None:
            return None
        now = self._service_time + self._clock.monotonic() - self._heard_at
        # The service's clock may have gone back.
        return max(0.0, now - progress.position)

    def poll_finished(self) -> None:
        """Count a poll that succeeded."""
        self.polls += 1
        self.works()
        if (emit := self._instrumentation.emit) is not None:
            late = 0 if self.progress is None else self.progress.lateness.greatest
            emit(PollFinished(name=self._name, polls=self.polls, lag=self.lag, late=late))

    def works(self, *, as_standby: bool = False) -> None:
        """End a row of failures, and log its end as a warning, since its beginning was one."""
        if count := self.failures + self.unanswered:
            seconds = self._clock.monotonic() - self._failing_since
            what = "stands by again" if as_standby else "works again"
            facts = {"poller": self._name, "failures": count, "seconds": seconds, "lag": self.lag}
            message = "poller %r %s after %s in %.0f s%s"
            row = f"{count} failure{'s' if count > 1 else ''}"
            behind = self._describe_lag()
            _OUTAGE_LOGGER.warning(message, self._name, what, row, seconds, behind, extra=facts)
        self.failures = self.unanswered = 0

    def failed(self, error: IncomeClientError, *, next_try: float | None) -> None:
        """Count, log and report a failure.

        ``next_try`` is the number of seconds until the next try; None if the error ends the poller.
        """
        outcome = (
            "ends the poller" if next_try is None else f"next try in {_describe_wait(next_try)}"
        )
        self.failures += 1
        self._log_failure(_LOGGER, error, "polling failed", outcome, is_last=next_try is None)
        if (emit := self._instrumentation.emit) is not None:
            failed = PollFailed(
                name=self._name,
                failures=self.failures,
                lag=self.lag,
                status=error.status,
                error=type(error).__name__,
                is_last=next_try is None,
            )
            emit(failed)

    def request_failed(self, error: IncomeClientError) -> None:
        """Count and log a request that got no answer in time, and is sent again.

        Its call fails only at its deadline, minutes later.
        """
        if isinstance(error, DeadlineExceededError):
            self.unanswered += 1
            self._log_failure(_OUTAGE_LOGGER, error, "no answer", "sent again", is_last=False)

    def _log_failure(
        self,
        logger: GuardedLogger,
        error: IncomeClientError,
        what: str,
        outcome: str,
        *,
        is_last: bool,
    ) -> None:
        count, now = self.failures + self.unanswered, self._clock.monotonic()
        if count == 1:
            self._failing_since = now
        seconds = now - self._failing_since
        # A copy without traceback, which would keep the objects of its frames alive.
        self.last_error = copy_without_traceback(error)
        name = type(error).__name__
        facts = {
            "poller": self._name,
            "error": name,
            "status": error.status,
            "failures": count,
            "seconds": seconds,
            "lag": self.lag,
        }
        # During an outage each look of a standby fails: the log says so ever less often.
        level = logging.WARNING if is_last or _is_power_of_two(count) else logging.INFO
        message = "poller %r: %s (%s: %s): %s, %s%s"
        row = _describe_row(count, seconds)
        behind = self._describe_lag()
        logger.log(level, message, self._name, what, name, error, row, outcome, behind, extra=facts)

    def _describe_lag(self) -> str:
        return "" if self.lag is None else f", {self.lag:.0f} s behind"

    def block_failed(self, error: BaseException) -> None:
        """Count a block around a batch that has failed, unless it was cancelled or replaced."""
        if isinstance(error, CheckpointConflictError) or not isinstance(error, Exception):
            return
        self.failed_blocks += 1
        if isinstance(error, IncomeClientError):
            self.last_error = copy_without_traceback(error)
        else:
            name = type(error).__name__
            self.last_error = IncomeClientError(f"the block of a batch has failed: {name}")

    def renewal_failed(self, error: IncomeClientError, *, next_try: float) -> None:
        """Count and log a renewal of the lease that has failed; the next one is in seconds."""
        now = self._clock.monotonic()
        self.failed_renewals += 1
        if self.failed_renewals == 1:
            self._not_renewed_since = now
        seconds = now - self._not_renewed_since
        self.last_error = copy_without_traceback(error)
        name = type(error).__name__
        facts = {"poller": self._name, "error": name, "failures": self.failed_renewals}
        level = logging.WARNING if _is_power_of_two(self.failed_renewals) else logging.INFO
        message = "poller %r: the lease was not renewed (%s: %s): %s, next try in %s"
        row, wait = _describe_row(self.failed_renewals, seconds), _describe_wait(next_try)
        _LEASE_LOGGER.log(level, message, self._name, name, error, row, wait, extra=facts)

    def saved(self) -> None:
        """Note that the store has accepted a save, which renews the lease."""
        if self.failed_renewals:
            seconds = self._clock.monotonic() - self._not_renewed_since
            facts = {"poller": self._name, "seconds": seconds}
            message = "poller %r: the lease is renewed again, after %.0f s"
            _LEASE_LOGGER.warning(message, self._name, seconds, extra=facts)
        self.failed_renewals = 0

    def stands_by(self, lease: float) -> None:
        """Record that another poller holds the lease, of ``seconds``, and that nothing fails.

        It is logged when the waiting begins.
        """
        self.works(as_standby=True)
        self.failed_blocks = self.failed_renewals = 0
        if not self._stands_by:
            self._stands_by = True
            message = "poller %r waits as a standby: another poller holds the lease of %g s"
            facts = {"poller": self._name, "seconds": lease}
            _LEASE_LOGGER.info(message, self._name, lease, extra=facts)

    def took_over(self, silence: float, *, was_given_up: bool) -> None:
        """Log that this poller works now, if it has waited as a standby.

        The previous leader has not renewed its lease for ``silence`` seconds, which is a warning,
        or has released it.
        """
        if not self._stands_by:
            return
        self._stands_by = False
        reason, level = "was released", logging.INFO
        if not was_given_up:
            reason, level = f"was not renewed for {silence:.0f} s", logging.WARNING
        facts = {"poller": self._name, "seconds": silence, "was_given_up": was_given_up}
        message = "poller %r has taken over: the lease of the previous leader %s"
        _LEASE_LOGGER.log(level, message, self._name, reason, extra=facts)

    def lost_lease(self, silence: float, *, has_vanished: bool) -> None:
        """Log that the lease is lost, and how many seconds ago it was renewed.

        A checkpoint that has vanished is a warning of its own.
        """
        reason, level = "another poller has taken over", logging.WARNING
        if has_vanished:
            reason, level = "the checkpoint is gone from the store", logging.INFO
        facts = {"poller": self._name, "seconds": silence, "has_vanished": has_vanished}
        message = "poller %r has lost its lease, which was renewed %.0f s ago: %s"
        _LEASE_LOGGER.log(level, message, self._name, silence, reason, extra=facts)

    def lost_checkpoint(self, resumes_at: int, *, is_gone: bool) -> None:
        """Log that the store has lost saves, and where polling resumes; the status shows it too."""
        moment = EPOCH + timedelta(seconds=resumes_at)
        state = "older than what this poller has saved or seen"
        if is_gone:
            state = "gone from the store"
        message = (
            f"poller {self._name!r}: the checkpoint is {state}; what was updated since "
            f"{moment.isoformat()} is delivered again"
        )
        self.last_error = CheckpointError(message)
        facts = {"poller": self._name, "reached": resumes_at}
        _LEASE_LOGGER.warning("%s", message, extra=facts)

    def start_is_older(self, batches: int) -> None:
        """Warn that the store has more batches than the checkpoint passed as ``start``."""
        message = (
            "poller %r: %d batches were committed after the checkpoint given as start=, and are "
            "not delivered again. If your data was restored from a backup, poll under a new name"
        )
        _LOGGER.warning(
            message, self._name, batches, extra={"poller": self._name, "batches": batches}
        )

    def is_of_another_service(self, reached: int) -> None:
        """Warn that another address or account was polled up to a second, and this one was not."""
        moment = EPOCH + timedelta(seconds=reached)
        message = (
            "poller %r resumes from a checkpoint of another address or account of the service: "
            "what was updated here before %s is not delivered. If it is another service, poll it "
            "under a name of its own"
        )
        facts = {"poller": self._name, "reached": reached}
        _LEASE_LOGGER.warning(message, self._name, moment, extra=facts)

    def clock_fell_back(self, seconds: int) -> None:
        """Warn that the service's clock is behind a time that it has shown before."""
        if seconds > _SKEW:
            message = (
                "poller %r: the service's clock is at least %d s behind a time that it has shown "
                "before; what it has updated meanwhile is listed again"
            )
            facts = {"poller": self._name, "seconds": seconds}
            _CLOCK_LOGGER.warning(message, self._name, seconds, extra=facts)

    def warn_of_unchanged(self, lookback: int) -> None:
        """Warn once if a poll has read many applications again that had not changed."""
        if lookback and self.unchanged > _MANY_UNCHANGED and not self._has_warned:
            self._has_warned = True
            message = (
                "poller %r has read more than %d applications again that had not changed: every "
                "one updated within lookback (%d seconds) is read again each time, and takes "
                "20 bytes of each checkpoint; a shorter lookback costs less"
            )
            facts = {"poller": self._name, "unchanged": self.unchanged, "seconds": lookback}
            _COST_LOGGER.warning(message, self._name, _MANY_UNCHANGED, lookback, extra=facts)

    def warn_of_skipped(self, skipped: int, committed: int) -> None:
        """Warn once if a commit covers an earlier batch whose block was not entered."""
        if not self._has_warned_of_skipped:
            self._has_warned_of_skipped = True
            message = (
                "poller %r: the block of batch %d was not entered, and the commit of batch %d "
                "covers it: it is not delivered again. To have a batch again, let its block "
                "fail; to commit several at once, call commit() of the last one"
            )
            facts = {"poller": self._name, "skipped": skipped, "committed": committed}
            _LOGGER.warning(message, self._name, skipped, committed, extra=facts)

    def warn_of_left_loop(self) -> None:
        """Warn once if a loop over records is entered again: its last record counts as done."""
        if not self._has_warned_of_left_loop:
            self._has_warned_of_left_loop = True
            message = (
                "poller %r: a loop over its records was left and is entered again; the record at "
                "which it was left counts as done. Where one may fail, iterate over batches()"
            )
            _LOGGER.warning(message, self._name, extra={"poller": self._name})

    def delivered(self, records: Sequence[ApplicationRecord]) -> None:
        """Count and report records that the consumer gets."""
        self.records += len(records)
        if (emit := self._instrumentation.emit) is not None:
            for record in records:
                emit(RecordDelivered(application_id=record.application_id))

    def began(self, reached: int, store: str, *, is_given: bool) -> None:
        """Log and report that the store had no checkpoint of this name, and now has its first.

        A checkpoint that is ``given`` by the caller is a warning: the store may have been lost.
        """
        moment = EPOCH + timedelta(seconds=reached)
        facts = {"checkpoint": self._name, "reached": reached, "store": store}
        message = "checkpoint %r is new in %s, begins at %s"
        if is_given:
            message += ", as start= says: dead letters of an earlier store are not in it"
        level = logging.WARNING if is_given else logging.INFO
        _LOGGER.log(level, message, self._name, store, moment, extra=facts)
        if (emit := self._instrumentation.emit) is not None:
            emit(CheckpointCreated(name=self._name, reached=reached))

    def committed(self, reached: int) -> None:
        """Report that the store has a checkpoint for a second."""
        if (emit := self._instrumentation.emit) is not None:
            emit(CheckpointCommitted(name=self._name, reached=reached))

    def dead_lettered(self, letters: Iterable[DeadLetter], new: Container[str]) -> None:
        """Log and report each stored dead letter, and whether it is new."""
        emit = self._instrumentation.emit
        news = 0
        for letter in letters:
            is_new = letter.key in new
            news += is_new
            is_warning = is_new and news <= _MOST_SHOWN
            self._log_dead_letter(letter, is_new=is_new, is_warning=is_warning)
            if emit is not None:
                emit(DeadLettered(name=self._name, letter=letter, is_new=is_new))
        if (more := news - _MOST_SHOWN) > 0:
            facts = {"poller": self._name, "more": more}
            _LOGGER.warning("poller %r: %d more became dead letters", self._name, more, extra=facts)

    def resolved(self, letters: Iterable[DeadLetter]) -> None:
        """Log and report dead letters that were read after all and have left the store."""
        emit = self._instrumentation.emit
        for letter in letters:
            second, _, what = _describe(letter)
            facts = {
                "poller": self._name,
                "application_id": letter.application_id,
                "second": second,
            }
            message = "poller %r: %s, which was a dead letter, was read"
            _LOGGER.info(message, self._name, what, extra=facts)
            if emit is not None:
                emit(DeadLetterResolved(name=self._name, letter=letter))

    def _log_dead_letter(self, letter: DeadLetter, *, is_new: bool, is_warning: bool) -> None:
        second, fault, what = _describe(letter)
        outcome = "became a dead letter" if is_new else "remains a dead letter"
        _LOGGER.log(
            logging.WARNING if is_warning else logging.INFO,
            "poller %r: %s %s and %s (%s)",
            self._name,
            what,
            fault,
            outcome,
            letter.reason,
            extra={
                "poller": self._name,
                "application_id": letter.application_id,
                "second": second,
                "attempts": letter.attempts,
                "reason": letter.reason,
                "is_new": is_new,
            },
        )

    def status(
        self,
        *,
        dead_letters: int,
        saturated: tuple[Window, ...],
        next_try: float | None,
        is_standby: bool,
        is_leader: bool,
    ) -> PollerStatus:
        """Return the public status; `next_try` is a moment of the clock, None during a poll."""
        wait = None if next_try is None else max(0.0, next_try - self._clock.monotonic())
        progress = self.progress
        return PollerStatus(
            reached=None if progress is None else EPOCH + timedelta(seconds=progress.position),
            lag=self.lag,
            late=0 if progress is None else progress.lateness.greatest,
            late_p999=0 if progress is None else progress.lateness.quantile(0.999),
            polls=self.polls,
            records=self.records,
            unchanged=self.unchanged,
            dead_letters=dead_letters,
            saturated=saturated,
            failures=self.failures + self.unanswered + self.failed_blocks + self.failed_renewals,
            last_error=self.last_error,
            is_standby=is_standby,
            is_leader=is_leader,
            next_poll_at=None if wait is None else datetime.now(UTC) + timedelta(seconds=wait),
        )


def _is_power_of_two(count: int) -> bool:
    return count & (count - 1) == 0


def _describe_wait(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 1 else f"{seconds:.0f} s"


def _describe_row(count: int, seconds: float) -> str:
    return "the first failure" if count == 1 else f"failure {count} in {seconds:.0f} s"


def _describe(letter: DeadLetter) -> tuple[str | None, str, str]:
    """Return a dead letter's saturated second, if it is about one, its fault and its subject."""
    if letter.application_id is not None:
        return None, "could not be read", f"application {letter.application_id!r}"
    if is_second(letter.window):
        second = letter.window.starts_at.isoformat()
        return second, "could not be read completely", f"the second {second} of the list"
    return None, "could not be read", f"a row of the list in {letter.window}"
