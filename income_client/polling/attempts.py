"""Attempts to read listed applications, and what a failed attempt counts against.

A failure that may be the service's own counts against an application that fails alone, or beside
which most of several others, the witnesses, are read. If most of them fail too, the poll fails. A
429 and a failed token request are about the account: they count against no application.
"""

from collections.abc import Sequence
from typing import Final

from attrs import define, field

from income_client.errors import (
    ConfigurationError,
    DeadlineExceededError,
    DecodeError,
    IncomeClientError,
    InvalidRequestError,
    NotFoundError,
    RateLimitedError,
    TokenError,
)
from income_client.records.window import Window
from income_client.walk.windows import Bounds

from .reading import Outcome, PollSource, Versioned, ids_on, key_of
from .schedule import Schedule

OF_ACCOUNT: Final = (RateLimitedError, TokenError)
"""Errors that say nothing about the application that was asked for."""
_CERTAIN: Final = (NotFoundError, DecodeError, ConfigurationError)
_WITNESSES: Final = 5
"""Applications from the start of the list that are read after all reads of a batch have failed,
to tell an outage from bad records; several, since one of them may be deleted."""
_ATTEMPTS_IF_CERTAIN: Final = 2
_ATTEMPTS_IF_LATE: Final = 1
_ATTEMPTS: Final = 3


@define
class Row:
    """A listed application that is not read yet."""

    application_id: str
    window: Window
    listed_after: int | None = None
    """The lower bound that the service applied to the row's page; None for a dead letter."""
    is_letter: bool = False
    """Whether the row comes from a dead letter, which one poll reads only once."""
    attempts: int = 0
    """Failed attempts that count against the application."""
    postponed: int = 0
    """Failed attempts that may be the service's own fault, and do not count."""
    key: bytes = field(init=False)
    """Short hash of the id."""

    def __attrs_post_init__(self) -> None:
        self.key = key_of(self.application_id)


class RowReader:
    """Reads the rows of one poller; where all of them fail, it reads witnesses beside them."""

    def __init__(self, source: PollSource, schedule: Schedule) -> None:
        self._source, self._schedule = source, schedule
        self._witness: str | None = None
        """Id of an application that was read lately."""
        self.has_read: bool = False
        """Whether the service returned at least one of the records requested last."""

    async def read(self, rows: Sequence[Row]) -> list[Outcome]:
        """Return the outcome of each row.

        Raises a failure that may be the service's own, if no row is read and most witnesses fail.
        """
        outcomes = await self._read_with_witnesses(rows)
        read = [outcome for outcome in outcomes if isinstance(outcome, Versioned)]
        self.has_read = bool(read)
        if read:
            self._witness = read[-1].payload.application_id
        return outcomes[: len(rows)]

    async def _read_with_witnesses(self, rows: Sequence[Row]) -> list[Outcome]:
        ids = [row.application_id for row in rows]
        attempts = min(row.attempts + row.postponed for row in rows)
        if attempts:
            await self._schedule.pause(attempts)
        outcomes = await self._schedule.unless_stopped(self._source.read_records(ids))
        if _service_failure(rows, outcomes) is None:
            return outcomes
        witnesses = await self._find_witnesses(ids)
        await self._schedule.pause(attempts + 1)
        reading = self._source.read_records([*ids, *witnesses])
        outcomes = await self._schedule.unless_stopped(reading)
        error = _service_failure(rows, outcomes[: len(rows)])
        if error is not None and not _shows_fault_of_rows(error, outcomes[len(rows) :]):
            self._witness = None
            raise error
        return outcomes

    async def _find_witnesses(self, ids: Sequence[str]) -> list[str]:
        """Return ids of other applications, whose reading shows whether the service works."""
        if self._witness is not None and self._witness not in ids:
            return [self._witness]
        request = self._source.ask_list(Bounds(0, None), limit=len(ids) + _WITNESSES)
        try:
            answer = await self._schedule.unless_stopped(request)
        except InvalidRequestError:
            return []
        return [
            application_id for application_id in ids_on(answer.page) if application_id not in ids
        ][:_WITNESSES]


def counts_against_application(error: IncomeClientError, outcomes: Sequence[Outcome]) -> bool:
    """Return whether a failure, one of the outcomes of a batch, counts against its application."""
    if isinstance(error, OF_ACCOUNT):
        return False
    failing = sum(_is_doubtful(outcome) for outcome in outcomes)
    # If all of them failed, the witnesses have shown that the service works.
    if _is_certain(error) or failing == len(outcomes):
        return True
    # Each further attempt of a late application delays all others by the deadline.
    is_late = isinstance(error, DeadlineExceededError)
    return failing == 1 or (is_late and 2 * failing <= len(outcomes))


def most_attempts(error: IncomeClientError) -> int:
    """Return the attempts after which an application becomes a dead letter."""
    if isinstance(error, DeadlineExceededError):
        # Each attempt delays all other applications; the dead letter is tried again later.
        return _ATTEMPTS_IF_LATE
    return _ATTEMPTS_IF_CERTAIN if _is_certain(error) else _ATTEMPTS


def _service_failure(rows: Sequence[Row], outcomes: Sequence[Outcome]) -> IncomeClientError | None:
    """Return a failure that may be the service's own, if the service returned no record at all.

    One that is about the account comes first.
    """
    failures = [outcome for outcome in outcomes if isinstance(outcome, IncomeClientError)]
    if len(failures) < len(outcomes):
        return None
    of_rows = (error for row, error in zip(rows, failures, strict=True) if not row.is_letter)
    doubtful = [error for error in of_rows if not _is_certain(error)]
    of_account = (error for error in doubtful if isinstance(error, OF_ACCOUNT))
    return next(of_account, doubtful[0] if doubtful else None)


def _shows_fault_of_rows(error: IncomeClientError, witnesses: Sequence[Outcome]) -> bool:
    """Return whether the service reads most witnesses, and so fails because of the rows."""
    read = sum(isinstance(outcome, Versioned) for outcome in witnesses)
    failing = sum(_is_doubtful(outcome) for outcome in witnesses)
    return read > failing and not isinstance(error, OF_ACCOUNT)


def _is_doubtful(outcome: Outcome) -> bool:
    """Return whether a record was not read, perhaps by a fault of the service."""
    return isinstance(outcome, IncomeClientError) and not _is_certain(outcome)


def _is_certain(error: IncomeClientError) -> bool:
    """Return whether a failure is about the record, and not about the service."""
    return isinstance(error, _CERTAIN) and not error.retryable
