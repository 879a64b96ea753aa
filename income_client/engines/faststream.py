"""Workers on FastStream and NATS JetStream: attempts, pauses and dead letters for a relay's events.

Needs the extra ``faststream``. The module uses FastStream's public hooks alone: a subscriber of a
router, and a middleware around its handler.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Literal, NoReturn, TypeAlias, TypeVar, cast
from weakref import WeakValueDictionary

from attrs import define, field
from faststream import AckPolicy, BaseMiddleware
from faststream.exceptions import IncorrectState, NackMessage, RejectMessage
from faststream.message import StreamMessage
from faststream.nats import ConsumerConfig, JStream, NatsBroker, NatsRouter, PullSub
from faststream.nats.message import NatsMessage
from nats.errors import Error as NatsError

from income_client import DecodeError, NotFoundError
from income_client.settings import check_count, check_positive, invalid
from income_client.system.frames import places_of
from income_client.system.logs import GuardedLogger

from .nats_streams import loss_of
from .relay import HEADER_BYTES, UpdateEvent, describe_failure, faststream_decoder

DeadReason: TypeAlias = Literal["unreadable", "deleted", "failed"]
"""Why an event is a dead letter: no event could be read from it, the service does not know its
application, or each attempt has failed."""
T = TypeVar("T")
Handler: TypeAlias = Callable[..., Awaitable[object]]
_Call: TypeAlias = Callable[[Any], Awaitable[object]]

_LOGGER: Final = GuardedLogger("income_client.worker")
_REMEMBERED_IDS: Final = 10_000
_PAUSE_SECONDS: Final = 5.0
_LONGEST_PAUSE_SECONDS: Final = 600.0
_ANSWER_SECONDS: Final = 10.0


def update_subscriber(
    broker: NatsBroker,
    *,
    durable: str,
    subject: str = "income.updates",
    stream: str = "UPDATES",
    dead_subject: str = "income.dead",
    dead_stream: str = "DEAD",
    attempts: int = 8,
    timeout: float = 600.0,
    concurrency: int = 10,
    ack_wait: float = 60.0,
) -> Callable[[Handler], Handler]:
    """Return a FastStream subscriber to the events of a relay, as a decorator of the handler.

    - An event is acknowledged once the handler has returned for it. If the handler raises an
      error, whichever, the event comes again: after 10 seconds, then 20, 40 and so on up to ten
      minutes. While the handler runs, the event's ``ack_wait`` is renewed.
    - After ``attempts`` deliveries the event is moved to the dead letters, as ``failed``. The
      server counts deliveries before the work begins: an event that ends its worker each time
      becomes a dead letter too, with the error ``Unfinished``.
    - A message that is not an event, and an event whose record cannot be read (`DecodeError`), is
      moved at once as ``unreadable``; an event whose application the service does not know
      (`NotFoundError`) as ``deleted``.
    - A dead letter is the same message on the subject ``income.dead.failed``, with the class of
      the error in its header ``error``. Its last bytes are cut if there is no room for headers.
    - Each event comes at least once. A worker acknowledges an event without work if its id is
      among the last 10,000 that it has handled. It handles the events of one application one
      after the other; another worker may handle the same application meanwhile.

    - If NATS closes the connection for good, for example since it no longer accepts the
      credentials, the application stops by an error.

    Logs hold the class of an error, its last places in the code and the application's id, never an
    error's text: log that in the handler.

    Args:
        broker: a broker whose connection is kept, such as
            ``NatsBroker(url, max_reconnect_attempts=-1, ping_interval=10)``.
        durable: name of the consumer, whose workers share the events. The subscriber makes the
            consumer, or takes over an existing one, whose ``max_deliver`` it sets to unlimited.
        subject: subject of the events.
        stream: stream that keeps the events; it must exist.
        dead_subject: subject of the dead letters, before the reason.
        dead_stream: another stream, which keeps the dead letters. Without it they stay events. One
            that deletes its oldest messages is a warning in the log.
        attempts: deliveries of an event before it is moved to the dead letters.
        timeout: seconds for one attempt; then the handler is cancelled, and has failed.
        concurrency: events that a worker handles at a time.
        ack_wait: seconds after which the event of a worker that died comes again, for a
            consumer that is made.

    Returns:
        A decorator of an asynchronous function. Its argument is an `UpdateEvent`; others are
        filled in by FastStream.

    Raises:
        ConfigurationError: an argument is invalid.
    """
    for name, value, kind in (
        ("broker", broker, NatsBroker), ("durable", durable, str), ("subject", subject, str),
        ("stream", stream, str), ("dead_subject", dead_subject, str),
        ("dead_stream", dead_stream, str),
    ):  # fmt: skip
        if not isinstance(value, kind):
            raise invalid(name, kind.__name__, value)
    worker = _Worker(
        broker,
        dead_subject,
        dead_stream,
        attempts=check_count("attempts", attempts),
        timeout=check_positive("timeout", timeout),
        renew_seconds=check_positive("ack_wait", ack_wait) / 3,
    )
    router = NatsRouter(middlewares=[partial(_Middleware, worker=worker)])
    # One subscriber with several workers (max_workers) fetches ahead. While all of them are busy,
    # nobody renews the events that it has fetched: their ack_wait would pass.
    subscribers = [
        router.subscriber(
            subject,
            durable=durable,
            stream=JStream(stream, declare=False),
            pull_sub=_Fetch(worker),
            config=ConsumerConfig(ack_wait=ack_wait, max_deliver=-1),
            ack_policy=AckPolicy.MANUAL,
            no_reply=True,  # a foreign message may ask for a reply
            decoder=faststream_decoder,
        )
        for _ in range(check_count("concurrency", concurrency))
    ]
    broker.include_router(router)

    def subscribe(handler: Handler) -> Handler:
        for subscriber in subscribers:
            handler = subscriber(handler)
        return handler

    return subscribe


class Unfinished(Exception):  # noqa: N818 - a name in the headers of dead letters
    """The workers that tried an event ended before it was handled; no handler raised an error."""


class _Fetch(PullSub[Literal[False]]):
    """Options of FastStream's loop over fetches, which reads them before each fetch.

    FastStream asks a connection that is closed again without a pause, and so blocks the event loop:
    the process would ignore SIGTERM. These options end the loop instead.
    """

    batch: Literal[False] = False
    timeout: float = 5.0

    def __init__(self, worker: "_Worker") -> None:
        self._worker = worker

    @property
    def batch_size(self) -> int:  # type: ignore[override]
        if self._worker.is_closed():
            raise asyncio.CancelledError  # after another error, FastStream starts the loop again
        return 1


class _Middleware(BaseMiddleware[Any, Any]):
    """FastStream's middleware around a handler, which settles the message by the outcome."""

    def __init__(self, message: object, /, *, context: Any, worker: "_Worker") -> None:
        super().__init__(message, context=context)
        self._worker = worker

    async def consume_scope(self, call_next: _Call, msg: StreamMessage[Any]) -> None:
        """Call the handler, and report its outcome to the server and to FastStream."""
        message = cast("NatsMessage", msg)
        try:
            await self._worker.settle_message(message, call_next)
        except NatsError as error:
            name = type(error).__name__
            text = "the server was not told of an event (%s); it comes again"
            _LOGGER.warning(text, name, extra={"error": name})


@define
class _Worker:
    """The settings and the state that the messages of a subscriber share."""

    _broker: NatsBroker
    _dead_subject: str
    _dead_stream: str
    _attempts: int
    _timeout: float
    _renew_seconds: float
    _is_checked: bool = False
    _is_dead_stream_checked: bool = False
    _turns: WeakValueDictionary[str, asyncio.Lock] = field(factory=WeakValueDictionary)
    _handled_ids: deque[str] = field(factory=lambda: deque(maxlen=_REMEMBERED_IDS))

    def is_closed(self) -> bool:
        """Return whether the connection is closed for good; stop the application if so."""
        try:
            if not self._broker.connection.is_closed:
                return False
        except IncorrectState:  # the broker has stopped
            return True
        if app := self._broker.context.get("app"):
            app.exit()
        return True

    async def settle_message(self, message: NatsMessage, call: _Call) -> None:
        """Handle a message's event, then acknowledge it, bury it, or have it come again."""
        await self._check_consumer(message)
        try:
            event = cast("UpdateEvent", await message.decode())  # FastStream keeps it
        except DecodeError as fault:
            await self._bury(message, None, "unreadable", fault)
        attempt = message.raw_message.metadata.num_delivered
        task = asyncio.create_task(self._try_event(event, attempt, partial(call, message)))
        error = await self._renew_until_done(message, task)
        match error:
            case None:
                await message.ack_sync()
            case SystemExit():
                raise error  # FastStream stops the worker
            case DecodeError():
                await self._bury(message, event, "unreadable", error)
            case NotFoundError():
                await self._bury(message, event, "deleted", error)
            case _ if attempt >= self._attempts:
                await self._bury(message, event, "failed", error)
            case _:
                await self._give_back(message, event, attempt, error)

    async def _try_event(
        self, event: UpdateEvent, attempt: int, call: Callable[[], Awaitable[object]]
    ) -> BaseException | None:
        """Call the handler once no other event of the application is handled; return its error."""
        try:
            async with self._turns.setdefault(event.application_id, asyncio.Lock()):
                if event.id in self._handled_ids:
                    return None
                if attempt > self._attempts:
                    return Unfinished()
                async with asyncio.timeout(self._timeout):
                    await call()
                self._handled_ids.append(event.id)
        # CancelledError, too: FastStream would take a handler's own for the end of the subscriber.
        except BaseException as error:  # noqa: BLE001
            return error
        return None

    async def _renew_until_done(self, message: NatsMessage, task: asyncio.Task[T]) -> T:
        """Wait for a task, and renew the message's ``ack_wait`` meanwhile."""
        try:
            while not (await asyncio.wait({task}, timeout=self._renew_seconds))[0]:
                with suppress(NatsError):  # without the server, the event may come twice
                    await message.in_progress()
        finally:
            task.cancel()
        return task.result()

    async def _give_back(
        self, message: NatsMessage, event: UpdateEvent, attempt: int, error: BaseException
    ) -> NoReturn:
        """Return the event to the broker, to be redelivered after a pause."""
        pause = min(_LONGEST_PAUSE_SECONDS, _PAUSE_SECONDS * 2.0 ** min(attempt, 10))
        name = type(error).__name__
        facts = {"application_id": event.application_id, "attempt": attempt, "error": name}
        places = places_of(error)
        reason = f"{name}, {places}" if places else name
        text = "application %r was not handled (%s); its event comes again after %g s"
        _LOGGER.warning(text, event.application_id, reason, pause, extra=facts)
        await message.nack(delay=pause)
        raise NackMessage  # for FastStream's metrics: the message is settled

    async def _bury(
        self,
        message: NatsMessage,
        event: UpdateEvent | None,
        reason: DeadReason,
        error: BaseException,
    ) -> NoReturn:
        """Store the message as a dead letter, then acknowledge it."""
        await self._check_dead_stream()
        meta, name = message.raw_message.metadata, type(error).__name__
        room = (await self._broker.connect()).max_payload - HEADER_BYTES
        # By its id, the stream drops a letter that is stored again since its event came again.
        letter = f"{meta.stream}-{meta.sequence.stream}-{meta.timestamp.isoformat()}"
        try:
            await self._broker.publish(
                message.body[:room],
                f"{self._dead_subject}.{reason}",
                {"Nats-Msg-Id": letter, "error": name},
                stream=self._dead_stream,
                timeout=_ANSWER_SECONDS,
            )
        except NatsError as fault:
            text = "the stream %r has not taken the dead letter of an event (%s); it comes again"
            extra = {"stream": self._dead_stream, "error": type(fault).__name__}
            _LOGGER.warning(text, self._dead_stream, describe_failure(fault), extra=extra)
            raise NackMessage from None  # it comes again after ack_wait
        application_id = None if event is None else event.application_id
        facts = {"application_id": application_id, "reason": reason, "error": name}
        text = "an event of application %r became a dead letter (%s, %s)"
        _LOGGER.error(text, application_id, reason, name, extra=facts)
        await message.ack_sync()
        raise RejectMessage  # for FastStream's metrics: the message is settled

    async def _check_consumer(self, message: NatsMessage) -> None:
        """Read the consumer's ``ack_wait``, once, and set its ``max_deliver`` to unlimited."""
        if self._is_checked:
            return
        meta = message.raw_message.metadata
        streams = (await self._broker.connect()).jetstream(timeout=_ANSWER_SECONDS)
        config = (await streams.consumer_info(meta.stream, meta.consumer)).config
        if config.max_deliver != -1:
            await streams.add_consumer(meta.stream, config.evolve(max_deliver=-1))
        if config.ack_wait:
            self._renew_seconds = config.ack_wait / 3
        self._is_checked = True

    async def _check_dead_stream(self) -> None:
        """Warn once of a stream that deletes dead letters."""
        if self._is_dead_stream_checked:
            return
        self._is_dead_stream_checked = True
        streams = (await self._broker.connect()).jetstream(timeout=_ANSWER_SECONDS)
        with suppress(NatsError, TimeoutError):  # its configuration is unknown
            info = await streams.stream_info(self._dead_stream)
            if loss := await loss_of(streams, info, f"{self._dead_subject}.failed"):
                facts = {"stream": self._dead_stream}
                text = "the stream %r of dead letters %s"
                _LOGGER.warning(text, self._dead_stream, loss, extra=facts)
