"""Events on RabbitMQ, published and handled; needs the extra ``rabbit``.

The queues are quorum queues: they count how often each message was delivered, also to workers
that died of it, and confirm a message once it is on the disk.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import aio_pika
from aio_pika import DeliveryMode, Message
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage
from aio_pika.exceptions import (
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    DuplicateConsumerTag,
)

from income_client import ConfigurationError, IncomeClientError
from income_client.errors import leaving
from income_client.settings import check_type

from .relay import UpdateEvent
from .tracing import Destination, EventSpan
from .worker import DeadReason, EventSource

_LOGGER: Final = logging.getLogger("income_client.worker")

_ATTEMPTS: Final = "income-attempts"
"""Header of a message that comes back from a pause: how often it was delivered before."""
_SERVERS_HEADERS: Final = ("x-first-death-", "x-last-death-")
_SECONDS: Final = 10.0
"""How long the server may take to answer."""
_CLOSE_SECONDS: Final = 2.0
_HEARTBEAT_SECONDS: Final = 10
_WAIT_SECONDS: Final = 5.0
"""How long messages are awaited before the server is asked whether the queue is still there."""
_HOUR: Final = 3_600.0


@leaving()
def rabbit_events(
    url: str, *, queue: str = "income.updates", dead_letters: str = "income.dead"
) -> EventSource:
    """Return where a `Worker` gets events: a quorum queue of RabbitMQ.

    It makes the queue, one for the dead letters and, when they are first needed, one for each
    pause, such as ``income.updates.wait.10``. A queue that was deleted is made again, with a
    warning in the log.

    RabbitMQ takes back what a worker has in hand for longer than its ``consumer_timeout``, half
    an hour unless it is set: the worker's ``timeout`` must be shorter.

    Args:
        url: of the server, such as ``amqp://user:password@127.0.0.1/`` or ``amqps://...``.
        queue: its name; the one that the relay publishes to.
        dead_letters: name of another queue, for messages with the body of the event and the
            headers ``reason``, ``error`` and ``attempt``. Nothing empties it.

    Returns:
        The source, for one worker. `Worker.run` raises `IncomeClientError` if one of these
        queues exists with other settings.

    Raises:
        ConfigurationError: an argument is invalid.
    """
    return _Events(_Queue(url, queue, dead_letters))


@asynccontextmanager
async def rabbit_publisher(
    url: str, *, queue: str = "income.updates", dead_letters: str = "income.dead"
) -> AsyncIterator[Callable[[UpdateEvent], Awaitable[None]]]:
    """Give what `relay` publishes with, to a queue of RabbitMQ.

    The queues are made as by `rabbit_events`, so that events wait for the first worker.
    RabbitMQ drops nothing that comes twice. A lost connection is made again.

    Args:
        url: as for `rabbit_events`.
        queue: likewise.
        dead_letters: likewise.

    Yields:
        A function for `relay`, which returns once the server has the event on its disk. It raises
        `IncomeClientError` if one of these queues exists with other settings.

    Raises:
        ConfigurationError: an argument is invalid.
    """
    with leaving():
        target = _Queue(url, queue, dead_letters)

    async def publish(event: UpdateEvent) -> None:
        headers: dict[str, str] = {}
        with leaving(), EventSpan("send", Destination("rabbitmq", queue), headers):
            channel = await target.channel()
            message = _make_message(event.to_json(), message_id=event.id, headers=headers)
            await target.send(channel, queue, message)

    try:
        yield publish
    finally:
        await target.aclose()


class _Connection(aio_pika.Connection):
    """A connection that is closed by its `_Queue`; one that has failed has nothing to close."""

    def __del__(self) -> None:
        """Do nothing: the library would need a running event loop here."""


class _Queue:
    """A queue with its dead letters and pauses, and a channel that is opened when necessary."""

    def __init__(self, url: str, name: str, dead_letters: str) -> None:
        for argument, value in (("url", url), ("queue", name), ("dead_letters", dead_letters)):
            check_type(argument, value, str)
        if not url.startswith(("amqp://", "amqps://")):
            raise ConfigurationError(
                "url must be one of RabbitMQ, amqp://USER:PASSWORD@HOST/", argument="url"
            )
        self.name = name
        self.dead_letters = dead_letters
        self._url = url
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None
        self._made: set[str] = set()
        self._opening = asyncio.Lock()

    async def channel(self) -> AbstractChannel:
        """Return an open channel; the queue exists, and the one of dead letters."""
        async with self._opening:
            if self._channel is None or self._channel.is_closed:
                await self.aclose()
                async with asyncio.timeout(_SECONDS):
                    self._connection = await aio_pika.connect(
                        self._url, heartbeat=_HEARTBEAT_SECONDS, connection_class=_Connection
                    )
                    channel = self._connection.channel(on_return_raises=True)
                    await channel.initialize()
                await self._declare_queue(channel, self.dead_letters)
                await self._declare_queue(channel, self.name, expired_to=self.dead_letters)
                self._channel = channel
            return self._channel

    async def send(self, channel: AbstractChannel, queue: str, message: Message) -> None:
        """Return once the server has stored a message in a queue."""
        async with asyncio.timeout(_SECONDS):
            try:
                await channel.default_exchange.publish(message, queue)
            except Exception:
                self.drop(channel)  # with a new one a queue that was deleted is made again
                raise

    def drop(self, channel: AbstractChannel) -> None:
        """Have a new channel opened for what comes next."""
        if self._channel is channel:
            self._channel = None

    async def pause(self, channel: AbstractChannel, message: Message, seconds: float) -> None:
        """Have a message come to the queue after so many seconds."""
        name = f"{self.name}.wait.{seconds:g}"
        if name not in self._made:
            await self._declare_queue(channel, name, expired_to=self.name, seconds=seconds)
        await self.send(channel, name, message)

    async def _declare_queue(
        self,
        channel: AbstractChannel,
        name: str,
        *,
        expired_to: str | None = None,
        seconds: float | None = None,
    ) -> None:
        arguments: dict[str, Any] = {"x-queue-type": "quorum", "x-overflow": "reject-publish"}
        if expired_to is not None:
            # Where messages go whose time is up, or that the server gives up itself.
            arguments["x-dead-letter-exchange"] = ""
            arguments["x-dead-letter-routing-key"] = expired_to
            arguments["x-dead-letter-strategy"] = "at-least-once"
        if seconds is not None:
            arguments["x-message-ttl"] = round(seconds * 1000)
        try:
            async with asyncio.timeout(_SECONDS):
                await channel.declare_queue(name, durable=True, arguments=arguments)
        except ChannelPreconditionFailed:
            raise IncomeClientError(
                f"RabbitMQ: the queue {name!r} exists with other settings: take another name, "
                "or delete it"
            )
        self._made.add(name)

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        self._channel = None
        self._made.clear()
        if connection is not None:
            with suppress(Exception):  # it may be broken
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await connection.close()


class _Events:
    """What one worker gets of the queue."""

    def __init__(self, queue: _Queue) -> None:
        self._queue = queue
        self.destination = Destination("rabbitmq", queue.name)
        self._most = 1
        self._channel: AbstractChannel | None = None
        self._tag = ""
        self._arrived: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()

    @property
    def extend_seconds(self) -> float:
        return _HOUR  # the server cannot be told

    async def receive(self, most: int) -> Sequence["_Delivery"]:
        """Return what has arrived; after some seconds without anything, look at the queue."""
        self._most = max(self._most, most)
        channel = await self._queue.channel()
        try:
            if channel is not self._channel:
                await self._start_consuming(channel)
            messages = await self._next_messages(most)
            if not messages:
                await self._check_queue(channel)
        except ChannelNotFoundEntity:
            self._queue.drop(channel)
            messages = []
            self._warn_of_deletion()
        except Exception:
            self._queue.drop(channel)
            raise
        return [_Delivery(self._queue, channel, message) for message in messages]

    async def _start_consuming(self, channel: AbstractChannel) -> None:
        # What has arrived by another channel comes again.
        arrived = self._arrived = asyncio.Queue()
        async with asyncio.timeout(_SECONDS):
            await channel.set_qos(prefetch_count=self._most)
            queue = await channel.get_queue(self._queue.name, ensure=False)
            self._tag = await queue.consume(arrived.put)
        self._channel = channel

    async def _next_messages(self, most: int) -> list[AbstractIncomingMessage]:
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                messages = [await self._arrived.get()]
        except TimeoutError:
            return []
        while len(messages) < most and not self._arrived.empty():
            messages.append(self._arrived.get_nowait())
        return messages

    async def _check_queue(self, channel: AbstractChannel) -> None:
        """Ask the server for the queue; consume it anew if it was deleted and made meanwhile."""
        async with asyncio.timeout(_SECONDS):
            queue = await channel.declare_queue(self._queue.name, passive=True)
            with suppress(DuplicateConsumerTag):  # it is consumed as before
                await queue.consume(self._arrived.put, consumer_tag=self._tag)
                self._warn_of_deletion()

    def _warn_of_deletion(self) -> None:
        message = "the queue was deleted, with the events in it: it is made again"
        _LOGGER.warning(message, extra={"queue": self._queue.name})

    async def aclose(self) -> None:
        """Close the connection: the server takes back what is not acknowledged."""
        await self._queue.aclose()


class _Delivery:
    """A message in the hands of a worker."""

    def __init__(
        self, queue: _Queue, channel: AbstractChannel, message: AbstractIncomingMessage
    ) -> None:
        self._queue = queue
        self._channel = channel
        self._message = message
        self.body: bytes = message.body
        self.headers = _texts_of(message.headers)
        self.attempt = (
            1
            + _read_count(message.headers, _ATTEMPTS)
            + _read_count(message.headers, "x-delivery-count")
        )

    async def acknowledge(self) -> None:
        await self._message.ack()

    async def give_back(self, seconds: float) -> None:
        if not seconds:
            await self._message.nack(requeue=True)
            return
        copy = self._copy_message({_ATTEMPTS: self.attempt})
        await self._queue.pause(self._channel, copy, seconds)
        await self.acknowledge()

    async def extend(self) -> None:
        """Do nothing: the server cannot be told."""

    async def bury(self, reason: DeadReason, error: str) -> None:
        letter = self._copy_message({"reason": reason, "error": error, "attempt": self.attempt})
        await self._queue.send(self._channel, self._queue.dead_letters, letter)
        await self.acknowledge()

    def _copy_message(self, headers: Mapping[str, Any]) -> Message:
        kept = {**self.headers, **headers}
        return _make_message(self.body, message_id=self._message.message_id, headers=kept)


def _make_message(
    body: bytes, *, message_id: str | None, headers: Mapping[str, Any] | None = None
) -> Message:
    return Message(
        body,
        headers=dict(headers or {}),
        content_type="application/json",
        delivery_mode=DeliveryMode.PERSISTENT,
        message_id=message_id,
    )


def _texts_of(headers: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of whoever has published a message, not those of the server."""
    return {
        name: value
        for name, value in headers.items()
        if isinstance(value, str) and not name.startswith(_SERVERS_HEADERS)
    }


def _read_count(headers: Mapping[str, Any], name: str) -> int:
    value = headers.get(name)
    return value if isinstance(value, int) else 0
