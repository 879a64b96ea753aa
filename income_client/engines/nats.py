"""Checkpoints, tokens and events on NATS JetStream; needs the extra ``nats``.

Values are written by compare-and-set with the revision of their key, which the server judges, so
that no clock of any machine matters.
"""

import asyncio
import re
import time
import zlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final, TypeVar

import msgspec
from attrs import evolve
from nats.errors import ConnectionClosedError, MaxPayloadError, NoRespondersError
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import StorageType
from nats.js.errors import (
    APIError,
    BucketNotFoundError,
    KeyNotFoundError,
    KeyWrongLastSequenceError,
    NotFoundError,
)
from nats.js.kv import KeyValue

from income_client import (
    CheckpointError,
    ConfigurationError,
    DeadLetter,
    IncomeClientError,
    StoredCheckpoint,
    StoredToken,
    TokenStore,
)
from income_client.checkpoints.store import (
    Change,
    CompleteCheckpointStore,
    check_name,
    checked_keys,
    in_order,
    in_whole_seconds,
)
from income_client.settings import check_positive

from .relay import UpdateEvent

T = TypeVar("T")

_SECONDS: Final = 10.0
"""How long the server may take to answer."""
_TRIES: Final = 100
"""Writes of a value while others write the same key: saves and removals of dead letters."""
_CLOSED: Final = (
    "the connection is closed for good: make a new one, max_reconnect_attempts=-1 keeps it"
)
_PLAIN_BYTES: Final = 64 * 1024
"""Larger values are compressed: a server takes a megabyte by default."""
_NOT_OF_A_KEY: Final = re.compile(rb"[^A-Za-z0-9_-]")


class _Value(msgspec.Struct):
    version: int
    checkpoint: str
    dead_letters: list[DeadLetter]


class _Token(msgspec.Struct):
    access_token: str = ""
    expires_at: datetime | None = None
    lifetime: float = 0.0
    claims: int = 0
    """How often its renewal was claimed since it was saved."""


class NatsCheckpointStore(CompleteCheckpointStore):
    """Keep checkpoints in a key-value bucket of NATS JetStream; see `CheckpointStore`.

    Each name is a key, which holds the checkpoint and the dead letters. Make the bucket with
    file storage, without a time to live, and with ``direct=False``, since followers answer
    direct reads with what may be old; three replicas survive the loss of one server. A server
    alone writes to its disk every two minutes unless ``sync_interval: always`` is set: a power
    failure then undoes the last saves, and their batches are delivered again.

    Args:
        kv: the bucket, as ``await js.key_value("income")`` returns it. Its connection stays the
            caller's.
    """

    def __init__(self, kv: KeyValue) -> None:
        self._kv = kv
        self._is_checked = False

    async def load(self, name: str) -> StoredCheckpoint:  # noqa: D102 - as the protocol says
        check_name(name)
        _, value = await _answered(self._load(name))
        return _stored(value)

    async def save(  # noqa: D102 - as the protocol says
        self,
        name: str,
        checkpoint: str,
        *,
        version: int,
        dead_letters: Sequence[DeadLetter] = (),
        resolved: Sequence[str] = (),
        replaces: str | None = None,
    ) -> int:
        change = Change(name, checkpoint, version, dead_letters, resolved, replaces)
        del checkpoint, replaces  # no frame of an error shows them
        change.check()
        return await _answered(self._save(change))

    async def dead_letters(self, name: str) -> tuple[DeadLetter, ...]:  # noqa: D102 - likewise
        check_name(name)
        _, value = await _answered(self._load(name))
        return in_order(value.dead_letters)

    async def forget(  # noqa: D102 - likewise
        self, name: str, keys: Iterable[str]
    ) -> tuple[str, ...]:
        check_name(name)
        return await _answered(self._forget(name, checked_keys(keys)))

    async def _load(self, name: str) -> tuple[int, _Value]:
        if not self._is_checked:
            await self._check()
        try:
            entry = await self._kv.get(_key_of(name))
        except KeyNotFoundError:
            await self._check()  # a bucket that is gone has no keys either
            return 0, _Value(0, "", [])
        return entry.revision or 0, _read(entry.value or b"")

    async def _save(self, change: Change) -> int:
        for _ in range(_TRIES):
            revision, value = await self._load(change.name)
            if not change.follows(_stored(value)):
                raise change.conflict(value.version)
            letters = {letter.key: letter for letter in value.dead_letters}
            for key in change.resolved:
                letters.pop(key, None)
            letters |= {letter.key: in_whole_seconds(letter) for letter in change.dead_letters}
            new = _Value(change.version + 1, change.checkpoint, [*letters.values()])
            if await self._has_replaced(change.name, revision, new):
                return new.version
        raise _contended()

    async def _forget(self, name: str, keys: Sequence[str]) -> tuple[str, ...]:
        for _ in range(_TRIES):
            revision, value = await self._load(name)
            letters = {letter.key: letter for letter in value.dead_letters}
            removed = tuple(key for key in keys if letters.pop(key, None) is not None)
            new = _Value(value.version, value.checkpoint, [*letters.values()])
            if not removed or await self._has_replaced(name, revision, new):
                return removed
        raise _contended()

    async def _has_replaced(self, name: str, revision: int, new: _Value) -> bool:
        """Write a value over this revision; return False if the key has another one by now."""
        key, content = _key_of(name), _written(new)
        try:
            if revision:
                await self._kv.update(key, content, last=revision)
            else:
                await self._kv.create(key, content)
        except KeyWrongLastSequenceError:
            return False
        return True

    async def _check(self) -> None:
        """Refuse a bucket that would lose a checkpoint, or answer with an old one."""
        config = (await self._kv.status()).stream_info.config
        if config.max_age:
            raise CheckpointError(f"the bucket forgets its keys after {config.max_age:g} seconds")
        if config.storage == StorageType.MEMORY:
            raise CheckpointError("the bucket is kept in memory: make one with file storage")
        if config.allow_direct and (config.num_replicas or 1) > 1:
            raise CheckpointError("the bucket has direct reads, which may be old: turn them off")
        self._is_checked = True


class NatsTokenStore(TokenStore):
    """Share one token between processes through a key-value bucket of NATS JetStream.

    Of many processes one renews it, and the others wait for that. The token is in the bucket
    as plain text: who may read the bucket's stream (subjects ``$KV.BUCKET.>``) has it.

    Args:
        kv: the bucket; one with a time to live, and in memory, will do.
        key: of the token, one for each pair of service and credentials.

    Raises:
        ConfigurationError: ``key`` has characters that no key has.
    """

    def __init__(self, kv: KeyValue, key: str = "token") -> None:
        if not key or _NOT_OF_A_KEY.search(key.encode()):
            raise ConfigurationError("key must be letters, digits, - and _")
        self._kv = kv
        self._key = key
        self._seen = 0
        self._seen_at = 0.0
        self._claimed = 0

    async def load(self) -> StoredToken | None:  # noqa: D102 - as the protocol says
        _, token = await _answered(self._load())
        if token.expires_at is None:
            return None
        return StoredToken(
            access_token=token.access_token, expires_at=token.expires_at, lifetime=token.lifetime
        )

    async def save(self, token: StoredToken) -> None:  # noqa: D102 - as the protocol says
        claimed, self._claimed = self._claimed, 0
        await _answered(self._save(token, claimed))

    async def claim(self, seconds: float) -> bool:
        """Return whether this process is to renew the token, as `TokenStore` says.

        Args:
            seconds: after which a claim that was followed by no token counts no more; by the
                clock of this process, from when it has seen the claim.

        Returns:
            Whether it is.

        Raises:
            CheckpointError: the bucket cannot be used.
            ConfigurationError: ``seconds`` is not a positive number.
        """
        check_positive("seconds", seconds)
        return await _answered(self._claim(seconds))

    async def _load(self) -> tuple[int, _Token]:
        try:
            entry = await self._kv.get(self._key)
        except KeyNotFoundError:
            return 0, _Token()
        try:
            return entry.revision or 0, msgspec.json.decode(entry.value or b"", type=_Token)
        except ValueError:
            raise CheckpointError("the bucket's key holds no token") from None

    async def _save(self, token: StoredToken, claimed: int) -> None:
        new = _Token(token.access_token.reveal(), token.expires_at, token.lifetime)
        content = msgspec.json.encode(new)
        if not claimed:
            await self._kv.put(self._key, content)
            return
        with suppress(KeyWrongLastSequenceError):
            await self._kv.update(self._key, content, last=claimed)
            return
        # Another process has claimed it since then, and may have saved a newer one.
        revision, stored = await self._load()
        is_newer = stored.expires_at is None or stored.expires_at < token.expires_at
        if is_newer and revision:
            with suppress(KeyWrongLastSequenceError):
                await self._kv.update(self._key, content, last=revision)

    async def _claim(self, seconds: float) -> bool:
        revision, token = await self._load()
        now = time.monotonic()
        if revision != self._seen:
            self._seen, self._seen_at = revision, now
        is_of_others = token.claims and revision != self._claimed
        if is_of_others and now - self._seen_at < seconds:
            return False
        content = msgspec.json.encode(msgspec.structs.replace(token, claims=token.claims + 1))
        try:
            if revision:
                self._claimed = await self._kv.update(self._key, content, last=revision)
            else:
                self._claimed = await self._kv.create(self._key, content)
        except KeyWrongLastSequenceError:
            return False
        return True


def nats_publisher(
    js: JetStreamContext, subject: str = "income.updates"
) -> Callable[[UpdateEvent], Awaitable[None]]:
    """Return what `relay` publishes with, to a stream of NATS JetStream.

    The event's id is the message id, by which the stream drops what comes twice within its
    ``duplicate_window`` (two minutes unless it is set). A record that is larger than the
    server takes is published as a reference: its worker reads it from the service.

    Args:
        js: ``connection.jetstream()``, whose timeout is how long an acknowledgement may take.
        subject: of the messages; a stream must have it.

    Returns:
        A function for `relay`, which returns once the stream has acknowledged the message; it
        raises `IncomeClientError` once the connection is closed for good.
    """

    async def send(event: UpdateEvent) -> None:
        headers = {"Nats-Msg-Id": event.id, "content-type": "application/json"}
        try:
            await js.publish(subject, event.to_json(), headers=headers)
        except ConnectionClosedError:
            raise IncomeClientError(f"NATS: {_CLOSED}") from None
        except (AttributeError, LookupError, TypeError, ValueError):
            # A subscriber of the subject has replied in place of a stream.
            raise NatsError("the reply is not an acknowledgement") from None

    async def publish(event: UpdateEvent) -> None:
        try:
            await send(event)
        except MaxPayloadError:
            await send(evolve(event, record=None))

    return publish


async def _answered(work: Awaitable[T]) -> T:
    """Return what the server answers; raise what fails as an error without its text."""
    try:
        async with asyncio.timeout(_SECONDS):
            return await work
    except CheckpointError as error:
        failure = error.again()
    except (NatsError, TimeoutError, OSError) as error:
        failure = _failure(error)
    raise failure


def _contended() -> CheckpointError:
    return CheckpointError("NATS bucket: others write the key all the time", retryable=True)


def _failure(error: Exception) -> CheckpointError:
    retryable = True
    match error:
        case ConnectionClosedError():
            reason, retryable = _CLOSED, False
        case BucketNotFoundError():
            reason, retryable = "the bucket does not exist", False
        case NoRespondersError() | NotFoundError() | APIError(err_code=None):
            reason = "the bucket is gone, or JetStream is not running"
        case MaxPayloadError():
            reason, retryable = "a value is larger than the server's max_payload", False
        case TimeoutError():
            reason = "no answer: not reachable, or the user has no rights on the bucket"
        case APIError():
            reason = f"the server refused it (error {error.err_code})"
        case _:
            reason = type(error).__name__
    return CheckpointError(f"NATS bucket: {reason}", retryable=retryable)


def _key_of(name: str) -> str:
    return "checkpoint." + _NOT_OF_A_KEY.sub(_escaped, name.encode()).decode()


def _escaped(found: "re.Match[bytes]") -> bytes:
    return b"=%02X" % found[0][0]


def _stored(value: _Value) -> StoredCheckpoint:
    text = value.checkpoint if value.version else None
    return StoredCheckpoint(checkpoint=text, version=value.version)


def _written(value: _Value) -> bytes:
    content = msgspec.json.encode(value)
    return content if len(content) <= _PLAIN_BYTES else zlib.compress(content)


def _read(content: bytes) -> _Value:
    try:
        plain = content if content.startswith(b"{") else zlib.decompress(content)
        return msgspec.json.decode(plain, type=_Value)
    except (ValueError, zlib.error):
        raise CheckpointError("the bucket's key holds no checkpoint of this package") from None
