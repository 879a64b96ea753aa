"""Handle the events of a relay: the user's function for each, and everything around it.

What a broker must do for it is `EventSource` and `Delivery`, which each broker has a module for,
such as `income_client.engines.worker_nats`.
"""

import asyncio
import logging
import signal
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from types import FrameType
from typing import Any, Final, Literal, Protocol, TypeAlias
from weakref import WeakValueDictionary

from attrs import frozen

from income_client import DecodeError, IncomeClientError, NotFoundError
from income_client.errors import leaving
from income_client.settings import check_count, check_positive, invalid, is_plain_function

from .relay import UpdateEvent
from .tracing import Destination, EventSpan

DeadReason: TypeAlias = Literal["unreadable", "deleted", "failed"]
"""Why an event is a dead letter: no event could be read from it, there is no such application any
more, or each attempt has failed."""

_LOGGER: Final = logging.getLogger("income_client.worker")
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_UNFINISHED: Final = "Unfinished"
"""In place of an error's class: the workers that tried it ended before they were done."""
_MOST_IDS: Final = 10_000
_BROKER_PAUSES: Final = (1.0, 30.0)
"""Seconds before the broker is asked again: at first, and at most."""
_RETURN_SECONDS: Final = 2.0
"""How long a worker that ends may take to give back what it has not done."""


class Delivery(Protocol):
    """A message that a broker has given to this worker, and to no other meanwhile.

    Each method returns once the broker has it, and raises what it likes if that fails: the
    message then comes again. If it also has ``headers``, a mapping of texts, the trace that its
    publisher has written there is continued while it is handled.
    """

    @property
    def body(self) -> bytes:
        """The message."""
        ...

    @property
    def attempt(self) -> int:
        """How often the broker has delivered it, by its own count: 1 for the first time."""
        ...

    async def acknowledge(self) -> None:
        """Tell the broker that it is done: it comes no more."""
        ...

    async def give_back(self, seconds: float) -> None:
        """Have it delivered again, to any worker, after so many seconds.

        Args:
            seconds: 0, 10, 20, 40, 80, 160, 320 or 600.
        """
        ...

    async def extend(self) -> None:
        """Tell the broker that it is still being handled."""
        ...

    async def bury(self, reason: DeadReason, error: str) -> None:
        """Move it to the dead letters: first store it there, then have it come no more.

        Args:
            reason: why; a person finds the dead letters by it.
            error: the class of the last error, to be kept beside it.
        """
        ...


class EventSource(Protocol):
    """Where a worker gets its messages: one queue, or one consumer of a stream, of a broker.

    If it also has a ``destination`` (`tracing.Destination`), traces name it.
    """

    @property
    def extend_seconds(self) -> float:
        """How often what is in hand must be extended: a third of the time that it is lent for."""
        ...

    async def receive(self, most: int) -> Sequence[Delivery]:
        """Wait some seconds for messages, and return them as soon as there are any.

        It connects at first, and again whenever that is necessary, and makes what it reads from
        (a consumer, a group) if that is missing. It is never called twice at a time. The worker
        cancels it when it stops.

        Args:
            most: how many messages may be returned.

        Returns:
            The messages; none after some seconds without any. Always by an answer of the broker:
            silence is an error.

        Raises:
            IncomeClientError: the worker ends, unless it is ``retryable``.
            Exception: any other is retried too, after a pause that grows to half a minute.
        """
        ...

    async def aclose(self) -> None:
        """Give back what was received and not returned; close the connection, if it is its own."""
        ...


@frozen(kw_only=True)
class WorkerStatus:
    """How a worker is doing."""

    handled: int
    """How many events the function has handled."""
    failed: int
    """Attempts that have failed: the function raised an error, or took too long."""
    dead: int
    """Events that were moved to the dead letters."""
    in_hand: int
    """Events that are being handled, or wait for another of the same application."""
    is_connected: bool
    """Whether the broker has answered when it was last asked for events."""
    last_error: str | None
    """The class of the last error, of an event or of the broker; it stays when others succeed."""


class Worker:
    """Handle events until it is stopped, each at least once.

    - An event is acknowledged once the function has returned for it. If it raises an error,
      whichever, the event comes again: after 10 seconds, then 20, 40 and so on up to ten minutes.
    - After ``attempts`` deliveries it is moved to the dead letters, as ``failed``. The broker
      counts them before the work begins: an event that kills its worker ends there too. One that
      cannot be read, or whose record cannot (`DecodeError`), and one whose application the
      service does not know (`NotFoundError`) are moved at once, as ``unreadable`` and ``deleted``.
    - An event may come twice, and to several workers. One whose id is among the last 10,000
      that this worker has handled is acknowledged without work. Where that is not enough, keep
      ``event.id`` in the transaction that writes.
    - Events of one application are handled one after the other within a worker. Several workers
      may handle them at the same time, and in any order.
    - While the broker is away, the worker waits and tries again. It ends with an error if the
      broker cannot be used any more.

    Logs hold the class of an error and the application's id, never what an event or an error says.

    Args:
        handle: awaited with each `UpdateEvent`.
        source: where the events come from, such as `worker_nats.nats_events`. The worker closes
            it when it ends.
        attempts: deliveries of an event before it is moved to the dead letters. One that was
            given back when a worker stopped counts too.
        concurrency: most events in hand at a time.
        timeout: seconds for one event; after them the function is cancelled, and has failed.
        stop_timeout: seconds for what is in hand when the worker is stopped. What is not done
            by then is cancelled and given back.

    Raises:
        ConfigurationError: an argument is invalid.
    """

    def __init__(
        self,
        handle: Callable[[UpdateEvent], Awaitable[object]],
        source: EventSource,
        *,
        attempts: int = 8,
        concurrency: int = 10,
        timeout: float = 600.0,
        stop_timeout: float = 20.0,
    ) -> None:
        if is_plain_function(handle):
            raise invalid("handle", "an asynchronous function", handle)
        self._handle = handle
        self._source = source
        self._attempts = check_count("attempts", attempts)
        self._concurrency = check_count("concurrency", concurrency)
        self._timeout = check_positive("timeout", timeout)
        self._stop_timeout = check_positive("stop_timeout", stop_timeout)
        self._stopped = asyncio.Event()
        self._in_hand: dict[asyncio.Task[None], Delivery] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._handled_ids: OrderedDict[str, None] = OrderedDict()
        self._handled = self._failed = self._dead = 0
        self._is_connected = False
        self._last_error: str | None = None

    @property
    def status(self) -> WorkerStatus:
        """What a health check may show."""
        return WorkerStatus(
            handled=self._handled,
            failed=self._failed,
            dead=self._dead,
            in_hand=len(self._in_hand),
            is_connected=self._is_connected,
            last_error=self._last_error,
        )

    def stop(self) -> None:
        """End `run` soon: nothing more is taken, and what is in hand has ``stop_timeout``."""
        self._stopped.set()

    async def run(self, *, until_signal: bool = False) -> None:
        """Handle events until `stop` is called.

        If it is cancelled, what is in hand is cancelled too, and given back.

        Args:
            until_signal: whether SIGTERM and Ctrl-C stop it, as `stop` does; a second one ends
                the process at once. Only in the main thread.

        Raises:
            IncomeClientError: the broker cannot be used, or not any more.
        """
        with leaving(), _stopped_by_signals(self.stop) if until_signal else nullcontext():
            taking = asyncio.create_task(self._receive_events())
            stopped = asyncio.create_task(self._stopped.wait())
            try:
                await asyncio.wait({taking, stopped}, return_when=asyncio.FIRST_COMPLETED)
                await _end_tasks(taking)
                if self._in_hand:
                    await asyncio.wait(self._in_hand, timeout=self._stop_timeout)
            finally:
                self._stopped.set()
                await _end_tasks(taking, stopped)
                await self._give_back()
                await self._source.aclose()
                self._is_connected = False
            if not taking.cancelled():
                await taking  # raises why it has ended

    async def _receive_events(self) -> None:
        """Receive events as long as there is room for more; end with the broker's last error."""
        failures = 0
        # Looked at too, since a client of a broker may swallow a cancellation: `wait_for` did so.
        while not self._stopped.is_set():
            while len(self._in_hand) >= self._concurrency:
                await asyncio.wait(self._in_hand, return_when=asyncio.FIRST_COMPLETED)
            try:
                deliveries = await self._source.receive(self._concurrency - len(self._in_hand))
            except Exception as error:
                self._is_connected, self._last_error = False, type(error).__name__
                if isinstance(error, IncomeClientError) and not error.retryable:
                    raise
                failures += 1
                _log_of_broker(error, failures)
                first, most = _BROKER_PAUSES
                await asyncio.sleep(min(most, first * 2 ** min(failures - 1, 10)))
                continue
            if failures:
                _LOGGER.info("the broker answers again", extra={"failures": failures})
            failures, self._is_connected = 0, True
            for delivery in deliveries:
                task = asyncio.create_task(self._settle_delivery(delivery))
                self._in_hand[task] = delivery
                task.add_done_callback(self._in_hand.pop)

    async def _give_back(self) -> None:
        """Cancel what is still in hand, and have it come again at once."""
        in_hand = dict(self._in_hand)
        await _end_tasks(*in_hand)
        rest = [delivery for task, delivery in in_hand.items() if task.cancelled()]
        with suppress(TimeoutError):
            async with asyncio.timeout(_RETURN_SECONDS):
                # Without an answer of the broker they come again too, only later.
                await asyncio.gather(
                    *(delivery.give_back(0) for delivery in rest), return_exceptions=True
                )

    async def _settle_delivery(self, delivery: Delivery) -> None:
        """Handle an event, and tell the broker what has come of it."""
        extending = asyncio.create_task(self._keep_extending(delivery))
        try:
            await self._handle_delivery(delivery)
        except Exception as error:  # noqa: BLE001 - a broker's client raises what it likes
            self._last_error = name = type(error).__name__
            message = "the broker was not told of an event (%s); it comes again"
            _LOGGER.warning(message, name, extra={"error": name})
            with suppress(Exception):
                await delivery.give_back(_pause_after(delivery.attempt))
        finally:
            await _end_tasks(extending)

    async def _handle_delivery(self, delivery: Delivery) -> None:
        try:
            event = UpdateEvent.from_json(delivery.body)
        except DecodeError as error:
            await self._bury_delivery(delivery, "unreadable", type(error).__name__, None)
            return
        async with self._turns.setdefault(event.application_id, asyncio.Lock()):
            if event.id in self._handled_ids:
                await delivery.acknowledge()
            elif delivery.attempt > self._attempts:
                await self._bury_delivery(delivery, "failed", _UNFINISHED, event)
            else:
                await self._try_event(delivery, event)

    async def _try_event(self, delivery: Delivery, event: UpdateEvent) -> None:
        error = await self._error_of(event, getattr(delivery, "headers", None) or {})
        if error is None:
            self._handled += 1
            self._handled_ids[event.id] = None
            if len(self._handled_ids) > _MOST_IDS:
                self._handled_ids.popitem(last=False)
            await delivery.acknowledge()
            return
        self._failed += 1
        self._last_error = name = type(error).__name__
        if isinstance(error, DecodeError):
            await self._bury_delivery(delivery, "unreadable", name, event)
        elif isinstance(error, NotFoundError):
            await self._bury_delivery(delivery, "deleted", name, event)
        elif delivery.attempt >= self._attempts:
            await self._bury_delivery(delivery, "failed", name, event)
        else:
            pause = _pause_after(delivery.attempt)
            facts = _log_facts(event, delivery, name)
            message = "application %r was not handled (%s); its event comes again after %g s"
            _LOGGER.warning(message, event.application_id, name, pause, extra=facts)
            await delivery.give_back(pause)

    async def _error_of(
        self, event: UpdateEvent, headers: MutableMapping[str, str]
    ) -> BaseException | None:
        """Call the function; return what it has raised."""
        destination: Destination | None = getattr(self._source, "destination", None)
        try:
            with EventSpan("process", destination, headers):
                async with asyncio.timeout(self._timeout):
                    await self._handle(event)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return error  # the function's own: a task of its has been cancelled
        except Exception as error:  # noqa: BLE001 - whatever a function of the user raises
            return error
        return None

    async def _bury_delivery(
        self, delivery: Delivery, reason: DeadReason, error: str, event: UpdateEvent | None
    ) -> None:
        await delivery.bury(reason, error)
        self._dead += 1
        subject = (
            "an event" if event is None else f"the event of application {event.application_id!r}"
        )
        facts = {**_log_facts(event, delivery, error), "reason": reason}
        message = "%s became a dead letter (%s, %s)"
        _LOGGER.error(message, subject, reason, error, extra=facts)

    async def _keep_extending(self, delivery: Delivery) -> None:
        while True:
            await asyncio.sleep(self._source.extend_seconds)
            with suppress(Exception):  # if the broker does not learn it, the event comes again
                await delivery.extend()


def _pause_after(attempt: int) -> float:
    return min(600.0, 5.0 * 2.0 ** min(attempt, 10))


def _log_facts(event: UpdateEvent | None, delivery: Delivery, error: str) -> dict[str, object]:
    application_id = None if event is None else event.application_id
    return {"application_id": application_id, "attempt": delivery.attempt, "error": error}


def _log_of_broker(error: Exception, failures: int) -> None:
    name = type(error).__name__
    # Texts of the package's own errors hold no secrets; those of a broker's client may.
    text = str(error) if isinstance(error, IncomeClientError) else name
    message = "no events were received (%s); the broker is asked again"
    _LOGGER.warning(message, text, extra={"error": name, "failures": failures})


async def _end_tasks(*tasks: "asyncio.Task[Any]") -> None:
    """Cancel tasks, and wait for their end; what they have raised is the caller's to look at."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def _stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Have the first of the signals call something; a second one ends the process."""
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def receive(_number: int, _frame: FrameType | None) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        loop.call_soon_threadsafe(stop)

    for number in _SIGNALS:
        # The loop's own handler, which Windows lacks, wakes up the loop.
        with suppress(NotImplementedError):
            loop.add_signal_handler(number, lambda: None)
        signal.signal(number, receive)
    try:
        yield
    finally:
        for number, handler in before.items():
            with suppress(NotImplementedError):
                loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
