"""Listeners of a client's events: the program's hook, and OpenTelemetry if it is set up.

An exception of a listener is logged once and never reaches the call.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakValueDictionary

from income_client.errors import InvalidArgumentError
from income_client.settings import is_plain_function
from income_client.system.clock import Clock
from income_client.system.logs import GuardedLogger

if TYPE_CHECKING:
    from .call_watch import CallWatch
    from .kinds import Event

_LOGGER: Final = GuardedLogger("income_client.events")


class OnEvent(Protocol):
    """A hook for events: a plain function that takes one.

    It is called in the event loop while the event happens, so it must not block. What it
    raises disturbs no call: the class of the error is logged, once.
    """

    def __call__(self, event: "Event", /) -> object:
        """Take an event; what is returned is not looked at."""
        ...


class MeasuredPoller(Protocol):
    """A poller whose status is shown as gauges."""

    @property
    def name(self) -> str:
        """Name of the poller."""

    @property
    def status(self) -> Any:
        """The `PollerStatus`, which may be read in any thread."""


class Tracer(Protocol):
    """A listener that makes a span of each call, and counts the events outside of calls."""

    def begin_call(
        self, name: str, *, method: str, host: str | None, port: int | None, template: str | None
    ) -> OnEvent:
        """Begin the span of a call; return the function that takes the call's events."""

    def count_event(self, event: "Event") -> None:
        """Count an event that belongs to no call."""

    def add_poller(self, poller: MeasuredPoller) -> None:
        """Show the status of a poller for as long as the program has the poller."""


FindTracer = Callable[[], Tracer | None]


class Instrumentation:
    """Passes the events of one client to its listeners."""

    __slots__ = ("_find_tracer", "_has_failed", "_hook", "_pollers", "_tracer", "emit", "is_on")

    def __init__(
        self, on_event: OnEvent | None = None, find_tracer: FindTracer | None = None
    ) -> None:
        if on_event is not None and not is_plain_function(on_event):
            raise InvalidArgumentError(
                "on_event is called, not awaited: a plain function", argument="on_event"
            )
        self._hook = on_event
        self._tracer: Tracer | None = None
        self._find_tracer = find_tracer
        self._has_failed: set[str] = set()
        self._pollers: WeakValueDictionary[int, MeasuredPoller] = WeakValueDictionary()
        """Pollers that were made before the tracer was found."""
        self.is_on: bool = find_tracer is not None or on_event is not None
        """Whether calls must be watched; False once no tracer was found and there is no hook."""
        self.emit: OnEvent | None = None if on_event is None else self._emit
        """Function that takes an event; None without a listener, so that no event is made in
        vain."""

    def watch_call(
        self,
        name: str,
        clock: Clock,
        *,
        method: str,
        host: str | None,
        port: int | None,
        template: str | None,
    ) -> "CallWatch | None":
        """Start watching a call in the running task; None without a listener."""
        if self._find_tracer is not None:
            self._attach(self._find_tracer)
        emit = self.emit
        if self._tracer is not None:
            try:
                span = self._tracer.begin_call(
                    name, method=method, host=host, port=port, template=template
                )
            except Exception as error:  # noqa: BLE001 - foreign code, as the hook is
                self._log_hook_failure("telemetry", error)
            else:
                emit = partial(self._emit, span=span)
        if emit is None:
            return None
        # Imported here, since making the classes of events takes time that a client without
        # listeners need not spend.
        from .call_watch import CallWatch  # noqa: PLC0415

        return CallWatch(name, emit, clock)

    def add_poller(self, poller: MeasuredPoller) -> None:
        """Show the status of a poller to the tracer, which may be found later."""
        if self._tracer is not None:
            self._tracer.add_poller(poller)
        elif self._find_tracer is not None:
            self._pollers[id(poller)] = poller

    def _emit(self, event: "Event", span: OnEvent | None = None) -> None:
        """Pass an event to the call's span or else the tracer, and to the hook."""
        if span is None and self._tracer is not None:
            span = self._tracer.count_event
        for name, take in (("telemetry", span), ("on_event", self._hook)):
            if take is not None:
                try:
                    take(event)
                # A plain function may raise CancelledError; the task is not cancelled then.
                except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - foreign code
                    self._log_hook_failure(name, error)

    def _attach(self, find_tracer: FindTracer) -> None:
        """Find the tracer at the first call: a program may set it up after making the client."""
        self._find_tracer = None
        try:
            self._tracer = find_tracer()
        except Exception as error:  # noqa: BLE001 - foreign code, and perhaps too old
            self._log_hook_failure("telemetry", error)
        if self._tracer is not None:
            self.emit = self._emit
            for poller in self._pollers.values():
                self._tracer.add_poller(poller)
        self.is_on = self.emit is not None

    def _log_hook_failure(self, name: str, error: BaseException) -> None:
        """Log the class of an error, once for each listener."""
        if name not in self._has_failed:
            self._has_failed.add(name)
            error_name = type(error).__name__
            message = "%s raised %s; calls are not disturbed, and it is not complained of again"
            _LOGGER.warning(message, name, error_name, extra={"error": error_name})
