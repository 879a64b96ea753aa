"""Events on Redis streams, published and handled; needs the extra ``redis``.

An entry that was read stays pending until it is acknowledged. Redis keeps how often it was
delivered and since when nothing was heard of it; by these two a worker finds what others have
given back, or left when they died.
"""

import asyncio
import logging
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from income_client import ConfigurationError, IncomeClientError
from income_client.errors import leaving

from .redis_settings import await_answer, eviction_risk, loss_risk, read_settings
from .relay import UpdateEvent
from .tracing import Destination, EventSpan
from .worker import DeadReason, EventSource

_LOGGER: Final = logging.getLogger("income_client.worker")

_BODY: Final = b"__data__"
"""The field of an entry where FastStream has the message too."""
_CONSUMER: Final = "worker"
"""One name for all workers: an entry of a worker that died belongs to the others as well."""
_BLOCK_SECONDS: Final = 1.0
"""How long the server waits for new entries; then entries whose pause is over are looked for."""
_LENT_SECONDS: Final = 30.0
"""How long an entry of its first attempt may be silent before another worker gets it."""
_MOST_LENT_SECONDS: Final = 600.0
_PAGE: Final = 100
_MOST_PENDING: Final = 1_000
"""While so many are pending, in hand or in a pause, no new ones are read."""
_FASTSTREAM: Final = b"\x89BIN\r\n\x1a\n"
"""Begins a message that FastStream has put into an envelope with headers."""
_ENVELOPE: Final = struct.Struct(">8sHII")
"""Its mark, version, and where its headers and the message begin."""
_LENGTH: Final = struct.Struct(">H")
"""How many headers it has, and how long each name and value is."""


@leaving()
def redis_events(
    url: str,
    *,
    group: str,
    stream: str = "income.updates",
    dead_letters: str = "income.dead",
) -> EventSource:
    """Return where a `Worker` gets events: one group of consumers of a Redis stream.

    The group is made at the beginning of the stream, so that it gets what was published before
    it. Every worker removes entries that all groups of the stream have acknowledged: a group
    that is made later does not get them. Before it begins, the worker logs a warning for each
    setting by which the server may lose events.

    An event whose worker has died comes again after 30 seconds, then 60, 120 and so on up to ten
    minutes. If the stream is deleted, it is made again, with a warning in the log.

    Args:
        url: of the server, such as ``redis://127.0.0.1:6379/0`` or ``rediss://...``.
        group: workers with the same one share the events.
        stream: its key; the one that the relay publishes to.
        dead_letters: key of the stream of dead letters: entries with the fields of the event's
            entry, and ``reason``, ``error`` and ``attempt``. Nothing removes them.

    Returns:
        The source, for one worker. `Worker.run` raises `IncomeClientError` if the server may
        evict the stream (``maxmemory-policy``).

    Raises:
        ConfigurationError: ``url`` is not one of Redis.
    """
    return _Events(_Stream(url, stream), group, dead_letters)


@asynccontextmanager
async def redis_publisher(
    url: str, *, stream: str = "income.updates"
) -> AsyncIterator[Callable[[UpdateEvent], Awaitable[None]]]:
    """Connect to a server; give what `relay` publishes with, to a Redis stream.

    The stream drops nothing that comes twice. Before the first event is published, the settings
    of the server are looked at, as `redis_events` does.

    Args:
        url: as for `redis_events`.
        stream: its key.

    Yields:
        A function for `relay`, which returns once the server has the event. It raises
        `IncomeClientError` if the server may evict the stream.

    Raises:
        ConfigurationError: ``url`` is not one of Redis.
    """
    with leaving():
        target = _Stream(url, stream)
    try:
        yield target.publish
    finally:
        await target.redis.aclose()


class _Stream:
    """A stream of a server whose settings are looked at before it is used."""

    def __init__(self, url: str, key: str) -> None:
        try:
            # A timeout of the client's own would be a `wait_for`, which can swallow a cancellation.
            self.redis = Redis.from_url(url, protocol=2, socket_timeout=None)
        except ValueError:
            raise ConfigurationError(
                "url must be one of Redis, redis://HOST:PORT/0", argument="url"
            )
        self.key = key
        self._checking = asyncio.Lock()
        self._is_checked = False

    async def publish(self, event: UpdateEvent) -> None:
        headers: dict[str, str] = {}
        with leaving(), EventSpan("send", Destination("redis", self.key), headers):
            await self.check_server()
            fields: dict[Any, Any] = {**headers, _BODY: event.to_json()}
            await await_answer(self.redis.xadd(self.key, fields))

    async def check_server(self) -> None:
        """Refuse a server that may evict the stream; warn of one that may lose its end."""
        async with self._checking:  # of many events at a time, one asks
            if not self._is_checked:
                await self._check_settings()
                self._is_checked = True

    async def _check_settings(self) -> None:
        settings = await read_settings(self.redis)
        if policy := eviction_risk(settings):
            raise IncomeClientError(
                f"Redis deletes events when its memory is full (maxmemory-policy {policy}): "
                "set it to noeviction"
            )
        if loss := loss_risk(settings, "events"):
            message = "%s: set appendonly yes and appendfsync always"
            _LOGGER.warning(message, loss, extra={"stream": self.key})


class _Events:
    """What one worker gets of a group."""

    def __init__(self, stream: _Stream, group: str, dead_letters: str) -> None:
        self._stream = stream
        self._redis = stream.redis
        self._key = stream.key
        self._group = group
        self._dead_letters = dead_letters
        self.destination = Destination("redis", stream.key, group)
        self._is_made = False
        self._look_at = 0.0
        self._trimmed = (0, 0)

    @property
    def extend_seconds(self) -> float:
        return _LENT_SECONDS / 3

    async def receive(self, most: int) -> Sequence["_Entry"]:
        """Return entries that came back, or else new ones."""
        await self._stream.check_server()
        try:
            if not self._is_made:
                await self._create_group()
            return await self._come_back(most) or await self._read_new(most)
        except ResponseError as error:
            if not str(error).startswith(("NOGROUP", "UNBLOCKED", "no such key")):
                raise
        facts = {"stream": self._key, "group": self._group}
        _LOGGER.warning("the stream or its group was deleted: it is made again", extra=facts)
        self._is_made = False
        return ()

    async def _create_group(self) -> None:
        """Make the group where it is missing, at the beginning of the stream."""
        try:
            made = self._redis.xgroup_create(self._key, self._group, "0", mkstream=True)
            await await_answer(made)
        except ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise
        self._is_made = True
        self._trimmed = (0, 0)

    async def _come_back(self, most: int) -> list["_Entry"]:
        """Return what was given back or left by a worker that died, once its time has come."""
        now = asyncio.get_running_loop().time()
        if now < self._look_at:
            return []
        await self._trim_stream()
        found: list[_Entry] = []
        start = "-"
        while True:
            silent = self._redis.xpending_range(
                self._key, self._group, start, "+", _PAGE, idle=_to_milliseconds(_LENT_SECONDS)
            )
            page: Any = await await_answer(silent)
            for one in page:
                attempt, name = one["times_delivered"], one["message_id"]
                if one["time_since_delivered"] >= _to_milliseconds(_lease_seconds(attempt)):
                    found += await self._claim_entry(name, attempt)
                if len(found) == most:
                    return found
            if len(page) < _PAGE:
                break
            start = f"({page[-1]['message_id'].decode()}"
        if not found:
            self._look_at = now + _BLOCK_SECONDS
        return found

    async def _claim_entry(self, name: bytes, attempt: int) -> list["_Entry"]:
        """Take an entry, unless another worker has taken it meanwhile."""
        idle = _to_milliseconds(_lease_seconds(attempt))
        claimed: Any = await await_answer(
            self._redis.xclaim(self._key, self._group, _CONSUMER, idle, [name])
        )
        return [
            _Entry(self, name, fields, attempt + 1) for _, fields in claimed if fields is not None
        ]

    async def _read_new(self, most: int) -> list["_Entry"]:
        summary = await await_answer(self._redis.xpending(self._key, self._group))
        if summary["pending"] >= _MOST_PENDING:
            await asyncio.sleep(_BLOCK_SECONDS)
            return []
        block = _to_milliseconds(_BLOCK_SECONDS)
        read = self._redis.xreadgroup(
            self._group, _CONSUMER, {self._key: ">"}, count=most, block=block
        )
        found: Any = await await_answer(read)
        return [_Entry(self, name, fields, 1) for _, of in found for name, fields in of]

    async def _trim_stream(self) -> None:
        """Remove the entries that every group has acknowledged."""
        bounds = [bound async for bound in self._first_unacknowledged()]
        if bounds and min(bounds) > self._trimmed:
            self._trimmed = min(bounds)
            name = "{}-{}".format(*self._trimmed)
            await await_answer(self._redis.xtrim(self._key, minid=name, approximate=False))

    async def _first_unacknowledged(self) -> AsyncIterator[tuple[int, int]]:
        """Yield for each group where that begins which it has not acknowledged."""
        for group in await await_answer(self._redis.xinfo_groups(self._key)):
            time, number = _parse_entry_id(group["last-delivered-id"])
            # Asked after that: what is delivered from now on is behind it anyway.
            summary = await await_answer(self._redis.xpending(self._key, group["name"]))
            undelivered = (time, number + 1)
            yield (
                min(undelivered, _parse_entry_id(summary["min"])) if summary["min"] else undelivered
            )

    async def acknowledge(self, name: bytes) -> None:
        await await_answer(self._redis.xack(self._key, self._group, name))

    async def set_idle(self, name: bytes, seconds: float) -> None:
        """Have an entry count as silent since so many seconds; its attempts stay."""
        idle = _to_milliseconds(seconds)
        await await_answer(
            self._redis.xclaim(self._key, self._group, _CONSUMER, 0, [name], idle=idle, justid=True)
        )

    async def add_dead_letter(self, fields: dict[Any, Any]) -> None:
        await await_answer(self._redis.xadd(self._dead_letters, fields))

    async def aclose(self) -> None:
        await self._redis.aclose()


class _Entry:
    """An entry of the stream, in the hands of a worker."""

    def __init__(
        self, events: _Events, name: bytes, fields: Mapping[bytes, bytes], attempt: int
    ) -> None:
        self._events = events
        self._name = name
        self._fields = fields
        self.headers, self.body = _read_fields(fields)
        self.attempt = attempt

    async def acknowledge(self) -> None:
        await self._events.acknowledge(self._name)

    async def give_back(self, seconds: float) -> None:
        await self._events.set_idle(self._name, max(0.0, _lease_seconds(self.attempt) - seconds))

    async def extend(self) -> None:
        await self._events.set_idle(self._name, 0)

    async def bury(self, reason: DeadReason, error: str) -> None:
        why = {"reason": reason, "error": error, "attempt": self.attempt}
        await self._events.add_dead_letter({**self._fields, **why})
        await self.acknowledge()


def _lease_seconds(attempt: int) -> float:
    """Return the seconds after which a silent entry is another worker's: no pause is longer."""
    return min(_MOST_LENT_SECONDS, _LENT_SECONDS * 2.0 ** min(attempt - 1, 10))


def _to_milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _parse_entry_id(name: bytes) -> tuple[int, int]:
    time, _, number = name.partition(b"-")
    return int(time), int(number)


def _read_fields(fields: Mapping[bytes, bytes]) -> tuple[dict[str, str], bytes]:
    """Return the headers and the body of a message."""
    content = fields.get(_BODY, b"")
    if not content.startswith(_FASTSTREAM) or len(content) < _ENVELOPE.size:
        headers = {name: value for name, value in fields.items() if name != _BODY}
    else:
        *_, begin, start = _ENVELOPE.unpack_from(content)
        headers = _read_headers(content[begin + _LENGTH.size : start])
        content = content[start:]
    found = {name.decode(errors="replace"): value for name, value in headers.items()}
    return {name: value.decode(errors="replace") for name, value in found.items()}, content


def _read_headers(content: bytes) -> dict[bytes, bytes]:
    """Return the names and values of an envelope, each text after its length."""
    texts: list[bytes] = []
    while len(content) >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(content)
        texts.append(content[_LENGTH.size : _LENGTH.size + length])
        content = content[_LENGTH.size + length :]
    return dict(zip(texts[::2], texts[1::2], strict=False))
