"""Publish an event for each update that a poller delivers, to a broker of the user's choice.

Workers handle the events by `income_client.engines.faststream.update_subscriber` on NATS
JetStream, or by any consumer that reads them with `UpdateEvent.from_json`.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, Final, Literal, Protocol, Self, TypeAlias, get_args

import msgspec
from attrs import field, frozen

from income_client import (
    ApplicationRecord,
    CheckpointConflictError,
    ConfigurationError,
    DecodeError,
    IncomeClientError,
    Poller,
    from_json,
    to_json,
)
from income_client.errors import PayloadFault
from income_client.http.endpoints import check_application_id
from income_client.polling.foreign_store import is_mistake
from income_client.polling.reading import updated_at
from income_client.settings import check_choice, check_count, invalid
from income_client.system.frames import replace_errors, strip_frames
from income_client.system.logs import GuardedLogger
from income_client.system.texts import printable

Payload: TypeAlias = Literal["reference", "record"]
"""Content of an event: the id of the application alone, or the record that was read as well."""

HEADER_BYTES: Final = 1_000
"""Room for the headers of a message of NATS, which counts them as a part of it."""

_LOGGER: Final = GuardedLogger("income_client.relay")


class _Unpublished(Exception):  # noqa: N818 - it never leaves this module
    """The broker did not take an event, and may take it later."""


_LONGEST_REFUSAL: Final = 200
"""Characters of a server's sentence that are shown."""
_LONGEST_ID: Final = 256
"""Characters of an event's id: workers keep thousands of ids, to recognize what comes twice."""
_NO_RECORD: Final = msgspec.Raw()  # this object, and no other, is left out


class _Message(msgspec.Struct, omit_defaults=True):
    id: str
    application_id: str
    updated_at: datetime
    sequence: int | None = None
    record: msgspec.Raw = _NO_RECORD


@frozen(kw_only=True)
class UpdateEvent:
    """An update of an application, as it is published to workers."""

    id: str
    """Id of this delivery: use it as the message id, by which a broker drops repeated events."""
    application_id: str
    """Id of the application that was updated."""
    updated_at: datetime
    """Update time of the record, in UTC; it does not tell which of two records is newer."""
    sequence: int | None = None
    """Grows with each batch of the relay, over takeovers as well: of two events with a record of
    one application, keep the one with the greater number. A name that begins anew in an empty
    store begins with small ones. None in messages of earlier versions, and in events that no
    relay has made."""
    record: ApplicationRecord | None = field(default=None, repr=False)
    """The application and its documents, with personal data; None in a reference."""

    def to_json(self) -> bytes:
        """Return the event as the JSON of a message.

        Returns:
            An object with the members ``id``, ``application_id``, ``updated_at``, ``sequence``
            if it has one, and, unless it is a reference, ``record``, which is what
            `income_client.to_json` writes.
        """
        record = _NO_RECORD if self.record is None else msgspec.Raw(to_json(self.record))
        message = _Message(self.id, self.application_id, self.updated_at, self.sequence, record)
        return msgspec.json.encode(message)

    @classmethod
    @strip_frames
    def from_json(cls, text: bytes | str) -> Self:
        """Read a message that `to_json` has written.

        Args:
            text: the body of the message.

        Returns:
            The event.

        Raises:
            ConfigurationError: ``text`` is not bytes or a str.
            DecodeError: this is not such a message. It cannot be read by a retry either: reject
                it, or move it to the broker's dead letters.
        """
        if not isinstance(text, bytes | str):
            raise invalid("text", "bytes or a str", text)
        return cls._parse_message(text)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> dict[str, Any]:
        """Let Pydantic read the decoded JSON of a message, as FastStream needs it."""
        validate = {"type": "no-info", "function": cls._validate_event}
        return {"type": "function-plain", "function": validate}

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: object, _handler: object) -> dict[str, Any]:
        """Describe a message where Pydantic describes a handler."""
        text, when = {"type": "string"}, {"type": "string", "format": "date-time"}
        members = {"id": text, "application_id": text, "updated_at": when}
        properties = {**members, "record": {"type": "object"}}
        return {"type": "object", "properties": properties, "required": [*members]}

    @classmethod
    def _validate_event(cls, value: object) -> Self:
        if isinstance(value, cls):
            return value
        if not isinstance(value, dict) or "record" in value:
            # No ValueError: Pydantic would replace one by its own error, which shows the record.
            raise ConfigurationError(
                "event must be a message without a record: use faststream_decoder", argument="event"
            )
        return cls.from_json(msgspec.json.encode(value))

    @classmethod
    def _parse_message(cls, text: bytes | str) -> Self:
        try:
            message = msgspec.json.decode(text, type=_Message)
            is_aware = message.updated_at.tzinfo is not None
            updated_at = message.updated_at.astimezone(UTC)
            check_application_id(message.application_id)
            is_event = is_aware and 1 <= len(message.id) <= _LONGEST_ID
        except (ConfigurationError, OverflowError, RecursionError, ValueError):
            is_event = False
        if not is_event:
            raise DecodeError((PayloadFault("$", "not an event of a relay"),))
        content = bytes(message.record)
        record = from_json(ApplicationRecord, content) if content else None
        if record is not None and record.application_id != message.application_id:
            raise DecodeError((PayloadFault("$.record", "about another application"),))
        return cls(
            id=message.id,
            application_id=message.application_id,
            updated_at=updated_at,
            sequence=message.sequence,
            record=record,
        )


class Message(Protocol):
    """A message of FastStream."""

    @property
    def body(self) -> Any:
        """The published text."""
        ...


async def faststream_decoder(message: Message) -> UpdateEvent:
    """Decode a message for a subscriber of FastStream whose argument is an `UpdateEvent`.

    Without it such an argument is made of what FastStream has decoded, for references only: the
    amounts of a record would have been read as floats by then.

    Args:
        message: of any of FastStream's brokers.

    Returns:
        The event.

    Raises:
        DecodeError: this is not such a message.
    """
    return UpdateEvent.from_json(message.body)


class Publisher(Protocol):
    """A publisher of FastStream, as ``broker.publisher(...)`` returns it."""

    @property
    def publish(self) -> Callable[..., Awaitable[Any]]:
        """Publish a message, and return once the broker has it."""
        ...


def faststream_publisher(publisher: Publisher) -> Callable[[UpdateEvent], Awaitable[None]]:
    """Return a function that publishes events for `relay` through a broker of FastStream.

    Give it a publisher whose broker confirms what it has stored: for Kafka and RabbitMQ that
    is FastStream's default, for NATS and Redis name a ``stream``. For NATS,
    ``JStream(name, declare=False)`` keeps the settings of a stream that exists, and
    ``NatsBroker(url, max_reconnect_attempts=-1, ping_interval=10)`` keeps the connection: without
    it, NATS gives up after two minutes. A stream that deletes events is not refused here, as
    `nats_publisher` does it. The event's id is the correlation id, and the header by which
    JetStream drops what comes twice.

    Args:
        publisher: ``broker.publisher("updates")``, of any of FastStream's brokers; the broker
            must be started.

    Returns:
        A function for `relay`; it raises `IncomeClientError` once the connection of a
        ``NatsBroker`` is closed for good.
    """

    async def publish(event: UpdateEvent) -> None:
        headers = {"Nats-Msg-Id": event.id, "content-type": "application/json"}
        confirmation = await replace_errors(
            lambda: publisher.publish(event.to_json(), correlation_id=event.id, headers=headers),
            _publishing_error,
        )
        # What RabbitMQ has handed back, it confirms as well.
        if getattr(confirmation, "delivery", None) is not None:
            raise IncomeClientError("no queue has taken the event: make it", retryable=True)

    return publish


def _publishing_error(error: Exception) -> IncomeClientError | None:
    if _is_closed_for_good(error):
        return IncomeClientError(
            "NATS: the broker's connection is closed for good: start this process again; "
            "NatsBroker(..., max_reconnect_attempts=-1) keeps its connection"
        )
    if is_mistake(error):
        return None
    return IncomeClientError(f"the broker failed: {describe_failure(error)}", retryable=True)


def _is_closed_for_good(error: Exception) -> bool:
    # Only a process that has loaded it can have such an error.
    nats = sys.modules.get("nats.errors")
    return nats is not None and isinstance(error, nats.ConnectionClosedError)


def describe_failure(error: BaseException) -> str:
    """Return why a broker failed: the sentence and the code of JetStream, or the error's class."""
    nats = sys.modules.get("nats.js.errors")
    if nats is None or not isinstance(error, nats.APIError) or error.err_code is None:
        return type(error).__name__
    sentence = printable(error.description or type(error).__name__)
    return f"{sentence[:_LONGEST_REFUSAL]} (error {error.err_code})"


Publish = Callable[[UpdateEvent], Awaitable[object]]
"""A function that publishes an event, and returns once the broker has stored it."""


async def relay(
    poller: Poller,
    publish: Publish,
    *,
    payload: Payload = "reference",
    concurrency: int = 100,
    attempts: int | None = None,
) -> None:
    """Publish an event for each update that a poller delivers, until the poller ends.

    A batch is committed once ``publish`` has returned for all of it: nothing is lost, and
    after a failure or a crash some events come twice, with the same id if the batch is the
    same. If ``publish`` fails, the batch is published again, after a pause that grows to a
    minute; the failure is logged. With ``standby``, a poller that was replaced waits for its
    turn and continues. One that was paused may publish the records in its hands after its
    successor's: `UpdateEvent.sequence` says which are newer.

    Args:
        poller: what ``client.poll`` returned; ``documents=False`` saves half of the requests
            where workers read the record themselves.
        publish: awaited with each `UpdateEvent`; it must return only once the broker has
            stored the message. See `nats_publisher` and `faststream_publisher`.
        payload: ``"reference"`` for events without personal data, ``"record"`` to include what
            was read.
        concurrency: most events published at a time.
        attempts: how often a batch is published at most, for a job that must end; without a
            limit unless it is set.

    Raises:
        AuthenticationError: as the poller's iteration.
        CheckpointConflictError: another poller has taken over the name, without ``standby``.
        CheckpointError: the store cannot be used.
        ConfigurationError: an argument is invalid.
        IncomeClientError: ``publish`` cannot succeed any more, or has failed ``attempts`` times;
            the checkpoint is before that batch.
    """
    check_choice("payload", payload, get_args(Payload))
    slots = asyncio.Semaphore(check_count("concurrency", concurrency))

    most = None if attempts is None else check_count("attempts", attempts)
    failures = 0

    async def send(event: UpdateEvent) -> None:
        async with slots:
            try:
                await publish(event)
            except asyncio.CancelledError:
                # Brokers cancel what still waits for its confirmation when a connection ends.
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                raise _Unpublished("CancelledError") from None
            except Exception as error:
                if is_mistake(error) or _is_final(error):
                    raise
                # Texts of the package's own errors hold no secrets; those of a broker's client may.
                own = isinstance(error, IncomeClientError)
                raise _Unpublished(str(error) if own else describe_failure(error)) from None

    async with aclosing(poller.batches()) as batches:
        async for batch in batches:
            records = zip(batch, batch.delivery_ids, strict=True)
            try:
                async with batch:
                    await _run_together(
                        send(_make_event(*item, batch.sequence, payload)) for item in records
                    )
                failures = 0
            except CheckpointConflictError:
                continue  # the poller waits for its turn, or ends
            except _Unpublished as failure:
                failures += 1
                text = f"events were not published in {failures} attempts ({failure}); "
                if failures == most:
                    break
                facts = {"error": str(failure), "events": len(batch)}
                _LOGGER.warning(
                    "events were not published (%s); they are tried again", failure, extra=facts
                )
        else:
            return
    # Not in the block above: the broker's error would become its context.
    raise IncomeClientError(text + "the checkpoint is before them")


def _is_final(error: Exception) -> bool:
    return isinstance(error, IncomeClientError) and not error.retryable


def _make_event(
    record: ApplicationRecord, delivery_id: str, sequence: int, payload: Payload
) -> UpdateEvent:
    return UpdateEvent(
        id=delivery_id,
        application_id=record.application_id,
        updated_at=updated_at(record),
        sequence=sequence,
        record=record if payload == "record" else None,
    )


async def _run_together(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run coroutines at the same time; after a failure, cancel the others and raise it."""
    # A task group of Python 3.11 would raise a failure in place of its own cancellation.
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        failures = [task.exception() for task in tasks if not task.cancelled()]
    for failure in failures:
        if failure is not None:
            raise failure
