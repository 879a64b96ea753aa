"""Traces of events, from the relay over the broker to the worker, where OpenTelemetry is set up.

A program that has set it up has imported it: for all others nothing is imported here.
"""

import logging
import sys
from collections.abc import Callable, MutableMapping
from functools import cache
from types import TracebackType
from typing import Final, Literal, TypeAlias

from attrs import frozen

Operation: TypeAlias = Literal["send", "process"]

_LOGGER: Final = logging.getLogger("income_client.events")
_LIBRARY: Final = "opentelemetry"


@frozen
class Destination:
    """Where events go, as their spans say it."""

    system: str
    """The broker's kind, such as ``nats``."""
    name: str
    """Its subject, stream, queue or topic."""
    group: str | None = None
    """The name that workers share."""


class EventSpan:
    """A span while an event is sent or handled, current in the running task.

    Sending adds the headers by which the worker continues the trace, handling reads them. What
    OpenTelemetry raises disturbs neither: its class is logged once.
    """

    __slots__ = ("_destination", "_end", "_headers", "_operation")

    def __init__(
        self,
        operation: Operation,
        destination: Destination | None,
        headers: MutableMapping[str, str],
    ) -> None:
        self._operation: Operation = operation
        self._destination = destination
        self._headers = headers
        self._end: Callable[[BaseException | None], None] | None = None

    def __enter__(self) -> None:
        """Begin the span."""
        if _LIBRARY not in sys.modules:
            return
        try:
            from income_client.telemetry import begin_event  # noqa: PLC0415 - as above

            where = self._destination
            known = () if where is None else (where.system, where.name, where.group)
            self._end = begin_event(self._operation, self._headers, *known)
        except ImportError:
            return
        except Exception as error:  # noqa: BLE001 - foreign code
            _log_failure(type(error).__name__)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it, with the class of an error."""
        if self._end is None:
            return
        try:
            self._end(error)
        except Exception as failure:  # noqa: BLE001 - foreign code
            _log_failure(type(failure).__name__)


@cache
def _log_failure(name: str) -> None:
    message = "telemetry raised %s; events are not disturbed, and it is not complained of again"
    _LOGGER.warning(message, name, extra={"error": name})
