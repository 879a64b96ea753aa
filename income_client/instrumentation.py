"""Where the events of a client go: the program's hook, and OpenTelemetry where it is set up.

Neither can break a call: what they raise is logged once.
"""

import asyncio
import logging
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

from .clock import Clock
from .errors import ConfigurationError
from .settings import OnEvent, check_flag, is_plain_function

if TYPE_CHECKING:
    from .call_watch import CallWatch
    from .events import Event
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
        if self._is_sought:
            self._find_telemetry()
            self.is_on = self.emit is not None
        emit = self.emit
        if self._telemetry is not None:
            try:
                span = self._telemetry.begin_call(
                    name, method=method, host=host, port=port, template=template
                )
            except Exception as error:  # noqa: BLE001 - foreign code, as the hook is
                self._log_hook_failure("telemetry", error)
            else:
                emit = partial(self._emit, span=span)
        if emit is None:
            return None
        # Not for those who do not listen: making the classes of events takes a while.
        from .call_watch import CallWatch  # noqa: PLC0415

        return CallWatch(name, emit, clock)

    def _emit(self, event: "Event", span: OnEvent | None = None) -> None:
        """Give an event to telemetry, or the span that it belongs to, and to the hook."""
        if span is None and self._telemetry is not None:
            span = self._telemetry.count_event
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
