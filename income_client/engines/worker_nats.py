"""The events of a worker from NATS JetStream; needs the extra ``nats``."""

import asyncio
import json
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol

from attrs import define, field, frozen
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, Header
from nats.js.errors import NotFoundError, ServiceUnavailableError

from income_client import IncomeClientError
from income_client.errors import leaving
from income_client.settings import check_positive, check_type

from .nats_connection import NatsConnectionError, NoConnection, close, connect
from .tracing import Destination
from .worker import DeadReason, Delivery, EventSource

_LOGGER: Final = logging.getLogger("income_client.worker")
_ANSWER_SECONDS: Final = 10.0
"""How long the server may take to answer."""
_TELL_SECONDS: Final = 5.0
"""The same for what is said about an event: one that is not heard comes again anyway."""
_WAIT_SECONDS: Final = 5.0
"""How long the server waits for an event before it says that there is none."""
_LOOK_SECONDS: Final = 1.0
"""How often it looks whether the connection is still the same while it waits."""
_CLOSE_SECONDS: Final = 2.0
_SERVERS_ACK_WAIT: Final = 30.0
_NOBODY: Final = "503"
_NOTHING: Final = frozenset({"404", "408"})
"""Statuses of a pull request that has ended: no messages, its time is up."""


class Broker(Protocol):
    """A broker of FastStream for NATS."""

    async def connect(self) -> Client:
        """Return its connection, which it makes if necessary."""
        ...


@leaving()
def nats_events(
    connection: "str | Client | Broker",
    *,
    durable: str,
    subject: str = "income.updates",
    stream: str = "UPDATES",
    dead_subject: str = "income.dead",
    dead_stream: str = "DEAD",
    ack_wait: float = 60.0,
) -> EventSource:
    """Return a worker's events from a stream of NATS JetStream.

    Workers with the same ``durable`` share the events: it names a pull consumer, which is made
    if it does not exist, also after the stream was deleted and made again. While an event is
    handled, ``ack_wait`` begins anew, so it may be shorter than the longest handling. At most 1,000
    events, unless the consumer says otherwise, are in hand or wait for their next attempt.

    A dead letter is the same message, with its reason in the subject (``income.dead.failed``)
    and in the header ``Dead-Letter-Reason``; ``Dead-Letter-Error`` has the class of the error,
    and ``Dead-Letter-Attempt`` the number of deliveries.

    Args:
        connection: the address of the server, with commas between several, for a connection that
            is kept for as long as it takes and notices within half a minute that a server is
            silent; or a connection, or a ``NatsBroker`` of FastStream. These stay the caller's:
            if such a connection is closed for good, the worker ends with an error. With nats-py's
            defaults that is after two minutes without a server; ``max_reconnect_attempts=-1``
            keeps it.
        durable: the consumer's name.
        subject: of the events.
        stream: that keeps them.
        dead_subject: of the dead letters, before their reason.
        dead_stream: another stream, which keeps those.
        ack_wait: seconds after which the event of a worker that has died comes again, where
            the consumer is made.

    Returns:
        The source for a `Worker`. Running it raises `IncomeClientError` if there is no such
        stream at the start.

    Raises:
        ConfigurationError: an argument is invalid.
    """
    for name, value in (
        ("durable", durable), ("subject", subject), ("stream", stream),
        ("dead_subject", dead_subject), ("dead_stream", dead_stream),
    ):  # fmt: skip
        check_type(name, value, str)
    config = ConsumerConfig(
        durable_name=durable,
        name=durable,
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=check_positive("ack_wait", ack_wait),
        max_deliver=-1,  # the worker gives up, not the server, which would keep no dead letter
        filter_subject=subject,
    )
    return _Source(connection, stream, config, _DeadLetters(dead_stream, dead_subject))


@frozen
class _DeadLetters:
    stream: str
    subject: str


class _Delivery:
    def __init__(
        self, message: Msg, client: Client, js: JetStreamContext, dead: _DeadLetters
    ) -> None:
        self._message, self._client, self._js, self._dead = message, client, js, dead
        self.body: bytes = message.data
        self.headers: Mapping[str, str] = message.headers or {}
        self.attempt: int = message.metadata.num_delivered

    async def acknowledge(self) -> None:
        await self._send_answer(Msg.Ack.Ack)

    async def give_back(self, seconds: float) -> None:
        delay = json.dumps({"delay": int(seconds * 1e9)}).encode()
        await self._send_answer(Msg.Ack.Nak + b" " + delay if seconds else Msg.Ack.Nak)

    async def extend(self) -> None:
        await self._message.in_progress()

    async def bury(self, reason: DeadReason, error: str) -> None:
        meta = self._message.metadata
        kept = {name: text for name, text in self.headers.items() if not name.startswith("Nats-")}
        headers = {
            **kept,
            # A letter whose removal from the events fails is buried again.
            "Nats-Msg-Id": f"{meta.stream}-{meta.sequence.stream}-{meta.timestamp.isoformat()}",
            "content-type": "application/json",
            "Dead-Letter-Reason": reason,
            "Dead-Letter-Error": error,
            "Dead-Letter-Attempt": str(self.attempt),
        }
        subject, stream = f"{self._dead.subject}.{reason}", self._dead.stream
        await self._js.publish(subject, self.body, stream=stream, headers=headers)
        await self._send_answer(Msg.Ack.Term)

    async def _send_answer(self, what: bytes) -> None:
        """Send this, and wait for the answer."""
        await self._client.request(self._message.reply, what, timeout=_TELL_SECONDS)


@define
class _Pull:
    """A request for messages."""

    reply: str
    rest: int
    reconnects: int
    until: float = field(factory=lambda: time.monotonic() + _WAIT_SECONDS + _ANSWER_SECONDS)


class _Source:
    def __init__(
        self,
        connection: "str | Client | Broker",
        stream: str,
        config: ConsumerConfig,
        dead: _DeadLetters,
    ) -> None:
        self._connection, self._stream, self._dead = connection, stream, dead
        self._config = config
        self.destination = Destination(
            "nats", str(config.filter_subject), group=config.durable_name
        )
        self._client: Client | None = None
        self._own: Client | None = None
        self._js: JetStreamContext | None = None
        self._has_opened = False
        self._is_open = False
        self._subscription: Subscription | None = None
        self._arrived: asyncio.Queue[Msg] = asyncio.Queue()
        self._received: list[Msg] = []
        self._inbox = ""
        self._pulls = 0
        self._pull: _Pull | None = None
        self._next = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{config.durable_name}"
        self.extend_seconds = _third_of_ack_wait(config)

    async def receive(self, most: int) -> Sequence[Delivery]:
        try:
            client, js = await self._open_connection()
            self._is_open = False  # whatever goes wrong now, it looks again
            await self._fetch_messages(client, most)
        except asyncio.CancelledError:
            # Otherwise what the worker gives back now would come to this source again.
            await self._end_pull()
            raise
        except (NatsError, TimeoutError, OSError) as error:
            raise _translate_error(error)
        self._is_open = True
        messages, self._received = self._received, []
        return [_Delivery(message, client, js, self._dead) for message in messages]

    async def aclose(self) -> None:
        await self._end_pull()
        if self._own is not None:
            await close(self._own)

    async def _end_pull(self) -> None:
        """Have no more delivered, and give back what is there and was not returned."""
        subscription, self._subscription = self._subscription, None
        if subscription is None or self._client is None:
            return
        with suppress(Exception):  # without the connection that ends by itself
            async with asyncio.timeout(_CLOSE_SECONDS):
                await subscription.unsubscribe()
                while self._arrived.qsize():
                    self._received.append(self._arrived.get_nowait())
                for message in filter(_is_event, self._received):
                    await message.nak()
                await self._client.flush()

    async def _open_connection(self) -> tuple[Client, JetStreamContext]:
        """Return the connection and what is on it, once all is there that is needed."""
        client = await self._connect_client()
        if not client.is_connected:
            raise IncomeClientError("NATS: the connection is lost", retryable=True)
        if self._js is None or client is not self._client:
            self._client, self._js = client, client.jetstream(timeout=_ANSWER_SECONDS)
            self._inbox = client.new_inbox()
            self._subscription = await client.subscribe(f"{self._inbox}.*", cb=self._arrived.put)
        if not self._is_open:
            try:
                await self._check_consumer(self._js)
            except NotFoundError:
                text = f"NATS: there is no stream {self._stream}"
                # At its start that is a mistake; later somebody makes it anew.
                raise IncomeClientError(text, retryable=self._has_opened)
            self._is_open = self._has_opened = True
        return client, self._js

    async def _connect_client(self) -> Client:
        if isinstance(self._connection, str):
            if self._own is None or self._own.is_closed:
                is_first = not self._has_opened
                self._own = await _open_client(self._connection, is_first=is_first)
            return self._own
        if isinstance(self._connection, Client):
            client = self._connection
        else:
            client = await self._connection.connect()
        if client.is_closed:
            raise IncomeClientError(
                "NATS: the connection is closed for good: make one with max_reconnect_attempts=-1"
            )
        return client

    async def _check_consumer(self, js: JetStreamContext) -> None:
        """Find the streams, and the consumer, or make it."""
        await js.stream_info(self._stream)
        subject, kept_by = f"{self._dead.subject}.failed", ""
        with suppress(NotFoundError):
            kept_by = await js.find_stream_name_by_subject(subject)
        if kept_by != self._dead.stream or kept_by == self._stream:
            text = f"NATS: no stream {self._dead.stream} keeps {subject} apart from the events"
            raise IncomeClientError(text, retryable=self._has_opened)
        durable = str(self._config.durable_name)
        try:
            found = (await js.consumer_info(self._stream, durable)).config
        except NotFoundError:
            found = (await js.add_consumer(self._stream, self._config)).config
            facts = {"stream": self._stream, "consumer": durable}
            _LOGGER.info(
                "made the consumer %s of the stream %s", durable, self._stream, extra=facts
            )
        if found.deliver_subject or found.ack_policy != AckPolicy.EXPLICIT:
            raise IncomeClientError(f"NATS: {durable} is not a pull consumer with explicit acks")
        if found.max_deliver != -1:  # the server would give up, and keep no dead letter
            found = (await js.add_consumer(self._stream, found.evolve(max_deliver=-1))).config
        self.extend_seconds = _third_of_ack_wait(found)

    async def _fetch_messages(self, client: Client, most: int) -> None:
        """Wait for messages, and take those that are there; or until there are none for a while."""
        if self._pull is None:
            self._pulls += 1
            self._pull = _Pull(f"{self._inbox}.{self._pulls}", most, client.stats["reconnects"])
            request = {"batch": most, "expires": int(_WAIT_SECONDS * 1e9)}
            await client.publish(self._next, json.dumps(request).encode(), reply=self._pull.reply)
        pull, self._pull = self._pull, None
        while not self._received:
            message = await self._next_message(client, pull)
            if _is_event(message):
                self._received.append(message)
            elif message.subject == pull.reply:
                _check_status(message)
                return
        while self._arrived.qsize() and len(self._received) < most:
            message = self._arrived.get_nowait()
            if _is_event(message):
                self._received.append(message)
            elif message.subject == pull.reply:
                pull.rest = 0
        pull.rest -= len(self._received)
        # What the server still owes is waited for before more is asked for.
        self._pull = pull if pull.rest > 0 else None

    async def _next_message(self, client: Client, pull: "_Pull") -> Msg:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    return await self._arrived.get()
            # A request has no answer if the connection that it was on is lost.
            is_lost = not client.is_connected or client.stats["reconnects"] != pull.reconnects
            if is_lost or time.monotonic() > pull.until:
                raise TimeoutError


def _third_of_ack_wait(config: ConsumerConfig) -> float:
    return (config.ack_wait or _SERVERS_ACK_WAIT) / 3


def _is_event(message: Msg) -> bool:
    return message.reply.startswith("$JS.ACK.")


def _check_status(message: Msg) -> None:
    """Raise unless the server says that there were no more events within the request's time."""
    headers = message.headers or {}
    status, text = headers.get(Header.STATUS, ""), headers.get(Header.DESCRIPTION, "").strip()
    if status == _NOBODY:
        raise IncomeClientError("NATS: the consumer is gone", retryable=True)
    if status not in _NOTHING:
        raise IncomeClientError(f"NATS: no events ({status} {text})", retryable=True)


async def _open_client(url: str, *, is_first: bool) -> Client:
    """Make a connection of its own; what cannot be better at the start may be so later."""
    try:
        return await connect(url, name="income-client worker", seconds=_ANSWER_SECONDS)
    except NatsConnectionError as error:
        may_end = not is_first or error.reason is NoConnection.SILENCE
        raise IncomeClientError(f"NATS: {error.reason.value}", retryable=may_end)


def _translate_error(error: Exception) -> IncomeClientError:
    match error:
        case NoRespondersError() | ServiceUnavailableError():
            reason = "JetStream is not running, or the user has no rights"
        case TimeoutError():
            reason = "no answer"
        case _:
            reason = type(error).__name__
    return IncomeClientError(f"NATS: {reason}", retryable=True)
