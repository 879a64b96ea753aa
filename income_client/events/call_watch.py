"""Events of one call, emitted to its listeners."""

from collections.abc import Callable

from income_client.errors import IncomeClientError
from income_client.system.clock import Clock

from .kinds import CallFinished, Event, RequestAnswered, RequestRetried, RequestSent


class CallWatch:
    """Emits the events of one call, and counts its requests."""

    __slots__ = ("_began", "_busy", "_clock", "_emit", "_name", "_request_id", "_sent", "_sent_at",
                 "_status")  # fmt: skip

    def __init__(self, name: str, emit: Callable[[Event], object], clock: Clock) -> None:
        self._name = name
        self._emit = emit
        self._clock = clock
        self._began = clock.monotonic()
        self._busy = 0.0
        self._sent_at: float | None = None
        self._sent = 0
        self._status: int | None = None
        self._request_id: str | None = None

    def sent(self) -> None:
        """Emit that a request is sent."""
        self._sent += 1
        self._sent_at = self._clock.monotonic()
        self._emit(RequestSent(call=self._name, attempt=self._sent))

    def answered(self, status: int | None, outcome: object, request_id: str | None) -> None:
        """Emit that a request has ended, with the facts of its reply or its error."""
        seconds = self._clock.monotonic() - (self._sent_at or 0.0)
        self._sent_at = None
        self._busy += seconds
        self._status = status
        self._request_id = request_id
        answered = RequestAnswered(
            call=self._name,
            attempt=self._sent,
            status=status,
            seconds=seconds,
            error=_class_of(outcome),
            request_id=request_id,
        )
        self._emit(answered)

    def retried(self, error: IncomeClientError, pause: float) -> None:
        """Emit that the request is repeated after a pause in seconds."""
        retried = RequestRetried(
            call=self._name,
            attempt=self._sent,
            status=error.status,
            error=type(error).__name__,
            pause=pause,
        )
        self._emit(retried)

    def finished(self, outcome: object) -> None:
        """Emit that the call has ended, and with it a request that was still in flight."""
        if self._sent_at is not None:
            self.answered(None, outcome, None)
        seconds = self._clock.monotonic() - self._began
        finished = CallFinished(
            call=self._name,
            attempts=self._sent,
            seconds=seconds,
            waited=max(0.0, seconds - self._busy),
            status=self._status,
            error=_class_of(outcome),
            request_id=self._request_id,
        )
        self._emit(finished)


def _class_of(outcome: object) -> str | None:
    return type(outcome).__name__ if isinstance(outcome, BaseException) else None
