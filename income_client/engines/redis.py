"""Checkpoints and a shared token in Redis, changed by scripts; needs the extra ``redis``.

What is kept under a name is one hash: it is changed in one step, is in one slot, and no part of it
can be lost alone. The errors of the driver hold names and addresses: only their classes are looked
at, and the words in capitals by which the server says what is wrong.
"""

import asyncio
import hashlib
import logging
import re
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from math import ceil
from typing import Any, Final, TypeVar

import msgspec
from redis.asyncio import Redis, RedisCluster
from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

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
    RingingStore,
    check_name,
    checked_keys,
    in_order,
    in_whole_seconds,
)
from income_client.errors import leaving
from income_client.settings import check_positive, check_type, invalid

from .redis_settings import await_answer, eviction_risk, loss_risk, read_settings

T = TypeVar("T")

_LOGGER: Final = logging.getLogger("income_client.redis")

# A script that only reads removes a field that never is there: that changes nothing, but makes it
# a write for the server, so that a replica, whose answer may be old, refuses it.
_ON_PRIMARY: Final = "redis.call('HDEL', KEYS[1], '')"
_LOAD: Final = f"""
    {_ON_PRIMARY}
    local held = redis.call('HMGET', KEYS[1], 'version', 'checkpoint')
    return {{redis.call('EXISTS', KEYS[1]), held[1], held[2]}}
"""
# The mark of a save tells a driver's second try from another save. A server whose memory is full
# refuses the first write of a script, and none after that.
_SAVE: Final = """
    local mark, known, version, checkpoint, replaced = unpack(ARGV, 1, 5)
    local held = redis.call('HMGET', KEYS[1], 'version', 'checkpoint', 'save')
    if held[3] == mark then
        return {1, held[1]}
    end
    if not (held[1] and held[2]) and redis.call('EXISTS', KEYS[1]) == 1 then
        return {0, ''}
    end
    local is_other = replaced ~= '' and not (held[2] and redis.sha1hex(held[2]) == replaced)
    if is_other or (held[1] or '0') ~= known then
        return {0, held[1] or '0'}
    end
    redis.call('HSET', KEYS[1], 'version', version, 'checkpoint', checkpoint, 'save', mark)
    local added = 7 + tonumber(ARGV[6])
    for number = 7, added - 1 do
        redis.call('HDEL', KEYS[1], ARGV[number])
    end
    for number = added, #ARGV, 2 do
        redis.call('HSET', KEYS[1], ARGV[number], ARGV[number + 1])
    end
    return {1, version}
"""
_LOAD_ALL: Final = f"""
    {_ON_PRIMARY}
    return redis.call('HGETALL', KEYS[1])
"""
_FORGET: Final = f"""
    {_ON_PRIMARY}
    local removed = {{}}
    if redis.call('HEXISTS', KEYS[1], 'version') == 1 then
        for number = 1, #ARGV do
            removed[number] = redis.call('HDEL', KEYS[1], ARGV[number])
        end
    end
    return removed
"""
# What is published on a replica is not heard elsewhere.
_RING: Final = f"""
    {_ON_PRIMARY}
    redis.call('PUBLISH', ARGV[1], '')
"""
_LOAD_SHARED: Final = f"""
    {_ON_PRIMARY}
    return redis.call('HGET', KEYS[1], 'token')
"""
_SHARE: Final = """
    redis.call('HSET', KEYS[1], 'token', ARGV[1])
    redis.call('HDEL', KEYS[1], 'claimed_by', 'claimed_at')
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""
# A claim that seems to come from the future was made before the server's clock was set back.
_CLAIM: Final = """
    local seconds = tonumber(ARGV[2])
    local time = redis.call('TIME')
    local now = time[1] + time[2] / 1000000
    local held = redis.call('HMGET', KEYS[1], 'claimed_by', 'claimed_at')
    if held[1] and held[1] ~= ARGV[1] and math.abs(now - held[2]) < seconds then
        return 0
    end
    redis.call('HSET', KEYS[1], 'claimed_by', ARGV[1], 'claimed_at', string.format('%.3f', now))
    local milliseconds = math.ceil(seconds * 1000)
    if redis.call('PTTL', KEYS[1]) < milliseconds then
        redis.call('PEXPIRE', KEYS[1], milliseconds)
    end
    return 1
"""

_LETTER: Final = "letter:"
"""Begins the fields of dead letters, before their keys."""
_LOOK_SECONDS: Final = 1.0
_SILENCE_SECONDS: Final = 30.0
"""After so long, the server is asked whether it is still there."""
_ANSWER_SECONDS: Final = 10.0
_LEAST_CONNECTIONS: Final = 2
"""The bell keeps one."""

_ANSWERS: Final[Mapping[str, tuple[str, bool]]] = {
    "BUSY": ("the server is busy with a script", True),
    "CLUSTERDOWN": ("the cluster is down", True),
    "LOADING": ("the server is starting", True),
    "MASTERDOWN": ("the server is a replica without its primary", True),
    "MISCONF": ("the server cannot write to its disk", True),
    "MOVED": ("another node of the cluster has the key, which this client does not ask", False),
    "NOAUTH": ("the server refused the user or the password", False),
    "NOPERM": ("the user lacks rights: see help(RedisCheckpointStore)", False),
    "NOREPLICAS": ("the server has too few replicas (min-replicas-to-write)", True),
    "OOM": ("the memory of the server is full", True),
    "READONLY": ("the server is a replica, which is read-only, as after a failover", True),
    "TRYAGAIN": ("the cluster is moving the key", True),
    "WRONGTYPE": ("the key holds something else", False),
}
"""What codes of the server mean, and whether to try again."""
_CODE: Final = re.compile(rf"\b({'|'.join(_ANSWERS)})\b")
_CODES: Final[Mapping[type[Exception], str]] = {
    AskError: "MOVED",
    AuthenticationError: "NOAUTH",
    BusyLoadingError: "LOADING",
    MasterDownError: "MASTERDOWN",
    ClusterDownError: "CLUSTERDOWN",
    NoPermissionError: "NOPERM",
    OutOfMemoryError: "OOM",
    ReadOnlyError: "READONLY",
    TryAgainError: "TRYAGAIN",
}
"""Those that the driver has made classes of; in the error of a script they may be words."""


class _Token(msgspec.Struct):
    access_token: str
    expires_at: datetime
    lifetime: float


class _Server:
    """A client of the caller's, and what its errors mean."""

    def __init__(self, what: str, redis: object) -> None:
        if not isinstance(redis, Redis | RedisCluster):
            raise invalid("redis", "a client of redis.asyncio, as Redis.from_url() returns", redis)
        self.what = what
        self.redis = redis

    async def answer(self, work: Awaitable[T]) -> T:
        """Return what some work on it comes to; raise what fails as an error without its text."""
        with leaving():
            try:
                return await work
            except Exception as error:  # noqa: BLE001 - foreign code
                await self._leave_replica(error)
                raise self._translate_error(error)

    async def run(self, script: str, key: str, *arguments: str | bytes | float) -> Any:
        """Run a script on a key."""
        registered = self.redis.register_script(script)
        return await await_answer(registered([key], arguments))

    def error(self, reason: str, *, retryable: bool = False) -> CheckpointError:
        """Return an error of what is kept there."""
        return CheckpointError(f"{self.what} in Redis: {reason}", retryable=retryable)

    def _translate_error(self, error: Exception) -> IncomeClientError:
        """Return the error for a caller: ours, or one that says what a foreign one means."""
        if isinstance(error, IncomeClientError):
            return error
        if (code := _code_of(error)) is not None:
            reason, retryable = _ANSWERS[code]
            return self.error(f"{reason} ({code})", retryable=retryable)
        match error:
            case TimeoutError() | RedisTimeoutError():
                return self.error("the server did not answer in time", retryable=True)
            case RedisConnectionError() | OSError():
                return self.error("the server cannot be reached", retryable=True)
        return self.error(f"the driver failed: {type(error).__name__}")

    async def _leave_replica(self, error: Exception) -> None:
        """Have calls connect anew, since the name of the server may lead to another by now."""
        if _code_of(error) == "READONLY" and isinstance(self.redis, Redis):
            with suppress(RedisError, OSError):
                await self.redis.connection_pool.disconnect(inuse_connections=False)


class RedisCheckpointStore(CompleteCheckpointStore, RingingStore):
    """Keep checkpoints in Redis, or a server that speaks its protocol; see `CheckpointStore`.

    Pollers on any number of machines may share it, each under its name, or with ``standby``
    under one. A name is a hash with the key ``PREFIX:checkpoint:NAME``, which holds its dead
    letters too. Calls are scripts, which need Redis 5 or later, and fail after 10 seconds. Only
    a primary answers: on a replica, the connections of the client are closed, and the error is
    ``retryable``. After a failover to a server that lacks the last saves, a poller notices that,
    and what they covered is delivered again.

    Set the server to ``appendonly yes`` and ``maxmemory-policy noeviction``. With ``appendfsync
    everysec``, its default, a power failure undoes the saves of the last second, and their
    batches are delivered again. At the first call the store reads these settings: where all keys
    may be evicted, it refuses the server; where a crash may lose a name altogether, or the user
    may not know, it logs a warning. A poller that is started after such a loss begins anew:
    ``must_exist=True`` refuses that.

    The bell is a channel, ``PREFIX:bell:DATABASE:NAME``, for which the poller that works keeps a
    connection. A user needs these rights, here for the prefix ``income``:
    ``~income:* &income:* +@read +@write +@scripting +@connection +@pubsub -@dangerous +time +info
    +config|get``; on a cluster, ``+cluster`` too.

    >>> from redis.asyncio import Redis, RedisCluster
    >>> async def follow(client):
    ...     async with Redis.from_url("rediss://poller@cache.example:6379/0") as redis:
    ...         async for record in client.poll(RedisCheckpointStore(redis), standby=True):
    ...             print(record.application_id)

    Args:
        redis: a `redis.asyncio.Redis`, also from a `Sentinel`, or a `RedisCluster`; it stays
            yours to close.
        prefix: of all keys and channels.

    Raises:
        ConfigurationError: an argument is invalid.
    """

    is_of_event_loop: Final = True
    """Its connections belong to the event loop of who made them: `SyncIncomeClient` refuses it."""

    @leaving()
    def __init__(self, redis: Redis | RedisCluster, prefix: str = "income") -> None:
        check_name(prefix, "prefix")
        self._server = _Server("checkpoint store", redis)
        self._prefix = prefix
        self._checking = asyncio.Lock()
        self._is_checked = False

    async def load(self, name: str) -> StoredCheckpoint:  # noqa: D102 - as the protocol says
        check_name(name)
        return await self._server.answer(self._load(name))

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
        change.check_arguments()
        return await self._server.answer(self._save(change))

    async def dead_letters(self, name: str) -> tuple[DeadLetter, ...]:  # noqa: D102 - likewise
        check_name(name)
        return await self._server.answer(self._load_letters(name))

    async def forget(  # noqa: D102 - likewise
        self, name: str, keys: Iterable[str]
    ) -> tuple[str, ...]:
        check_name(name)
        return await self._server.answer(self._remove_letters(name, checked_keys(keys)))

    async def ring(self, name: str) -> None:  # noqa: D102 - likewise
        check_name(name)
        await self._server.answer(self._ring_bell(name))

    async def listen(self, name: str, heard: Callable[[], None]) -> None:  # noqa: D102 - likewise
        check_name(name)
        await self._server.answer(self._listen(name, heard))

    async def _load(self, name: str) -> StoredCheckpoint:
        await self._check_server()
        exists, version, checkpoint = await self._server.run(_LOAD, self._key(name))
        return self._read_stored(exists, version, checkpoint)

    async def _save(self, change: Change) -> int:
        await self._check_server()
        version = change.version + 1
        is_made, stored = await self._server.run(
            _SAVE,
            self._key(change.name),
            uuid.uuid4().hex,
            str(change.version),
            str(version),
            change.checkpoint,
            "" if change.replaces is None else _digest_of(change.replaces),
            len(change.resolved),
            *(_LETTER + key for key in change.resolved),
            *(part for letter in change.dead_letters for part in _letter_field(letter)),
        )
        if not is_made:
            raise change.conflict_error(self._read_version(stored))
        return version

    async def _load_letters(self, name: str) -> tuple[DeadLetter, ...]:
        await self._check_server()
        found = [*map(_to_bytes, await self._server.run(_LOAD_ALL, self._key(name)))]
        fields = dict(zip(found[::2], found[1::2], strict=True))
        self._read_stored(len(fields), fields.get(b"version"), fields.get(b"checkpoint"))
        letters = [fields[one] for one in fields if one.startswith(_LETTER.encode())]
        return in_order(map(self._read_letter, letters))

    async def _remove_letters(self, name: str, keys: Sequence[str]) -> tuple[str, ...]:
        fields = [_LETTER + key for key in keys]
        removed = await self._server.run(_FORGET, self._key(name), *fields)
        return tuple(key for key, count in zip(keys, removed, strict=False) if count)

    async def _ring_bell(self, name: str) -> None:
        await self._server.run(_RING, self._key(name), self._channel(name))

    async def _listen(self, name: str, heard: Callable[[], None]) -> None:
        subscription = self._open_subscription()
        try:
            await await_answer(subscription.subscribe(self._channel(name)))
            await self._hear(subscription, name, heard)
        finally:
            with suppress(Exception):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await subscription.aclose()

    def _open_subscription(self) -> Any:
        redis, advice = self._server.redis, None
        if isinstance(redis, Redis) and redis.connection_pool.max_connections < _LEAST_CONNECTIONS:
            advice = f"a client with max_connections={_LEAST_CONNECTIONS} or more"
        elif not hasattr(redis, "pubsub"):
            advice = "a newer redis-py, whose client of a cluster can subscribe"
        if advice is not None:
            raise self._server.error(f"to be woken by other processes, it needs {advice}")
        return redis.pubsub()

    async def _hear(self, subscription: Any, name: str, heard: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        due: float | None = loop.time() + _ANSWER_SECONDS
        """When something must have come, if the server owes an answer."""
        silent_since = loop.time()
        while True:
            message = await await_answer(subscription.get_message(timeout=_LOOK_SECONDS))
            kind = None if message is None else message["type"]
            if kind is not None:
                due, silent_since = None, loop.time()
            if kind == "subscribe":
                # Also once a lost connection was made again: then some may have been missed.
                due = loop.time() + _ANSWER_SECONDS
                await self._ring_bell(name)
            elif kind == "message":
                heard()
            elif due is not None and loop.time() >= due:
                reason = f"nothing is heard of {self._channel(name)}"
                raise self._server.error(reason, retryable=True)
            elif due is None and loop.time() >= silent_since + _SILENCE_SECONDS:
                due = loop.time() + _ANSWER_SECONDS
                await await_answer(subscription.ping())

    async def _check_server(self) -> None:
        """Refuse a server that deletes checkpoints; warn of one that may lose them."""
        async with self._checking:
            if not self._is_checked:
                await self._check_settings()
                self._is_checked = True

    async def _check_settings(self) -> None:
        settings = await read_settings(self._server.redis)
        if policy := eviction_risk(settings):
            raise self._server.error(
                f"the server deletes keys when its memory is full (maxmemory-policy {policy}): "
                "set it to noeviction"
            )
        loss = loss_risk(settings, "saves")
        is_second = settings.get("aof_enabled") and settings.get("appendfsync") == "everysec"
        if loss and not is_second:
            message = "%s: set appendonly yes, and poll with must_exist=True"
            _LOGGER.warning(message, loss, extra={"prefix": self._prefix})

    def _key(self, name: str) -> str:
        return f"{self._prefix}:checkpoint:{name}"

    def _channel(self, name: str) -> str:
        # All databases of a server share its channels; a cluster has one.
        redis = self._server.redis
        of_pool = redis.connection_pool.connection_kwargs if isinstance(redis, Redis) else {}
        return f"{self._prefix}:bell:{of_pool.get('db', 0)}:{name}"

    def _read_stored(self, exists: int, version: Any, checkpoint: Any) -> StoredCheckpoint:
        if not exists:
            return StoredCheckpoint(checkpoint=None, version=0)
        if checkpoint is None:
            raise self._damage_error()
        try:
            text = _to_bytes(checkpoint).decode()
        except ValueError:
            raise self._damage_error()
        return StoredCheckpoint(checkpoint=text, version=self._read_version(version))

    def _read_version(self, stored: Any) -> int:
        text = _to_bytes(stored).decode("ascii", "replace")
        if not text.isdecimal():
            raise self._damage_error()
        return int(text)

    def _read_letter(self, content: bytes) -> DeadLetter:
        try:
            return msgspec.json.decode(content, type=DeadLetter)
        except ValueError:
            raise self._damage_error()

    def _damage_error(self) -> CheckpointError:
        return self._server.error("the key holds no checkpoint of this package")


class RedisTokenStore(TokenStore):
    """Share one access token between processes through Redis.

    Of many processes one renews it, and the others wait for that. The token is a hash with the
    key ``PREFIX:token:KEY``, which expires with it. It is not encrypted: who may read that key
    has it, and so has who reads the files or the memory of the server. A server that keeps
    nothing on its disk will do; one that loses the token costs a token request.

    Args:
        redis: a `redis.asyncio.Redis`, also from a `Sentinel`, or a `RedisCluster`; it stays
            yours to close.
        key: which token: processes with the same address and credentials use the same.
        prefix: of all keys.

    Raises:
        ConfigurationError: an argument is invalid.
    """

    is_of_event_loop: Final = True
    """Its connections belong to the event loop of who made them: `SyncIncomeClient` refuses it."""

    @leaving()
    def __init__(
        self, redis: Redis | RedisCluster, key: str = "default", prefix: str = "income"
    ) -> None:
        check_name(key, "key")
        check_name(prefix, "prefix")
        self._server = _Server("token store", redis)
        self._key = f"{prefix}:token:{key}"
        self._claimer = uuid.uuid4().hex

    async def load(self) -> StoredToken | None:
        """Return the token that was saved last, or None.

        Raises:
            CheckpointError: the server cannot be read, or holds no valid token.
        """
        return await self._server.answer(self._load())

    async def save(self, token: StoredToken) -> None:
        """Replace the saved token by this one, and end the claim.

        Args:
            token: the new one.

        Raises:
            CheckpointError: it was not saved.
            ConfigurationError: the argument is not a `StoredToken`.
        """
        check_type("token", token, StoredToken)
        await self._server.answer(self._save(token))

    async def claim(self, seconds: float) -> bool:
        """Return whether this process is to renew the token.

        It is not while another process that claimed it less than ``seconds`` ago has saved no
        token yet. The server's clock counts, so that those of machines need not agree.

        Args:
            seconds: how long a claim holds.

        Raises:
            CheckpointError: the server cannot be used.
            ConfigurationError: the argument is invalid.
        """
        seconds = check_positive("seconds", seconds)
        return await self._server.answer(self._claim(seconds))

    async def _load(self) -> StoredToken | None:
        content = await self._server.run(_LOAD_SHARED, self._key)
        if content is None:
            return None
        try:
            found = msgspec.json.decode(content, type=_Token)
            return StoredToken(
                access_token=found.access_token,
                expires_at=found.expires_at,
                lifetime=found.lifetime,
            )
        except ConfigurationError as error:
            raise self._server.error(error.message)
        except ValueError:
            raise self._server.error("the key holds no token")

    async def _save(self, token: StoredToken) -> None:
        content = _Token(token.access_token.reveal(), token.expires_at, token.lifetime)
        left = (token.expires_at - datetime.now(UTC)).total_seconds()
        milliseconds = max(1, ceil(left * 1000))
        await self._server.run(_SHARE, self._key, msgspec.json.encode(content), milliseconds)

    async def _claim(self, seconds: float) -> bool:
        return bool(await self._server.run(_CLAIM, self._key, self._claimer, seconds))


def _letter_field(letter: DeadLetter) -> tuple[str, bytes]:
    return _LETTER + letter.key, msgspec.json.encode(in_whole_seconds(letter))


def _digest_of(text: str) -> str:
    # Texts may be long: the server compares digests of them.
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def _to_bytes(value: Any) -> bytes:
    """Return a reply as it came; a client may decode them."""
    return value.encode() if isinstance(value, str) else value or b""


def _code_of(error: Exception) -> str | None:
    """Return the code of the server's, if an error is one that is known."""
    for kind, code in _CODES.items():
        if isinstance(error, kind):
            return code
    found = _CODE.search(str(error)) if isinstance(error, RedisError) else None
    return None if found is None else found[1]
