"""Where the events of a client go: the program's hook, and OpenTelemetry where it is set up.

Neither can break a call: what they raise is logged once.
"""

import asyncio
import logging
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

from .clock import Clock
from .errors import ConfigurationError, IncomeClientError
from .events import (
    CallFinished,
    Event,
    OnEvent,
    RequestAnswered,
    RequestRetried,
    RequestSent,
)
from .settings import check_flag, is_plain_function

if TYPE_CHECKING:
    from .telemetry import Telemetry

_LOGGER: Final = logging.getLogger("income_client.events")
_LIBRARY: Final = "opentelemetry"


class Instrumentation:
    """Gives the events of one client to those who listen."""

    __slots__ = ("_has_failed", "_hook", "_is_sought", "_telemetry", "emit", "is_on")

    def __init__(self, on_event: OnEvent | None = None, *, telemetry: bool = False) -> None:
        check_flag("telemetry", telemetry)
        if on_event is not None and not is_plain_function(on_event):
            raise ConfigurationError(
                "on_event is called, not awaited: a plain function", argument="on_event"
            )
        self._hook = on_event
        self._telemetry: Telemetry | None = None
        self._is_sought = telemetry
        self._has_failed: set[str] = set()
        self.is_on: bool = telemetry or on_event is not None
        """Whether calls have to be watched, as far as is known by now."""
        self.emit: OnEvent | None = None if on_event is None else self._emit
        """What takes an event; None without a listener, so that no event is made for nothing."""

    def begin(self, name: str, host: str | None, clock: Clock) -> "CallWatch | None":
        """Start watching a call in the running task; None without a listener."""
        if self._is_sought:
            self._find_telemetry()
            self.is_on = self.emit is not None
        if self._telemetry is not None:
            try:
                span = self._telemetry.begin(name, host)
            except Exception as error:  # noqa: BLE001 - foreign code, as the hook is
                self._log_hook_failure("telemetry", error)
            else:
                return CallWatch(name, partial(self._emit, span=span), clock)
        emit = self.emit
        return None if emit is None else CallWatch(name, emit, clock)

    def _emit(self, event: Event, span: OnEvent | None = None) -> None:
        """Give an event to telemetry, or the span that it belongs to, and to the hook."""
        if span is None and self._telemetry is not None:
            span = self._telemetry.take
        for name, take in (("telemetry", span), ("on_event", self._hook)):
            if take is not None:
                try:
                    take(event)
                # A cancellation that a plain function raises is not that of the task.
                except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - foreign code
                    self._log_hook_failure(name, error)

    def _find_telemetry(self) -> None:
        self._is_sought = False
        # A program that has set it up has imported it; for all others it costs nothing.
        if _LIBRARY not in sys.modules:
            return
        try:
            from .telemetry import Telemetry  # noqa: PLC0415 - its library may not be installed

            self._telemetry = Telemetry.found()
            if self._telemetry is not None:
                self.emit = self._emit
        except ImportError:
            return
        except Exception as error:  # noqa: BLE001 - foreign code, and perhaps too old
            self._log_hook_failure("telemetry", error)

    def _log_hook_failure(self, name: str, error: BaseException) -> None:
        """Log the class of an error, once for each listener."""
        if name not in self._has_failed:
            self._has_failed.add(name)
            found = type(error).__name__
            message = "%s raised %s; calls are not disturbed, and it is not complained of again"
            _LOGGER.warning(message, name, found, extra={"error": found})


class CallWatch:
    """Emits the events of one call, and counts what they say."""

    __slots__ = ("_began", "_busy", "_clock", "_emit", "_name", "_sent", "_sent_at", "_status")

    def __init__(self, name: str, emit: OnEvent, clock: Clock) -> None:
        self._name = name
        self._emit = emit
        self._clock = clock
        self._began = clock.monotonic()
        self._busy = 0.0
        self._sent_at: float | None = None
        self._sent = 0
        self._status: int | None = None

    def sent(self) -> None:
        """Emit that a request is sent."""
        self._sent += 1
        self._sent_at = self._clock.monotonic()
        self._emit(RequestSent(call=self._name, attempt=self._sent))

    def answered(self, status: int | None, outcome: object) -> None:
        """Emit that the request has ended, with what was made of the reply or an error."""
        seconds = self._clock.monotonic() - (self._sent_at or 0.0)
        self._sent_at = None
        self._busy += seconds
        self._status = status
        answered = RequestAnswered(
            call=self._name,
            attempt=self._sent,
            status=status,
            seconds=seconds,
            error=_class_of(outcome),
        )
        self._emit(answered)

    def retried(self, error: IncomeClientError, pause: float) -> None:
        """Emit that the request is repeated after so many seconds."""
        retried = RequestRetried(
            call=self._name,
            attempt=self._sent,
            status=error.status,
            error=type(error).__name__,
            pause=pause,
        )
        self._emit(retried)

    def finished(self, outcome: object) -> None:
        """Emit that the call has ended, and with it a request that was in flight."""
        if self._sent_at is not None:
            self.answered(None, outcome)
        seconds = self._clock.monotonic() - self._began
        finished = CallFinished(
            call=self._name,
            attempts=self._sent,
            seconds=seconds,
            waited=max(0.0, seconds - self._busy),
            status=self._status,
            error=_class_of(outcome),
        )
        self._emit(finished)


def _class_of(outcome: object) -> str | None:
    return type(outcome).__name__ if isinstance(outcome, BaseException) else None
