"""Checkpoints, tokens and events on NATS JetStream; needs the extra ``nats``.

Values are written by compare-and-set with the revision of their key, which the server judges, so
that no clock of any machine matters.
"""

import asyncio
import re
import time
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final, TypeVar
from urllib.parse import unquote

import msgspec
from attrs import evolve, frozen
from nats.errors import ConnectionClosedError, MaxPayloadError, NoRespondersError
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import StorageType
from nats.js.errors import (
    APIError,
    BucketNotFoundError,
    KeyNotFoundError,
    KeyWrongLastSequenceError,
    NoStreamResponseError,
    NotFoundError,
)
from nats.js.kv import KeyValue

from income_client import (
    CheckpointError,
    CheckpointStore,
    DeadLetter,
    IncomeClientError,
    InvalidArgumentError,
    StoredCheckpoint,
    StoredToken,
    TokenStore,
)
from income_client.checkpoints.store import (
    Change,
    check_name,
    checked_keys,
    in_order,
    in_whole_seconds,
)
from income_client.settings import check_positive
from income_client.system.frames import replace_errors

from .nats_streams import StreamCheck, deletes_when_full
from .relay import HEADER_BYTES, UpdateEvent, describe_failure

S = TypeVar("S")
T = TypeVar("T")

_SECONDS: Final = 10.0
"""Seconds that the server may take to answer."""
_TRIES: Final = 100
"""Writes of a value while others write the same key: saves and removals of dead letters."""
_LETTER_KEYS: Final = 256
"""Keys for the dead letters of a name, by a hash. A message of a megabyte holds some thousands of
them, so that all keys together hold far more than a poller can keep in memory."""
_AT_ONCE: Final = 16
_CLOSED: Final = (
    "the connection is closed for good: make a new one, max_reconnect_attempts=-1 keeps it"
)
_PLAIN_BYTES: Final = 4 * 1024
"""Larger values are compressed: a server takes a megabyte by default, or less."""
_NOT_OF_A_KEY: Final = re.compile(rb"[^A-Za-z0-9_-]")
_Edit = Callable[[DeadLetter], DeadLetter | None]
"""Function that returns what replaces a dead letter; None to remove it."""


class _Value(msgspec.Struct):
    version: int
    checkpoint: str
    dead_letters: list[DeadLetter]
    """Dead letters that older versions stored in this value; the next save moves them out."""


@frozen
class _Replaced:
    """A key of dead letters that was written, and what it held before."""

    key: str
    revision: int
    before: Sequence[DeadLetter]


class _Token(msgspec.Struct):
    access_token: str = ""
    expires_at: datetime | None = None
    lifetime: float = 0.0
    claims: int = 0
    """Number of times that the token's renewal was claimed since it was saved."""


class NatsCheckpointStore(CheckpointStore):
    """Keep checkpoints in a key-value bucket of NATS JetStream; see `CheckpointStore`.

    Each name is a key, which holds the checkpoint; its dead letters are in up to 256 others, so
    that no number of them is too large for a message. A save stores new dead letters first, then
    the checkpoint, and removes resolved ones last: a crash between may leave one that is
    resolved already, which the next poller of the name finds out. ``forget`` removes one
    after the other.

    Make the bucket with file storage and without a time to live; three replicas survive the
    loss of one server. It is read through its leader, also where it allows direct reads, which
    may be old. A server alone writes to its disk every two minutes unless ``sync_interval:
    always`` is set: a power failure then undoes the last saves, and their batches are delivered
    again.

    Args:
        kv: the bucket, as ``await js.key_value("income")`` returns it. Its connection stays the
            caller's.
    """

    is_of_event_loop = True
    has_bell = True

    def __init__(self, kv: KeyValue) -> None:
        self._kv = kv
        self._is_checked = False

    async def load(self, name: str) -> StoredCheckpoint:  # noqa: D102 - as the base class says
        check_name(name)
        _, value = await _await_answer(self._load_value(name))
        return _to_stored(value)

    async def save(  # noqa: D102 - as the base class says
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
        change.check_arguments()
        return await _await_answer(self._save_change(change))

    async def dead_letters(self, name: str) -> tuple[DeadLetter, ...]:  # noqa: D102 - likewise
        check_name(name)
        return in_order(await _await_answer(self._load_letters(name)))

    async def forget(  # noqa: D102 - likewise
        self, name: str, keys: Iterable[str]
    ) -> tuple[str, ...]:
        check_name(name)
        return await _await_answer(self._edit_letters(name, checked_keys(keys), _removed))

    async def retry(  # noqa: D102 - likewise
        self, name: str, keys: Iterable[str]
    ) -> tuple[str, ...]:
        check_name(name)
        return await _await_answer(self._edit_letters(name, checked_keys(keys), _made_due))

    async def names(self) -> tuple[str, ...]:  # noqa: D102 - likewise
        return await _await_answer(self._load_names())

    async def ring(self, name: str) -> bool:  # noqa: D102 - likewise
        check_name(name)
        await _await_answer(_in_time(self._kv.put(_rings_key_of(name), b"")))
        _, content = await _await_answer(self._read_key(_key_of(name)))
        return bool(content)

    async def count_rings(self, name: str) -> int:  # noqa: D102 - likewise
        check_name(name)
        revision, _ = await _await_answer(self._read_key(_rings_key_of(name)))
        return revision

    async def _load_value(self, name: str) -> tuple[int, _Value]:
        if not self._is_checked:
            await self._check_bucket()
        revision, content = await self._read_key(_key_of(name))
        if not content:
            await self._check_bucket()  # a bucket that is gone has no keys either
            return revision, _Value(0, "", [])
        return revision, _decode_value(content, _Value)

    async def _load_letters(self, name: str) -> Iterable[DeadLetter]:
        _, value = await self._load_value(name)
        keys = await self._find_keys(f"{_letters_key_of(name)}.*")
        letters: dict[str, DeadLetter] = {}
        for revision, letters_of_key in await _map_in_batches(self._letters_of, keys):
            if not revision:
                raise NotFoundError  # it was there a moment ago, and is never removed
            letters |= _by_key(letters_of_key)
        return (letters | _by_key(value.dead_letters)).values()

    async def _load_names(self) -> tuple[str, ...]:
        await self._check_bucket()
        keys = await self._find_keys(_key_of("") + "*")
        names = [_name_of(key) for key in keys]
        values = await _map_in_batches(self._load_value, names)
        # A key that was deleted is found as well, and has no value.
        found = [
            name
            for name, (_, value) in zip(names, values, strict=True)
            if _to_stored(value).version
        ]
        return tuple(sorted(found))

    async def _find_keys(self, pattern: str) -> list[str]:
        """Return the keys that match a pattern, from the leader."""
        kv = self._kv
        info = await _in_time(
            kv._js.stream_info(  # noqa: SLF001 - the bucket itself has no such question
                kv._stream,  # noqa: SLF001
                subjects_filter=kv._pre + pattern,  # noqa: SLF001
            )
        )
        return [subject.removeprefix(kv._pre) for subject in info.state.subjects or {}]  # noqa: SLF001

    async def _save_change(self, change: Change) -> int:
        """Save key by key, in an order that neither a crash nor a successor can spoil.

        Dead letters come first, so that no checkpoint passes one that is not stored; then the
        checkpoint, which is the write that decides; then what is resolved is removed. A saver
        that dies in between leaves a letter too many, which is tried once more and resolved.

        One that was replaced must not touch what its successor has stored. So it writes letters
        only over the revision that their key had while the checkpoint was still its own: what a
        successor writes there comes later. Letters that it has written all the same, before its
        checkpoint is refused, are taken back in the same way. Their applications are not lost
        by that: the successor's checkpoint is before them, so that it lists them itself.
        """
        name = change.name
        new = {letter.key: in_whole_seconds(letter) for letter in change.dead_letters}
        resolved = [key for key in change.resolved if key not in new]
        for _ in range(_TRIES):
            revision, value = await self._load_value(name)
            if not change.follows(_to_stored(value)):
                raise change.conflict_error(value.version)
            put = _by_key(value.dead_letters) | new
            replaced = await self._change_letters(name, put, (), revision)
            if replaced is None:
                continue
            content = _encode_value(_Value(change.version + 1, change.checkpoint, []))
            saved = await self._replace_key(_key_of(name), content, revision)
            if not saved:
                await self._take_back(replaced)
                continue
            await self._change_letters(name, {}, resolved, saved)
            return change.version + 1
        raise _contention_error()

    async def _edit_letters(self, name: str, keys: Sequence[str], edit: _Edit) -> tuple[str, ...]:
        """Change or remove stored dead letters; return the keys of those that were there."""

        async def edit_checkpoint() -> set[str]:
            for _ in range(_TRIES):
                revision, value = await self._load_value(name)
                found, rest = _edited(value.dead_letters, keys, edit)
                content = _encode_value(_Value(value.version, value.checkpoint, rest))
                if not found or await self._replace_key(_key_of(name), content, revision):
                    return found
            raise _contention_error()

        async def edit_key(place: str) -> set[str]:
            for _ in range(_TRIES):
                revision, letters = await self._letters_of(place)
                found, rest = _edited(letters, keys, edit)
                if not found or await self._replace_key(place, _encode_value(rest), revision):
                    return found
            raise _contention_error()

        changed = await edit_checkpoint()
        places = {_letters_key_of(name, key): None for key in keys}
        for found in await _map_in_batches(edit_key, list(places)):
            changed |= found
        return tuple(key for key in keys if key in changed)

    async def _change_letters(
        self,
        name: str,
        put: Mapping[str, DeadLetter],
        remove: Iterable[str],
        checkpoint: int | None,
    ) -> list[_Replaced] | None:
        """Change dead letters while the checkpoint is at this revision; return what was replaced.

        If it is at another one by now, nothing is changed, and None returned.
        """
        pending: dict[str, tuple[dict[str, DeadLetter], set[str]]] = {}
        for key, letter in put.items():
            pending.setdefault(_letters_key_of(name, key), ({}, set()))[0][key] = letter
        for key in remove:
            pending.setdefault(_letters_key_of(name, key), ({}, set()))[1].add(key)
        replaced: list[_Replaced] = []

        async def change(entry: tuple[str, int, list[DeadLetter]]) -> None:
            place, revision, before = entry
            new, old = pending[place]
            letters = _by_key(before)
            after = {key: one for key, one in letters.items() if key not in old} | new
            # What is put is written in any case, so that its key has another revision.
            is_changed = bool(new) or len(after) < len(letters)
            if is_changed:
                written = await self._replace_key(place, _encode_value([*after.values()]), revision)
                if not written:
                    return
                replaced.append(_Replaced(place, written, before))
            del pending[place]

        for _ in range(_TRIES):
            if not pending:
                return replaced
            places = list(pending)
            entries = await _map_in_batches(self._letters_of, places)
            if checkpoint is not None and (await self._load_value(name))[0] != checkpoint:
                await self._take_back(replaced)
                return None
            await _map_in_batches(
                change, [(key, *one) for key, one in zip(places, entries, strict=True)]
            )
        raise _contention_error()

    async def _take_back(self, replaced: Sequence[_Replaced]) -> None:
        """Give keys of dead letters their contents back, unless others have written them since."""

        async def restore(one: _Replaced) -> None:
            await self._replace_key(one.key, _encode_value(one.before), one.revision)

        await _map_in_batches(restore, replaced)

    async def _letters_of(self, key: str) -> tuple[int, list[DeadLetter]]:
        revision, content = await self._read_key(key)
        return revision, _decode_value(content, list[DeadLetter]) if content else []

    async def _read_key(self, key: str) -> tuple[int, bytes]:
        """Return the revision and the value of a key from the leader; 0 if it has none."""
        kv = self._kv
        subject = kv._pre + key  # noqa: SLF001 - its own way to read may ask a follower
        reading = kv._js.get_msg(kv._stream, subject=subject, direct=False)  # noqa: SLF001
        try:
            message = await _in_time(reading)
        except NotFoundError:
            return 0, b""
        # One that was deleted has no value.
        return message.seq or 0, message.data or b""

    async def _replace_key(self, key: str, content: bytes, revision: int) -> int:
        """Write a value over this revision; return its own, or 0 if the key has another by now."""
        try:
            return await _in_time(self._kv.update(key, content, last=revision))
        except KeyWrongLastSequenceError:
            return 0

    async def _check_bucket(self) -> None:
        """Refuse a bucket that would lose a checkpoint."""
        config = (await _in_time(self._kv.status())).stream_info.config
        if config.max_age:
            raise CheckpointError(f"the bucket forgets its keys after {config.max_age:g} seconds")
        if config.storage == StorageType.MEMORY:
            raise CheckpointError("the bucket is kept in memory: make one with file storage")
        if deletes_when_full(config):
            raise CheckpointError("the bucket deletes its oldest values once it is full")
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

    is_of_event_loop: Final = True
    """The store is bound to the event loop that created its connections; `SyncIncomeClient`
    refuses it."""

    def __init__(self, kv: KeyValue, key: str = "token") -> None:
        if not key or _NOT_OF_A_KEY.search(key.encode()):
            raise InvalidArgumentError("key must be letters, digits, - and _", argument="key")
        self._kv = kv
        self._key = key
        self._seen = 0
        self._seen_at = 0.0
        self._claimed = 0

    async def load(self) -> StoredToken | None:  # noqa: D102 - as the base class says
        _, token = await _await_answer(_in_time(self._load_token()))
        if token.expires_at is None:
            return None
        return StoredToken(
            access_token=token.access_token,
            expires_at=token.expires_at,
            lifetime=token.lifetime,
        )

    async def save(self, token: StoredToken) -> None:  # noqa: D102 - as the base class says
        claimed, self._claimed = self._claimed, 0
        await _await_answer(_in_time(self._save_token(token, claimed)))

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
        return await _await_answer(_in_time(self._claim_token(seconds)))

    async def _load_token(self) -> tuple[int, _Token]:
        try:
            entry = await self._kv.get(self._key)
        except KeyNotFoundError:
            return 0, _Token()
        try:
            return entry.revision or 0, msgspec.json.decode(entry.value or b"", type=_Token)
        except ValueError:
            raise CheckpointError("the bucket's key holds no token") from None

    async def _save_token(self, token: StoredToken, claimed: int) -> None:
        new = _Token(token.access_token.reveal(), token.expires_at, token.lifetime)
        content = msgspec.json.encode(new)
        if not claimed:
            await self._kv.put(self._key, content)
            return
        with suppress(KeyWrongLastSequenceError):
            await self._kv.update(self._key, content, last=claimed)
            return
        # Another process has claimed it since then, and may have saved a newer one.
        revision, stored = await self._load_token()
        is_newer = stored.expires_at is None or stored.expires_at < token.expires_at
        if is_newer and revision:
            with suppress(KeyWrongLastSequenceError):
                await self._kv.update(self._key, content, last=revision)

    async def _claim_token(self, seconds: float) -> bool:
        revision, token = await self._load_token()
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
    """Return a function that publishes events for `relay` to a stream of NATS JetStream.

    The event's id is the message id, by which the stream drops what comes twice within its
    ``duplicate_window`` (two minutes unless it is set). An event that is larger than the
    server takes is published without its record: its worker reads it from the service.

    Before the first event, the configuration of the stream is read. One that deletes events which
    no worker has handled is refused: a limit of messages or bytes with ``discard=old``, the
    server's default, or ``retention=interest`` without a consumer. A stream in memory, and a
    ``max_age`` below three days, are a warning in the log.

    Args:
        js: ``connection.jetstream()``, whose timeout is how long an acknowledgement may take.
        subject: of the messages; a stream must have it.

    Returns:
        A function for `relay`, which returns once the stream has acknowledged the message; it
        raises `ConfigurationError` if the stream loses events, and `IncomeClientError` once the
        connection is closed for good.
    """
    check = StreamCheck(js, subject)

    async def send(event: UpdateEvent) -> None:
        await check.run()
        headers = {"Nats-Msg-Id": event.id, "content-type": "application/json"}
        content = event.to_json()
        # A server that gets a larger message closes the connection, each time.
        if len(content) > _room(js) and event.record is not None:
            content = evolve(event, record=None).to_json()
        try:
            await js.publish(subject, content, headers=headers)
        except (AttributeError, LookupError, TypeError, ValueError):
            # A subscriber of the subject has replied in place of a stream.
            raise NatsError("the reply is not an acknowledgement") from None

    async def publish(event: UpdateEvent) -> None:
        await replace_errors(lambda: send(event), _publishing_error)

    return publish


def _publishing_error(error: Exception) -> IncomeClientError | None:
    match error:
        case ConnectionClosedError():
            return IncomeClientError(f"NATS: {_CLOSED}")
        case NoStreamResponseError():
            reason = "no stream has this subject, or its servers are away"
        case MaxPayloadError():
            reason = "the event is larger than the server's max_payload"
        case NatsError() | TimeoutError() | OSError():
            reason = describe_failure(error)
        case _:
            return None
    return IncomeClientError(f"NATS: {reason}", retryable=True)


def _room(js: JetStreamContext) -> int:
    """Return the number of bytes that a message may have without its headers."""
    client = js._nc  # noqa: SLF001 - a context has no public way to its connection
    return client.max_payload - HEADER_BYTES


async def _await_answer(work: Awaitable[T]) -> T:
    """Return the server's answer; replace an exception by an error without its text."""
    return await replace_errors(lambda: work, _translate_error)


async def _in_time(work: Awaitable[T]) -> T:
    """Await one request to the server; raise `TimeoutError` if it takes too long."""
    async with asyncio.timeout(_SECONDS):
        return await work


async def _map_in_batches(work: Callable[[S], Awaitable[T]], items: Sequence[S]) -> list[T]:
    """Call a function for each item, a few at a time; return the results in order."""
    results: list[T] = []
    for first in range(0, len(items), _AT_ONCE):
        tasks = [asyncio.ensure_future(work(item)) for item in items[first : first + _AT_ONCE]]
        try:
            results += await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
    return results


def _contention_error() -> CheckpointError:
    return CheckpointError("NATS bucket: others write the key all the time", retryable=True)


def _translate_error(error: Exception) -> CheckpointError | None:
    if not isinstance(error, NatsError | TimeoutError | OSError):
        return None
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
            reason = f"the server refused it: {describe_failure(error)}"
        case _:
            reason = type(error).__name__
    return CheckpointError(f"NATS bucket: {reason}", retryable=retryable)


def _key_of(name: str) -> str:
    return "checkpoint." + _escape_name(name)


def _name_of(key: str) -> str:
    """Return the name whose checkpoint is under a key."""
    escaped = key.removeprefix(_key_of("")).replace("=", "%")
    return unquote(escaped)


def _rings_key_of(name: str) -> str:
    """Return the key whose revision each ring changes."""
    return "rings." + _escape_name(name)


def _letters_key_of(name: str, key: str | None = None) -> str:
    """Return the key for a dead letter; without ``key``, the common prefix of these keys."""
    start = "letters." + _escape_name(name)
    return start if key is None else f"{start}.{zlib.crc32(key.encode()) % _LETTER_KEYS:02x}"


def _to_stored(value: _Value) -> StoredCheckpoint:
    text = value.checkpoint if value.version else None
    return StoredCheckpoint(checkpoint=text, version=value.version)


def _escape_name(name: str) -> str:
    return _NOT_OF_A_KEY.sub(lambda match: b"=%02X" % match[0][0], name.encode()).decode()


def _by_key(letters: Iterable[DeadLetter]) -> dict[str, DeadLetter]:
    return {letter.key: letter for letter in letters}


def _edited(
    letters: Iterable[DeadLetter], keys: Sequence[str], edit: _Edit
) -> tuple[set[str], list[DeadLetter]]:
    """Return the keys of the dead letters to edit, and all dead letters after that."""
    stored = _by_key(letters)
    found = stored.keys() & set(keys)
    after = [edit(letter) if key in found else letter for key, letter in stored.items()]
    return found, [letter for letter in after if letter is not None]


def _removed(_letter: DeadLetter) -> None:
    """Return nothing in place of a dead letter."""


def _made_due(letter: DeadLetter) -> DeadLetter:
    return evolve(letter, attempts=0)


def _encode_value(value: _Value | Sequence[DeadLetter]) -> bytes:
    content = msgspec.json.encode(value)
    return content if len(content) <= _PLAIN_BYTES else zlib.compress(content)


def _decode_value(content: bytes, kind: type[T]) -> T:
    try:
        plain = content if content[:1] in {b"{", b"["} else zlib.decompress(content)
        return msgspec.json.decode(plain, type=kind)
    except (ValueError, zlib.error):
        raise CheckpointError("the bucket's key holds no checkpoint of this package") from None
