"""Checkpoints and a shared token in tables of a PostgreSQL database, through pools of asyncpg's.

Every call is one statement, which is atomic by itself and leaves no state in the session: limits
are those of its transaction. The errors of the driver hold values, names and addresses: only their
classes and the server's codes (SQLSTATE) are looked at, and one text.
"""

import asyncio
import hashlib
import socket
import ssl
import uuid
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, suppress
from functools import partial
from math import ceil
from typing import Any, Final, Protocol, Self, TypeVar

from attrs import field, frozen

from income_client.checkpoints import CheckpointStore, StoredCheckpoint
from income_client.checkpoints.store import (
    Change,
    check_name,
    checked_keys,
    in_order,
    in_whole_seconds,
)
from income_client.errors import (
    CheckpointConflictError,
    CheckpointError,
    ConfigurationError,
    IncomeClientError,
    InvalidArgumentError,
)
from income_client.http.tokens import StoredToken, TokenStore
from income_client.records.dead_letters import DeadLetter
from income_client.records.window import Window
from income_client.settings import Secret, check_positive, check_type, invalid
from income_client.system.concurrency import wait_for_end
from income_client.system.descriptors import find_shortage, shortage_in
from income_client.system.frames import replace_errors, strip_frames
from income_client.system.texts import printable

T = TypeVar("T")

SCHEMA: Final = """\
-- The tables of income-client. They are looked for by the search_path of the connection, and
-- made in its first schema. The role of a poller needs these rights:
--   GRANT SELECT, INSERT, UPDATE ON income_checkpoints, income_rings TO poller;
--   GRANT SELECT, INSERT, UPDATE, DELETE ON income_dead_letters TO poller;
-- The role of whoever asks for the status of pollers needs this:
--   GRANT SELECT ON income_checkpoints, income_dead_letters TO reader;
-- The role of a process that shares an access token needs these. A role that may read the
-- table has the token, so grant them to no other:
--   GRANT SELECT, INSERT, UPDATE ON income_tokens TO web;

CREATE TABLE IF NOT EXISTS income_checkpoints (
    name text PRIMARY KEY,
    checkpoint text NOT NULL,
    version bigint NOT NULL CHECK (version > 0)
);

CREATE TABLE IF NOT EXISTS income_dead_letters (
    name text NOT NULL,
    digest text NOT NULL,  -- of the dead letter's key, which may be too long for an index
    application_id text,
    window_after bigint NOT NULL,
    window_before bigint NOT NULL,
    reason text NOT NULL,
    attempts bigint NOT NULL,
    first_tried_at timestamp NOT NULL,  -- service time
    last_tried_at timestamp NOT NULL,
    PRIMARY KEY (name, digest)
);

CREATE TABLE IF NOT EXISTS income_rings (
    name text PRIMARY KEY,
    rings bigint NOT NULL
);

CREATE TABLE IF NOT EXISTS income_tokens (
    key text PRIMARY KEY,
    access_token text,
    expires_at timestamptz,
    lifetime double precision,
    claimed_by text,
    claimed_at timestamptz
);
"""
"""SQL that makes the tables of this version where they are missing."""

_LOCK: Final = int.from_bytes(b"income_c", "big")
# Two sessions that make the same table at the same time collide in spite of IF NOT EXISTS.
# Statements sent together are one transaction, at whose end the lock is given back.
_CREATE: Final = f"SELECT pg_advisory_xact_lock({_LOCK});\n{SCHEMA}"
_ARE_THERE: Final = """
    SELECT to_regclass('income_checkpoints') IS NOT NULL
        AND to_regclass('income_dead_letters') IS NOT NULL
        AND to_regclass('income_rings') IS NOT NULL
        AND to_regclass('income_tokens') IS NOT NULL
"""
_LOAD: Final = "SELECT checkpoint, version FROM income_checkpoints WHERE name = $1"


def _lower_limit_sql(setting: str, limit: str) -> str:
    """Return SQL that lowers a time limit, in milliseconds, until the transaction ends."""
    current = f"extract(epoch FROM current_setting('{setting}')::interval) * 1000"
    lowest = f"least({limit}::bigint, nullif(({current})::bigint, 0))"  # 0: without a limit
    return f"set_config('{setting}', {lowest}::text, true)"


_SECONDS: Final = 10.0
"""Longest duration of one call, in seconds."""
# The process that asked may be gone: the save must not be made when a lock comes free much later.
_WAITING: Final = _lower_limit_sql("lock_timeout", f"{_SECONDS * 1000:.0f}")
_END_WHEN_IDLE: Final = f"SELECT {_lower_limit_sql('idle_in_transaction_session_timeout', '$1')}"
_SAVED: Final = f"""
    WITH limits AS (
        SELECT {_WAITING}
    ), inserted AS (
        INSERT INTO income_checkpoints (name, checkpoint, version)
        SELECT $1, $2, 1 FROM limits WHERE $3::bigint = 0
        ON CONFLICT DO NOTHING
        RETURNING version
    ), updated AS (
        UPDATE income_checkpoints SET checkpoint = $2, version = version + 1 FROM limits
        WHERE name = $1 AND version = $3::bigint
            AND ($4::text IS NULL OR encode(sha256(convert_to(checkpoint, 'UTF8')), 'hex') = $4)
        RETURNING version
    ), saved AS (
        SELECT version FROM inserted UNION ALL SELECT version FROM updated
    )
"""  # noqa: S608 - of constants
_SAVE: Final = f"{_SAVED} SELECT version FROM saved"  # noqa: S608 - of constants
_LETTERS_SAVED: Final = """
    removed AS (
        DELETE FROM income_dead_letters
        WHERE name = $1 AND digest = ANY ($5::text[]) AND EXISTS (SELECT FROM saved)
    ), added AS (
        INSERT INTO income_dead_letters
        SELECT $1, letter.* FROM unnest(
            $6::text[], $7::text[], $8::bigint[], $9::bigint[], $10::text[], $11::bigint[],
            $12::timestamp[], $13::timestamp[]
        ) AS letter
        WHERE EXISTS (SELECT FROM saved)
        ON CONFLICT (name, digest) DO UPDATE SET
            application_id = excluded.application_id,
            window_after = excluded.window_after,
            window_before = excluded.window_before,
            reason = excluded.reason,
            attempts = excluded.attempts,
            first_tried_at = excluded.first_tried_at,
            last_tried_at = excluded.last_tried_at
    )
"""
_SAVE_WITH_LETTERS: Final = f"{_SAVED}, {_LETTERS_SAVED} SELECT version FROM saved"  # noqa: S608 - likewise
_LETTER_COLUMNS: Final = 8
_LOAD_LETTERS: Final = """
    SELECT application_id, window_after, window_before, reason, attempts,
        first_tried_at, last_tried_at
    FROM income_dead_letters WHERE name = $1
"""
_FORGET: Final = """
    DELETE FROM income_dead_letters WHERE name = $1 AND digest = ANY ($2::text[]) RETURNING digest
"""
_RETRY: Final = """
    UPDATE income_dead_letters SET attempts = 0
    WHERE name = $1 AND digest = ANY ($2::text[]) RETURNING digest
"""
_NAMES: Final = 'SELECT name FROM income_checkpoints ORDER BY name COLLATE "C"'
_LOAD_SHARED: Final = """
    SELECT access_token, expires_at, lifetime FROM income_tokens
    WHERE key = $1 AND access_token IS NOT NULL
"""
_SAVE_SHARED: Final = """
    INSERT INTO income_tokens (key, access_token, expires_at, lifetime) VALUES ($1, $2, $3, $4)
    ON CONFLICT (key) DO UPDATE SET
        access_token = excluded.access_token,
        expires_at = excluded.expires_at,
        lifetime = excluded.lifetime,
        claimed_by = NULL,
        claimed_at = NULL
"""
# A claim that seems to come from the future was made before the server's clock was set back.
_CLAIM: Final = """
    INSERT INTO income_tokens AS held (key, claimed_by, claimed_at)
    VALUES ($1, $2, clock_timestamp())
    ON CONFLICT (key) DO UPDATE SET claimed_by = $2, claimed_at = clock_timestamp()
    WHERE held.claimed_at IS NULL
        OR held.claimed_by = $2
        OR abs(extract(epoch FROM clock_timestamp() - held.claimed_at)) >= $3::float8
    RETURNING true
"""

_RING: Final = """
    INSERT INTO income_rings AS held (name, rings) VALUES ($1, 1)
    ON CONFLICT (name) DO UPDATE SET rings = held.rings + 1
    RETURNING EXISTS (SELECT 1 FROM income_checkpoints WHERE name = $1)
"""
_COUNT_RINGS: Final = "SELECT rings FROM income_rings WHERE name = $1"

_RELEASE_SECONDS: Final = 1.0
_CLOSE_SECONDS: Final = 2.0
_POOL_SIZE: Final = 4
"""Most connections of a pool that a store opens: a poller's save, renewal and look for rings, and
one more."""
_SCHEMES: Final = ("postgresql://", "postgres://")
_GREATEST: Final = 2**63 - 1
_NO_VERSION: Final = -1
_LONGEST_LIMIT: Final = 2**31 - 1
_READ_ONLY: Final = "25006"
_STATEMENT_MODE: Final = "not allowed in statement pooling mode"
"""Part of PgBouncer's answer to BEGIN, whose code says only that the connection was lost."""
_SHOWN: Final = "income-client schema postgres"
_ANSWERS: Final[Mapping[str, tuple[str, bool]]] = {
    "08": ("the connection was lost", True),
    "22P05": ("the encoding of the database must be UTF8", False),
    _READ_ONLY: ("the server is read-only, as after a failover", True),
    "25P02": ("a statement of the block has failed, so nothing can be committed", False),
    "25P03": ("the server ended the session, which was idle in its transaction", True),
    "25P04": ("the server ended the transaction, which took too long", True),
    "26000": ("a pool behind PgBouncer needs statement_cache_size=0", False),
    "28": ("the server refused the user or the password", False),
    "3D000": ("there is no such database", False),
    "3F000": ("the search_path of the connection names no schema that exists", False),
    "40": ("the transaction collided with another", True),
    "42501": (f"the user lacks rights: see the comments of {_SHOWN}", False),
    "42703": ("its tables are not those of this version", False),
    "42P01": (f"its tables are missing: create_schema() makes them, {_SHOWN} shows them", False),
    "42P05": ("a pool behind PgBouncer needs statement_cache_size=0", False),
    "53": ("the server has no more connections, memory or disk space", True),
    "55P03": ("a lock was waited for too long", True),
    "57": ("the server is shutting down, starting, or ended the call", True),
    "58": ("the server's system failed", True),
    "XX": ("the server failed", True),
    _STATEMENT_MODE: ("a pooler in statement mode cannot keep a transaction", False),
}  # fmt: skip
"""Meaning of the server's error codes, by code or its beginning, and whether to try again."""
_LOST: Final = "the connection was lost, or is in use elsewhere"
_NO_SUCH_SERVER: Final = (
    "no server is as target_session_attrs asks; it may be read-only, as after a failover"
)

Work = Callable[[Any], Awaitable[T]]


class _Database(Protocol):
    """The pool or connection that runs statements."""

    async def run(self, work: Work[T]) -> T:
        """Run statements on a connection; only errors of ours are raised."""
        ...


class _Pools(_Database, Protocol):
    """The pool of the caller, or the pools that a store opens itself."""

    async def leave_if_read_only(self, error: BaseException) -> None:
        """Make every session connect anew if its server has become read-only."""
        ...


class _Checkpoints(CheckpointStore):
    """The methods of a checkpoint store, wherever their statements are run."""

    def __init__(self, database: _Database) -> None:
        self._database = database

    async def load(self, name: str) -> StoredCheckpoint:
        check_name(name)
        return await self._database.run(partial(_load_checkpoint, name))

    async def save(
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
        return await self._database.run(partial(_save_checkpoint, change))

    async def dead_letters(self, name: str) -> tuple[DeadLetter, ...]:
        check_name(name)
        return await self._database.run(partial(_load_letters, name))

    async def forget(self, name: str, keys: Iterable[str]) -> tuple[str, ...]:
        check_name(name)
        return await self._database.run(partial(_change_letters, _FORGET, name, checked_keys(keys)))

    async def retry(self, name: str, keys: Iterable[str]) -> tuple[str, ...]:
        check_name(name)
        return await self._database.run(partial(_change_letters, _RETRY, name, checked_keys(keys)))

    async def names(self) -> tuple[str, ...]:
        return await self._database.run(_load_names)


class _BoundCheckpoints(_Checkpoints):
    """The checkpoints of a store within a caller's transaction."""

    async def end_when_idle(self, seconds: float) -> None:
        """Make the server undo the transaction after a number of idle seconds.

        Otherwise its locks are held for hours if the machine is lost before the commit. A
        poller sets this right before its save.
        """
        milliseconds = min(ceil(seconds * 1000), _LONGEST_LIMIT)
        await self._database.run(
            lambda connection: connection.execute(_END_WHEN_IDLE, milliseconds)
        )


class PostgresCheckpointStore(_Checkpoints):
    """Keep checkpoints in a PostgreSQL database; see `CheckpointStore`.

    Pollers on any number of machines may share it, each under its name, or with ``standby``
    under one. `create_schema` makes the tables, ``income-client schema postgres`` shows them;
    they are looked for by the ``search_path`` of the connections. With
    ``batch.transaction(connection)`` a checkpoint is committed together with rows of your own.

    A call takes a connection of the pool for one statement, and fails after 10 seconds. No
    session keeps a lock or a setting, so that PgBouncer may pool transactions between this
    and the server; asyncpg then asks for ``statement_cache_size=0``, since it prepares
    statements; a pooler in statement mode cannot keep a transaction.

    Faults that may pass, such as a restart of the server, a failover or a lost connection, are a
    `CheckpointError` that is ``retryable``; missing tables or rights are one that is not. With
    ``synchronous_commit`` off, a crash of the server may undo the last commits, and their batches
    are delivered again.

    If the server is read-only, as a replica is, the sessions of the pool are replaced; with
    ``target_session_attrs="read-write"`` a pool never stays there. If a process is lost between
    a save and its commit, the server undoes the transaction after a lease, or after 15 seconds
    without ``standby``.

    >>> import asyncpg
    >>> async def follow(client):
    ...     address = "postgresql:///lending"
    ...     async with asyncpg.create_pool(address, target_session_attrs="read-write") as pool:
    ...         store = PostgresCheckpointStore(pool)
    ...         await store.create_schema()
    ...         async for record in client.poll(store, standby=True):
    ...             print(record.application_id)

    Args:
        pool: from ``await asyncpg.create_pool(...)``; it stays yours to close. `from_url` makes a
            store that opens its own.

    Raises:
        ConfigurationError: asyncpg is not installed, or the argument is not one of its pools.
    """

    has_bell = True

    @strip_frames  # an address given by mistake may hold a password
    def __init__(self, pool: Any) -> None:
        self._pool = _pools_of("checkpoint store", pool)
        self.is_of_event_loop: bool = not isinstance(self._pool, _OwnPools)
        super().__init__(self._pool)

    @classmethod
    @strip_frames
    def from_url(cls, url: str) -> Self:
        """Return a store that opens and closes its own connections.

        `SyncIncomeClient` takes such a store, and so may several event loops, each of which gets
        up to four connections of its own. They are made when they are needed, and closed when the
        loop ends, or by asyncpg after five minutes without use. PgBouncer needs no option here.

        >>> store = PostgresCheckpointStore.from_url("postgresql://poller@db.internal/lending")

        Args:
            url: ``postgresql://user@host:port/database?option=value``. The password is better in
                ``PGPASSWORD`` or in the file that ``PGPASSFILE`` names. Options are asyncpg's,
                such as ``target_session_attrs=read-write`` and ``sslmode``, or settings of the
                server, such as ``search_path``.

        Returns:
            The store; no connection is made yet.

        Raises:
            ConfigurationError: asyncpg is not installed, or the address is not of this kind.
        """
        return cls(_OwnPools.of_url("checkpoint store", url))

    async def check_rights(self, name: str) -> None:
        """Raise `CheckpointError` if the server allows no save under the name; write nothing.

        A poller with ``standby`` does so at its start: a server that is read-only, or lacks a
        table or a right, would only be noticed when the leader has died.

        Args:
            name: of the checkpoint.

        Raises:
            CheckpointError: nothing can be saved under the name.
            ConfigurationError: the name is invalid.
        """
        check_name(name)
        await self._database.run(partial(_try_save, name))

    async def ring(self, name: str) -> bool:  # noqa: D102 - as the base class says
        check_name(name)
        return await self._database.run(partial(_ring_bell, name))

    async def count_rings(self, name: str) -> int:  # noqa: D102 - likewise
        check_name(name)
        return await self._database.run(partial(_count_rings, name))

    async def create_schema(self) -> None:
        """Make the tables that are missing; several processes may do so at once.

        The user of the connection must be allowed to make tables, unless all are there.

        Raises:
            CheckpointError: they could not be made.
        """
        await self._database.run(_create_schema)

    @asynccontextmanager
    async def transaction(self, connection: Any) -> AsyncIterator[CheckpointStore]:
        """Begin a transaction, and commit it at the end of the block.

        ``batch.transaction(connection)`` uses it. If the block fails, what it has written is
        undone. A connection on which the begin, a save or the commit was cancelled or took
        too long is closed, since its outcome is not known.

        Args:
            connection: of the same database, with the same ``search_path``; in no
                transaction, since the end of an inner one would decide nothing.

        Returns:
            A context manager that gives a store bound to the transaction.

        Raises:
            CheckpointError: the transaction could not be begun or committed; where it is
                ``retryable``, only a load shows whether the commit was made.
            ConfigurationError: the connection is not one of asyncpg's, or in a transaction.
        """
        database = _Connection("checkpoint store", connection, self._pool)
        transaction = await database.run(_begin_transaction)
        try:
            yield _BoundCheckpoints(_InTransaction("checkpoint store", connection, self._pool))
        except BaseException as error:
            await self._pool.leave_if_read_only(error)
            try:
                await database.run(lambda _: transaction.rollback())
            except CheckpointError:
                database.close()
            raise
        await database.run(lambda _: transaction.commit())


class PostgresTokenStore(TokenStore):
    """Share one access token between processes through a PostgreSQL database.

    Its table is made as those of `PostgresCheckpointStore` are, and what is said there of
    pools, PgBouncer and errors holds here as well. The token is not encrypted: a role that may
    read ``income_tokens`` has it. Grant SELECT, INSERT and UPDATE to the role of the processes
    that share it, and nothing to any other; backups of the database hold it, too, until it
    expires.

    Args:
        pool: from ``await asyncpg.create_pool(...)``; it stays yours to close. `from_url` makes a
            store that opens its own.
        key: which token: processes with the same address and credentials use the same.

    Raises:
        ConfigurationError: asyncpg is not installed, or an argument is invalid.
    """

    @strip_frames
    def __init__(self, pool: Any, key: str = "default") -> None:
        self._database = _pools_of("token store", pool)
        self.is_of_event_loop: Final = not isinstance(self._database, _OwnPools)
        """Whether the store is bound to the event loop that created the caller's pool;
        `SyncIncomeClient` refuses such a store."""
        check_name(key, "key")
        self._key = key
        self._claimer = uuid.uuid4().hex

    @classmethod
    @strip_frames
    def from_url(cls, url: str, key: str = "default") -> Self:
        """Return a store that opens and closes its own connections.

        Args:
            url: address of the database, as `PostgresCheckpointStore.from_url` takes it.
            key: which token.

        Returns:
            The store, which `SyncIncomeClient` takes as well; no connection is made yet.

        Raises:
            ConfigurationError: asyncpg is not installed, or an argument is invalid.
        """
        return cls(_OwnPools.of_url("token store", url), key)

    async def create_schema(self) -> None:
        """Make the tables that are missing; several processes may do so at once.

        Raises:
            CheckpointError: they could not be made.
        """
        await self._database.run(_create_schema)

    async def load(self) -> StoredToken | None:
        """Return the token that was saved last, or None.

        Raises:
            CheckpointError: the table cannot be read, or holds no valid token.
        """
        return await self._database.run(partial(_load_token, self._key))

    async def save(self, token: StoredToken) -> None:
        """Replace the saved token by this one, and end the claim.

        Args:
            token: the new one.

        Raises:
            CheckpointError: it was not saved.
            ConfigurationError: the argument is not a `StoredToken`.
        """
        check_type("token", token, StoredToken)
        await self._database.run(partial(_save_token, self._key, token))

    async def claim(self, seconds: float) -> bool:
        """Return whether this process is to renew the token.

        It is not while another process that claimed it less than ``seconds`` ago has saved no
        token yet. The server's clock counts, so that those of machines need not agree.

        Args:
            seconds: how long a claim holds.

        Raises:
            CheckpointError: the table cannot be used.
            ConfigurationError: the argument is invalid.
        """
        seconds = check_positive("seconds", seconds)
        return await self._database.run(partial(_claim_token, self._key, self._claimer, seconds))


# Statements


async def _create_schema(connection: Any) -> None:
    if not await connection.fetchval(_ARE_THERE):
        await connection.execute(_CREATE)


async def _load_checkpoint(name: str, connection: Any) -> StoredCheckpoint:
    row = await connection.fetchrow(_LOAD, name)
    checkpoint, version = (None, 0) if row is None else row
    return StoredCheckpoint(checkpoint=checkpoint, version=version)


async def _load_letters(name: str, connection: Any) -> tuple[DeadLetter, ...]:
    rows = await connection.fetch(_LOAD_LETTERS, name)
    return in_order(
        DeadLetter(
            application_id=row["application_id"],
            window=Window(row["window_after"], row["window_before"]),
            reason=row["reason"],
            attempts=row["attempts"],
            first_tried_at=row["first_tried_at"],
            last_tried_at=row["last_tried_at"],
        )
        for row in rows
    )


async def _change_letters(
    statement: str, name: str, keys: Sequence[str], connection: Any
) -> tuple[str, ...]:
    """Run a statement for the keys; return the keys that had a dead letter."""
    by_digest = {_digest_of(key): key for key in keys}
    rows = await connection.fetch(statement, name, list(by_digest))
    changed = {row["digest"] for row in rows}
    return tuple(key for digest, key in by_digest.items() if digest in changed)


async def _load_names(connection: Any) -> tuple[str, ...]:
    return tuple(row["name"] for row in await connection.fetch(_NAMES))


async def _ring_bell(name: str, connection: Any) -> bool:
    is_known: bool = await connection.fetchval(_RING, name)
    return is_known


async def _count_rings(name: str, connection: Any) -> int:
    rings: int | None = await connection.fetchval(_COUNT_RINGS, name)
    return rings or 0


async def _save_checkpoint(change: Change, connection: Any) -> int:
    version = min(change.version, _GREATEST)
    # Texts may be long: the server compares digests of them.
    replaced = None if change.replaces is None else _digest_of(change.replaces)
    values: tuple[Any, ...] = (change.name, change.checkpoint, version, replaced)
    statement = _SAVE
    if change.dead_letters or change.resolved:
        values, statement = (*values, *_changed_letters(change)), _SAVE_WITH_LETTERS
    saved: int | None = await connection.fetchval(statement, *values)
    if saved is None:
        stored = await _load_checkpoint(change.name, connection)
        raise change.conflict_error(stored.version)
    return saved


async def _try_save(name: str, connection: Any) -> None:
    # No checkpoint has this version; with a dead letter, the statement needs every right.
    with suppress(CheckpointConflictError):
        await _save_checkpoint(Change(name, "", _NO_VERSION, (), ("",)), connection)


def _changed_letters(change: Change) -> tuple[Any, ...]:
    """Return the digests of the removed letters, and the columns of the added ones."""
    letters = {_digest_of(letter.key): in_whole_seconds(letter) for letter in change.dead_letters}
    # A statement changes a row once: one that is replaced is not removed before.
    removed = {_digest_of(key) for key in change.resolved} - letters.keys()
    rows = [_letter_row(digest, letter) for digest, letter in letters.items()]
    return removed, *(zip(*rows, strict=True) if rows else ((),) * _LETTER_COLUMNS)


def _digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _letter_row(digest: str, letter: DeadLetter) -> tuple[Any, ...]:
    return (
        digest,
        letter.application_id,
        letter.window.after,
        letter.window.before,
        letter.reason,
        letter.attempts,
        letter.first_tried_at,
        letter.last_tried_at,
    )


async def _load_token(key: str, connection: Any) -> StoredToken | None:
    row = await connection.fetchrow(_LOAD_SHARED, key)
    if row is None:
        return None
    token, expires_at, lifetime = row
    try:
        return StoredToken(access_token=Secret(token), expires_at=expires_at, lifetime=lifetime)
    except ConfigurationError as error:
        raise CheckpointError(f"token store in PostgreSQL: {error.message}") from None


async def _save_token(key: str, token: StoredToken, connection: Any) -> None:
    text = token.access_token.reveal()
    await connection.execute(_SAVE_SHARED, key, text, token.expires_at, token.lifetime)


async def _claim_token(key: str, claimer: str, seconds: float, connection: Any) -> bool:
    return await connection.fetchval(_CLAIM, key, claimer, seconds) is not None


async def _begin_transaction(connection: Any) -> Any:
    if not connection.is_closed() and connection.is_in_transaction():
        raise InvalidArgumentError("connection must be in no transaction", argument="connection")
    transaction = connection.transaction()
    await transaction.start()
    return transaction


# Connections


def _import_asyncpg() -> Any:
    try:
        import asyncpg  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        raise ConfigurationError(
            "the stores in PostgreSQL need a library: pip install 'income-client[postgres]'"
        ) from None
    return asyncpg


@frozen
class _Pool:
    """An asyncpg pool of the caller's."""

    what: str
    """Name of the pool in messages."""
    pool: Any = field(repr=False)

    async def run(self, work: Work[T]) -> T:
        """Run statements on a connection of the pool, and give the connection back."""
        return await replace_errors(lambda: self._run_work(work), self._translate_error)

    async def _run_work(self, work: Work[T]) -> T:
        try:
            async with asyncio.timeout(_SECONDS):
                connection = await self.pool.acquire()
                try:
                    return await work(connection)
                finally:
                    await self._give_back(connection)
        except Exception as error:
            await self.leave_if_read_only(error)
            raise

    async def _give_back(self, connection: Any) -> None:
        """Return a connection to the pool, also after a cancellation: asyncpg would leave a task.

        The server has to end a cancelled statement, or the connection is closed.
        """
        releasing = asyncio.gather(
            self.pool.release(connection, timeout=_RELEASE_SECONDS), return_exceptions=True
        )
        cancellation = await wait_for_end(releasing)
        if cancellation is not None:
            raise cancellation

    async def leave_if_read_only(self, error: BaseException) -> None:
        """Make every session connect anew if its server has become read-only."""
        if getattr(error, "sqlstate", None) == _READ_ONLY:
            await self.pool.expire_connections()

    def _translate_error(self, error: Exception) -> IncomeClientError:
        if _is_misuse(error) and self.pool.is_closing():
            return _store_error(self.what, "the pool is closed")
        if _is_misuse(error) and "not initialized" in str(error):
            return _store_error(self.what, "the pool is not open: await asyncpg.create_pool(...)")
        return _translate_error(self.what, error)


@frozen
class _OwnPools:
    """The pools that a store opens itself, one for each event loop that uses the store."""

    what: str
    """Name of the pools in messages."""
    url: Secret
    _opened: dict[asyncio.AbstractEventLoop, tuple[_Pool, AsyncGenerator[Any, None]]] = field(
        factory=dict, repr=False
    )

    @classmethod
    def of_url(cls, what: str, url: object) -> Self:
        """Return the pools of a server's address; raise `ConfigurationError` for another text."""
        _import_asyncpg()
        if not isinstance(url, str) or not url.startswith(_SCHEMES):
            message = "url must begin with postgresql://, as in postgresql://user@host/database"
            raise InvalidArgumentError(message, argument="url")
        return cls(what, Secret(url))

    async def run(self, work: Work[T]) -> T:
        """Run statements on a connection of the running loop's pool."""
        pool = await self._open()
        return await pool.run(work)

    async def leave_if_read_only(self, error: BaseException) -> None:
        """Make every session connect anew if its server has become read-only."""
        pool = await self._open()
        await pool.leave_if_read_only(error)

    async def _open(self) -> _Pool:
        """Return the running loop's pool, which this makes if it is missing."""
        loop = asyncio.get_running_loop()
        if loop not in self._opened:
            lending = self._lend_pool(loop)
            # No other task runs meanwhile: an empty pool awaits nothing.
            self._opened[loop] = _Pool(self.what, await anext(lending)), lending
        return self._opened[loop][0]

    async def _lend_pool(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[Any, None]:
        """Yield a new pool, and close it when the loop shuts its asynchronous generators down."""
        pool = await _import_asyncpg().create_pool(
            self.url.reveal(),
            min_size=0,
            max_size=_POOL_SIZE,
            statement_cache_size=0,  # PgBouncer may stand before the server
        )
        try:
            yield pool
        finally:
            del self._opened[loop]
            with suppress(Exception):  # a connection that ends badly has ended
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await pool.close()


def _pools_of(what: str, pool: object) -> _Pools:
    """Return a caller's pool, checked, or a store's own ones."""
    if isinstance(pool, _OwnPools):
        return pool
    if not isinstance(pool, _import_asyncpg().Pool):
        raise invalid("pool", "what asyncpg.create_pool() has returned", pool)
    return _Pool(what, pool)


@frozen
class _Connection:
    """A connection of the caller's, in a transaction."""

    what: str
    """Name of the connection in messages."""
    connection: Any = field()
    pool: _Pools
    """Pool of the store, which has probably reached the same server."""

    @connection.validator
    def _check_connection(self, _attribute: object, connection: object) -> None:
        library = _import_asyncpg()
        if not isinstance(connection, library.Connection | library.pool.PoolConnectionProxy):
            raise invalid("connection", "a connection of asyncpg", connection)

    async def run(self, work: Work[T]) -> T:
        """Run statements on the connection; close it if their outcome is unknown."""
        return await replace_errors(
            lambda: self._run_work(work), partial(_translate_error, self.what)
        )

    async def _run_work(self, work: Work[T]) -> T:
        try:
            async with asyncio.timeout(_SECONDS):
                return await work(self.connection)
        except (asyncio.CancelledError, TimeoutError):
            self.close()
            raise
        except Exception as error:
            await self.pool.leave_if_read_only(error)
            raise

    def close(self) -> None:
        """Close the connection without a reply; the server then undoes its transaction."""
        with suppress(Exception):  # that of a pool, closed before, is no more
            self.connection.terminate()


class _InTransaction(_Connection):
    """A connection while the caller's block runs, which must not end its transaction."""

    async def run(self, work: Work[T]) -> T:
        """Run statements in the caller's transaction."""

        async def checked(connection: Any) -> T:
            if not connection.is_closed() and not connection.is_in_transaction():
                raise ConfigurationError("the block has ended the transaction that it is to commit")
            return await work(connection)

        return await super().run(checked)


def _is_misuse(error: Exception) -> bool:
    """Return whether asyncpg refused a call, as it does on a lost connection."""
    return isinstance(error, _import_asyncpg().InterfaceError) and not isinstance(error, ValueError)


def _translate_error(what: str, error: Exception) -> IncomeClientError:
    """Return an error of the package for an exception of asyncpg or the system."""
    if isinstance(error, TimeoutError):
        return _store_error(what, "the server did not answer in time", retryable=True)
    code = getattr(error, "sqlstate", None)
    if isinstance(code, str):
        answer_key = _STATEMENT_MODE if _STATEMENT_MODE in str(error) else code
        reason, retryable = _ANSWERS.get(answer_key) or _ANSWERS.get(code[:2]) or ("refused", False)
        return _store_error(what, f"{reason} (SQLSTATE {code})", retryable=retryable)
    if isinstance(error, OSError):
        return _store_error(what, _describe_connecting(error), retryable=True)
    if isinstance(error, _import_asyncpg().ClientConfigurationError) or type(error) is ValueError:
        return _store_error(what, "the server's address, or an option in it, is invalid")
    if _is_misuse(error) or isinstance(error, _import_asyncpg().InternalClientError):
        is_unlike = isinstance(error, _import_asyncpg().TargetServerAttributeNotMatched)
        return _store_error(what, _NO_SUCH_SERVER if is_unlike else _LOST, retryable=True)
    return _store_error(what, f"the driver failed: {type(error).__name__}")


def _describe_connecting(error: OSError) -> str:
    """Return why no connection was made; the system's text could show an address."""
    if isinstance(error, socket.gaierror):
        return find_shortage() or "the server's host name was not found"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the server's certificate was not accepted: {printable(error.verify_message)}"
    return shortage_in(error) or "the server cannot be reached"


def _store_error(what: str, reason: str, *, retryable: bool = False) -> CheckpointError:
    return CheckpointError(f"{what} in PostgreSQL: {reason}", retryable=retryable)
