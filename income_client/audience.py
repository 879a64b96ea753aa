"""Who is told of a client's work: a program's hook, and telemetry where that is set up.

Knows that neither may break a call, and what a call's events are counted from;
refuses to know what is done with them.
"""

import asyncio
import logging
import sys
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final, TypeVar

from .checks import is_plain_function
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

if TYPE_CHECKING:
    from .telemetry import Telemetry

_LOGGER: Final = logging.getLogger("income_client.events")
_LIBRARY: Final = "opentelemetry"

T = TypeVar("T")


class Audience:
    """All that listen to one client.

    Args:
        on_event: what a program wants called.
        telemetry: whether OpenTelemetry is told, if the program has set it up by
            the time of the first call.

    Attributes:
        tell: takes what happens; None while nobody listens, so that whoever would
            tell looks there first.

    Raises:
        ConfigurationError: the hook is none.
    """

    __slots__ = ("_guard", "_hook", "_is_sought", "_telemetry", "tell")

    def __init__(self, on_event: OnEvent | None = None, *, telemetry: bool = False) -> None:
        if not isinstance(telemetry, bool):
            raise ConfigurationError("telemetry is True or False")
        if on_event is not None and not is_plain_function(on_event):
            raise ConfigurationError("on_event is called, not awaited: a plain function")
        self._hook = None if on_event is None else _Guard("on_event").around(on_event)
        self._guard = _Guard("telemetry")
        self._telemetry: Telemetry | None = None
        self._is_sought = telemetry
        self.tell: OnEvent | None = self._hook

    def begin(self, name: str, host: str | None, clock: Clock) -> "CallWatch | None":
        """Begin to tell of a call in the running task; None while nobody listens.

        Args:
            name: of the call.
            host: that it is for.
            clock: measures it.
        """
        if self._is_sought:
            self._seek()
        if self.tell is None:
            return None
        tell = self.tell
        if self._telemetry is not None:
            try:
                span = self._telemetry.begin(name, host)
            except Exception as error:  # noqa: BLE001 - foreign code, as the hook is
                self._guard.complain(error)
            else:
                tell = _both(self._guard.around(span), self._hook)
        return CallWatch(name, tell, clock)

    def _seek(self) -> None:
        self._is_sought = False
        # A program that has set it up has imported it; for all others it costs nothing.
        if _LIBRARY not in sys.modules:
            return
        try:
            from .telemetry import Telemetry  # noqa: PLC0415 - its library may not be installed

            self._telemetry = Telemetry.found()
        except ImportError:
            return
        except Exception as error:  # noqa: BLE001 - foreign code, and perhaps too old
            self._guard.complain(error)
            return
        if self._telemetry is not None:
            self.tell = _both(self._guard.around(self._telemetry.take), self._hook)


class CallWatch:
    """Tells of one call, and counts what its events say.

    Args:
        name: of the call.
        tell: takes its events.
        clock: measures it.
    """

    __slots__ = ("_began", "_busy", "_clock", "_name", "_sent", "_sent_at", "_status", "_tell")

    def __init__(self, name: str, tell: OnEvent, clock: Clock) -> None:
        self._name = name
        self._tell = tell
        self._clock = clock
        self._began = clock.monotonic()
        self._busy = 0.0
        self._sent_at: float | None = None
        self._sent = 0
        self._status: int | None = None

    async def over(self, work: Awaitable[T]) -> T:
        """Tell how the call ends, however it does.

        Args:
            work: makes it, and tells of its requests.

        Returns:
            What it gives.
        """
        try:
            outcome = await work
        except BaseException as error:
            self.finished(error)
            raise
        self.finished(outcome)
        return outcome

    def sent(self) -> None:
        """Tell that a request goes out."""
        self._sent += 1
        self._sent_at = self._clock.monotonic()
        self._tell(RequestSent(call=self._name, attempt=self._sent))

    def answered(self, status: int | None, outcome: object) -> None:
        """Tell that the request has ended.

        Args:
            status: of the reply; None where none came.
            outcome: what was made of it, or what is wrong with it.
        """
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
        self._tell(answered)

    def retried(self, error: IncomeClientError, pause: float) -> None:
        """Tell that the request is made again after so many seconds."""
        retried = RequestRetried(
            call=self._name,
            attempt=self._sent,
            status=error.status,
            error=type(error).__name__,
            pause=pause,
        )
        self._tell(retried)

    def finished(self, outcome: object) -> None:
        """Tell that the call has ended, and with it a request that was under way.

        Args:
            outcome: what it gives, or raises.
        """
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
        self._tell(finished)


def _class_of(outcome: object) -> str | None:
    return type(outcome).__name__ if isinstance(outcome, BaseException) else None


class _Guard:
    """Calls foreign code and survives it; complains once, however much of it there is."""

    __slots__ = ("_has_complained", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._has_complained = False

    def around(self, hook: OnEvent) -> OnEvent:
        """Return what calls a hook; it is called again all the same once it has raised."""

        def tell(event: Event) -> None:
            try:
                hook(event)
            # A cancellation that a plain function raises is not that of the task.
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - foreign code
                self.complain(error)

        return tell

    def complain(self, error: BaseException) -> None:
        """Log the class of an error, the first time."""
        if not self._has_complained:
            self._has_complained = True
            found = type(error).__name__
            message = "%s raised %s; calls are not disturbed, and it is not complained of again"
            _LOGGER.warning(message, self._name, found, extra={"error": found})


def _both(first: OnEvent, second: OnEvent | None) -> OnEvent:
    if second is None:
        return first

    def tell(event: Event) -> None:
        first(event)
        second(event)

    return tell
