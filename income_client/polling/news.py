"""What one poller tells of its polls; counts nothing itself."""

from collections.abc import Iterable

from attrs import field, frozen

from income_client.errors import IncomeClientError
from income_client.events import (
    CheckpointCommitted,
    DeadLettered,
    PollFailed,
    PollFinished,
    RecordDelivered,
)
from income_client.instrumentation import Instrumentation
from income_client.records.dead_letters import DeadLetter
from income_client.records.documents import ApplicationRecord


@frozen
class PollNews:
    """Tells of one poller; nothing while nobody listens."""

    name: str
    """Of the poller."""
    instrumentation: Instrumentation = field(factory=Instrumentation)
    """Is told."""

    def finished(self, polls: int, lag: float | None) -> None:
        """Tell that a poll came to its end.

        Args:
            polls: how many have.
            lag: seconds from the checkpoint to the service's present, if known.
        """
        if (emit := self.instrumentation.emit) is not None:
            emit(PollFinished(name=self.name, polls=polls, lag=lag))

    def failed(
        self, failures: int, lag: float | None, error: IncomeClientError, *, is_last: bool
    ) -> None:
        """Tell that a poll failed.

        Args:
            failures: how many have since the last that did not.
            lag: seconds from the checkpoint to the service's present, if known.
            error: why.
            is_last: whether that ends the poller.
        """
        if (emit := self.instrumentation.emit) is not None:
            failed = PollFailed(
                name=self.name,
                failures=failures,
                lag=lag,
                status=error.status,
                error=type(error).__name__,
                is_last=is_last,
            )
            emit(failed)

    def committed(self, reached: int) -> None:
        """Tell that the store has a checkpoint that has come to this second."""
        if (emit := self.instrumentation.emit) is not None:
            emit(CheckpointCommitted(name=self.name, reached=reached))

    def buried(self, letters: Iterable[DeadLetter]) -> None:
        """Tell of what is kept because it could not be read."""
        if (emit := self.instrumentation.emit) is not None:
            for letter in letters:
                emit(DeadLettered(name=self.name, letter=letter))

    def delivered(self, records: Iterable[ApplicationRecord]) -> None:
        """Tell of records that are handed out."""
        if (emit := self.instrumentation.emit) is not None:
            for record in records:
                emit(RecordDelivered(application_id=record.application_id))
