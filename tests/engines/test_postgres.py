"""Checkpoints in PostgreSQL: the contract of a store, and its faults."""

import asyncio
import contextlib
import re
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import asyncpg
import pytest
import trustme
from attrs import evolve

from income_client import (
    CheckpointConflictError,
    CheckpointError,
    ConfigurationError,
    StoredCheckpoint,
    SyncIncomeClient,
)
from income_client.emulator import Emulator
from income_client.engines import postgres as postgres_module
from income_client.engines.postgres import SCHEMA, PostgresCheckpointStore, PostgresTokenStore
from income_client.errors import copy_without_traceback
from income_client.testing import check_checkpoint_store
from tests.support.canaries import CANARY, held_by
from tests.support.disk import letter, without_descriptors
from tests.support.postgres import CommitCutter, PostgresServer
from tests.support.processes import beside

SECRET: Final = "s3same"
LOCK: Final = "SELECT FROM income_checkpoints WHERE name = 'default' FOR UPDATE"
WAITING: Final = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


def url_of(server: PostgresServer) -> str:
    """Return the address of a server, to which more options can be appended."""
    return f"postgresql://postgres@/postgres?host={server.folder}&application_name=own"


async def failure(work: Awaitable[object]) -> CheckpointError:
    """Return the error of a call, whose text shows no checkpoint; nothing shows the server."""
    with pytest.raises(CheckpointError) as caught:
        await work
    error = caught.value
    assert (error.__cause__, error.__context__) == (None, None)
    assert CANARY not in held_by(copy_without_traceback(error))
    assert not any(secret in held_by(error) for secret in (SECRET, "/postgres-"))
    return error


async def waiting(server: PostgresServer) -> int:
    pid: int | None = None
    async with asyncio.timeout(30):
        while pid is None:
            pid = await server.run(WAITING)
    return pid


@contextlib.asynccontextmanager
async def locked(pool: Any, store: PostgresCheckpointStore) -> AsyncIterator[None]:
    """Save a checkpoint, and hold its row until the block ends."""
    await store.save("default", "one", version=0)
    async with pool.acquire() as holder, holder.transaction():
        await holder.execute(LOCK)
        yield


# The contract


@pytest.mark.parametrize("options", [{}, {"statement_cache_size": 0}], ids=["usual", "PgBouncer"])
async def test_the_rules_of_a_store_are_kept(
    postgres: PostgresServer, options: dict[str, Any]
) -> None:
    """Also without prepared statements, and by versions that the database cannot hold."""
    async with postgres.pool(**options) as pool:
        store = PostgresCheckpointStore(pool)
        await store.create_schema()

        async def emptied() -> PostgresCheckpointStore:
            await pool.execute("TRUNCATE income_checkpoints, income_dead_letters")
            return store

        await check_checkpoint_store(emptied)
        with pytest.raises(CheckpointConflictError, match="at version 0, not at"):
            await (await emptied()).save("default", "one", version=2**70)


async def test_a_store_opens_its_own_connections(postgres: PostgresServer) -> None:
    """They are made on the first call in an event loop, and closed when that loop ends."""
    async with postgres.pool() as pool:
        url = f"{url_of(postgres)}&search_path={await pool.fetchval('SELECT current_schema()')}"
        store, tokens = PostgresCheckpointStore.from_url(url), PostgresTokenStore.from_url(url)

        async def use() -> int:
            await store.create_schema()
            saved = await store.save("default", "one", version=0)
            await asyncio.gather(*(store.load("default") for _ in range(8)))
            return saved

        async def clients() -> int:
            count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'own'"
            open_ones: int = await pool.fetchval(count)
            return open_ones

        assert await asyncio.to_thread(asyncio.run, use()) == 1
        async with asyncio.timeout(30):
            while await clients():  # noqa: ASYNC110 - the server sets no event
                await asyncio.sleep(0.01)
        assert (await store.load("default")).version == 1
        assert await tokens.load() is None
        assert await clients() == 2
        for one in (store, tokens):
            assert not one.is_of_event_loop
            assert "host=" not in repr(vars(one))


def test_a_store_in_postgresql_serves_code_that_is_not_asynchronous(
    postgres: PostgresServer,
) -> None:
    """Each client runs an event loop of its own; the second one resumes where the first ended."""
    schema = "of_threads"
    asyncio.run(postgres.run(f"CREATE SCHEMA {schema}"))
    store = PostgresCheckpointStore.from_url(f"{url_of(postgres)}&search_path={schema}")
    asyncio.run(store.create_schema())
    with beside(Emulator(3)) as service:
        for expected in (3, 0):
            with SyncIncomeClient(service.url, auth=service.basic) as client:
                poller = client.poll(store, start="2000-01-01", once=True)
                assert len(list(poller)) == expected


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (f"postgresql://poller:{SECRET}@127.0.0.1:port/lending", "address, or an option"),
        (f"postgresql://poller:{SECRET}@127.0.0.1/lending?sslmode=some", "address, or an option"),
        (f"postgresql://poller:{SECRET}@127.0.0.1:1/lending", "cannot be reached"),
    ],
)
async def test_the_address_of_a_store_is_never_shown(url: str, said: str) -> None:
    """A password in it stays secret, also where no server or no such option exists."""
    assert said in str(await failure(PostgresCheckpointStore.from_url(url).load("default")))


@pytest.mark.parametrize("make", [PostgresCheckpointStore.from_url, PostgresTokenStore.from_url])
def test_an_address_of_another_kind_is_refused(make: Callable[[Any], object]) -> None:
    """Neither the message nor a frame shows what was given."""
    for wrong in (f"mysql://poller:{SECRET}@127.0.0.1/lending", None):
        with pytest.raises(ConfigurationError, match="must begin with postgresql://") as caught:
            make(wrong)
        assert caught.traceback[-1].path == Path(__file__)


async def test_dead_letters_are_kept_whatever_the_service_sends(
    store: PostgresCheckpointStore,
) -> None:
    """An index holds 2,700 bytes of a value; ids of applications may be longer."""
    long = evolve(letter(1), application_id="".join(chr(0x4E00 + n) for n in range(9000)))
    fine = evolve(letter(2), first_tried_at=letter(2).first_tried_at.replace(microsecond=7))
    await store.save("default", "one", version=0, dead_letters=[long, fine])
    assert await store.dead_letters("default") == (long, letter(2))
    await store.save("default", "two", version=1, resolved=[long.key])
    assert await store.dead_letters("default") == (letter(2),)


async def test_tables_are_made_once(postgres: PostgresServer) -> None:
    """Also when many processes do so at the same time; what they hold stays."""
    async with postgres.pool() as pool:
        await asyncio.gather(*(PostgresCheckpointStore(pool).create_schema() for _ in range(8)))
        store = PostgresCheckpointStore(pool)
        await store.save("default", "one", version=0)
        await PostgresTokenStore(pool).create_schema()
        assert (await store.load("default")).version == 1


async def test_the_rights_named_in_the_sql_are_enough(postgres: PostgresServer, pool: Any) -> None:
    """An administrator has created the tables and granted the rights that the SQL names."""
    await pool.execute(SCHEMA)
    schema = await pool.fetchval("SELECT current_schema()")
    user = f"user_of_{schema}"
    await pool.execute(f"CREATE ROLE {user} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {user}")
    async with postgres.pool(schema, user=user) as narrow:
        store, tokens = PostgresCheckpointStore(narrow), PostgresTokenStore(narrow)
        for work in (store.load("default"), store.save("default", CANARY, version=0)):
            error = await failure(work)
            assert not error.retryable
            assert "rights" in str(error)
        grants = [line for line in SCHEMA.splitlines() if ";" in line and "GRANT" in line]
        for line in grants:
            await pool.execute(re.sub(r"TO \w+;", f"TO {user};", line.strip("- ")))
        await store.create_schema()
        saved = await store.save("default", "one", version=0, dead_letters=[letter(1)])
        await store.save("default", "two", version=saved, resolved=[letter(1).key])
        assert await store.forget("default", [letter(1).key]) == ()
        await store.ring("default")
        assert await store.count_rings("default") == 1
        assert await tokens.claim(10)
        assert await tokens.load() is None


async def test_a_call_that_is_cancelled_gives_its_connection_back_first(
    postgres: PostgresServer,
) -> None:
    """Otherwise a closed poller would leave a task that closing the pool would break."""
    resetting, may_end = asyncio.Event(), asyncio.Event()

    async def reset(_: object) -> None:
        resetting.set()
        await may_end.wait()

    async with postgres.pool(reset=reset) as pool:
        calling = asyncio.create_task(PostgresCheckpointStore(pool).load("default"))
        await resetting.wait()
        calling.cancel()
        await asyncio.wait([calling], timeout=0.01)
        assert not calling.done()
        may_end.set()
        await asyncio.wait([calling])
        assert calling.cancelled()


async def test_a_name_that_cannot_be_stored_is_refused(store: PostgresCheckpointStore) -> None:
    """Before the server is asked, by each call, as other stores refuse it."""
    names: list[Any] = ["", "c4n4ry\0", "c4n4ry\ud800", 5, None]
    for name in names:
        for call in (store.load, store.dead_letters, partial(store.save, checkpoint="", version=0)):
            with pytest.raises(ConfigurationError, match="name must be a str"):
                await call(name)


# Faults


PASSING: Final = "08006 25006 25P03 25P04 40001 40P01 53300 55P03 57014 57P01 57P03 58030 XX000"
FINAL: Final = "22P05 25P02 26000 28P01 3D000 3F000 42501 42703 42P01 42P05 23505 42601"


async def test_each_code_of_a_server_is_tried_again_or_not(
    pool: Any, store: PostgresCheckpointStore
) -> None:
    """A fault that passes does not end a poller, one that stays does."""
    await pool.execute("DROP TABLE income_checkpoints")
    function = "FUNCTION fail() RETURNS text LANGUAGE plpgsql"
    columns = "'default'::text AS name, fail() AS checkpoint, 1::bigint AS version"
    await pool.execute(f"CREATE {function} AS 'BEGIN END'")
    await pool.execute(f"CREATE VIEW income_checkpoints AS SELECT {columns}")
    for code in f"{PASSING} {FINAL}".split():
        raising = f"RAISE EXCEPTION USING ERRCODE = '{code}', MESSAGE = '{CANARY}'"
        await pool.execute(f"CREATE OR REPLACE {function} AS $$ BEGIN {raising}; END $$")
        error = await failure(store.load("default"))
        assert f"SQLSTATE {code}" in str(error)
        assert error.retryable is (code in PASSING), code


def with_setting(**settings: str) -> dict[str, Any]:
    return {"server_settings": settings}


@pytest.mark.parametrize(
    ("settings", "retryable", "said"),
    [
        ({"database": "elsewhere"}, False, "no such database"),
        ({"user": "nobody-here", "password": SECRET}, False, "refused the user"),
        ({"host": "/tmp/postgres-gone"}, True, "cannot be reached"),
        ({"host": "127.0.0.1", "port": 1}, True, "cannot be reached"),
        (with_setting(search_path="none"), False, "create_schema.*income-client schema"),
        ({"host": "no-such-host.invalid"}, True, "host name was not found"),
        (with_setting(default_transaction_read_only="on"), True, "read-only"),
        (
            {
                **with_setting(default_transaction_read_only="on"),
                "target_session_attrs": "read-write",
            },
            True,
            "target_session_attrs asks; it may be read-only",
        ),
        (with_setting(statement_timeout="1"), True, "ended the call"),
        (with_setting(lock_timeout="1"), True, "lock"),
        (with_setting(no_such_setting="on"), False, "SQLSTATE 42704"),
    ],
    ids=str,
)
async def test_faults_of_a_server(
    postgres: PostgresServer,
    pool: Any,
    store: PostgresCheckpointStore,
    settings: dict[str, Any],
    retryable: bool,
    said: str,
) -> None:
    schema = await pool.fetchval("SELECT current_schema()")
    async with postgres.pool(schema, **settings) as other, locked(pool, store):
        error = await failure(PostgresCheckpointStore(other).save("default", CANARY, version=1))
    assert error.retryable is retryable
    with pytest.raises(CheckpointError, match=said):
        raise error
    assert (await store.load("default")).checkpoint == "one"


async def test_a_process_without_descriptors_is_named(
    postgres: PostgresServer, pool: Any, store: PostgresCheckpointStore
) -> None:
    """Not the server, which works."""
    schema = await pool.fetchval("SELECT current_schema()")
    async with postgres.pool(schema) as other:
        with without_descriptors():
            error = await failure(PostgresCheckpointStore(other).load("default"))
    assert error.retryable
    assert "this process has no file descriptor left" in str(error)


async def test_an_expired_certificate_of_a_server_is_named() -> None:
    authority = trustme.CA()
    expired = datetime.now(UTC) - timedelta(days=1)
    certificate = authority.issue_cert("127.0.0.1", not_after=expired)
    server_side, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    certificate.configure_cert(server_side)
    authority.configure_trust(trusting)
    server = await asyncio.start_server(
        lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=server_side
    )
    port = server.sockets[0].getsockname()[1]
    async with (
        server,
        asyncpg.create_pool(
            host="127.0.0.1", port=port, user="u", ssl=trusting, direct_tls=True, min_size=0
        ) as pool,
    ):
        error = await failure(PostgresCheckpointStore(pool).load("default"))
    assert "the server's certificate was not accepted: certificate has expired" in str(error)


async def test_a_call_that_is_cancelled_changes_nothing(
    postgres: PostgresServer, pool: Any, store: PostgresCheckpointStore
) -> None:
    """And gives its connection back."""
    async with locked(pool, store):
        saving = asyncio.ensure_future(store.save("default", CANARY, version=1))
        await waiting(postgres)
        saving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await saving
        assert pool.get_idle_size() == pool.get_size() - 1
    assert await store.load("default") == StoredCheckpoint(checkpoint="one", version=1)


async def test_a_call_ends_where_the_server_does_not_answer(
    pool: Any, store: PostgresCheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After ten seconds, which are fewer here."""
    async with locked(pool, store):
        with monkeypatch.context() as patched:
            patched.setattr(postgres_module, "_SECONDS", 0.05)
            error = await failure(store.save("default", CANARY, version=1))
    assert error.retryable
    assert (await store.load("default")).version == 1


async def test_a_save_is_not_made_long_after_it_was_asked_for(
    pool: Any, store: PostgresCheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process may be gone meanwhile, so the server itself stops waiting after ten seconds."""
    soon = postgres_module._SAVE.replace("10000", "50")
    async with locked(pool, store):
        monkeypatch.setattr(postgres_module, "_SAVE", soon)
        error = await failure(store.save("default", CANARY, version=1))
        assert error.retryable
        assert "SQLSTATE 55P03" in str(error)
        assert not await pool.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted")
    assert await pool.fetchval("SHOW lock_timeout") == "0"


async def test_a_pool_that_is_closed_or_not_open_is_named(postgres: PostgresServer) -> None:
    async with postgres.pool() as pool:
        store = PostgresCheckpointStore(pool)
    unopened = PostgresCheckpointStore(asyncpg.create_pool(**postgres.address()))
    for one, said in ((store, "is closed"), (unopened, "await asyncpg.create_pool")):
        error = await failure(one.load("default"))
        assert not error.retryable
        assert said in str(error)


@pytest.mark.parametrize("make", [PostgresCheckpointStore, PostgresTokenStore])
def test_what_is_no_pool_is_refused(make: Callable[[Any], object]) -> None:
    """A URL, for example, is refused and not shown."""
    with pytest.raises(ConfigurationError, match=r"pool must be .*create_pool.*type str"):
        make(f"postgresql://me:{CANARY}@host/lending")


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The class imports without the extra; its constructor says what to install."""
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(ConfigurationError, match=r"income-client\[postgres\]"):
        PostgresCheckpointStore(object())


# Transactions of the caller's


async def test_a_transaction_saves_with_the_rows_of_the_caller(
    pool: Any, store: PostgresCheckpointStore
) -> None:
    """Both or neither, and nobody sees them before the end."""
    await pool.execute("CREATE TABLE rows (id text)")
    async with pool.acquire() as connection:
        async with store.transaction(connection) as bound:
            await connection.execute("INSERT INTO rows VALUES ('a')")
            assert await bound.save("default", "one", version=0, dead_letters=[letter(1)]) == 1
            assert await bound.dead_letters("default") == (letter(1),)
            assert (await store.load("default")).version == 0

        async def fail() -> None:
            async with store.transaction(connection) as bound:
                await connection.execute("INSERT INTO rows VALUES ('b')")
                await bound.save("default", "two", version=1)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        assert not connection.is_in_transaction()
        assert await connection.fetchval("SELECT string_agg(id, ',') FROM rows") == "a"
    assert (await store.load("default")).checkpoint == "one"


@pytest.mark.parametrize(
    ("usual", "limited"), [("0", "15s"), ("1h", "15s"), ("90s", "15s"), ("1500ms", "1500ms")]
)
async def test_the_silence_of_a_transaction_is_limited(
    postgres: PostgresServer, usual: str, limited: str
) -> None:
    """To what was asked for, or to the server's own limit if that is lower; for it alone."""
    idle = "idle_in_transaction_session_timeout"
    async with postgres.pool(server_settings={idle: usual}) as pool:
        store: Any = PostgresCheckpointStore(pool)
        await store.create_schema()
        async with pool.acquire() as connection:
            async with store.transaction(connection) as bound:
                await bound.end_when_idle(15)
                assert await connection.fetchval(f"SHOW {idle}") == limited
                await bound.save("default", "one", version=0)
            before = await connection.fetchval(f"SELECT '{usual}'::interval")
            after = await connection.fetchval(f"SELECT current_setting('{idle}')::interval")
            assert after == before


async def test_a_pooler_that_keeps_no_transaction_is_named(postgres: PostgresServer) -> None:
    """PgBouncer in statement mode answers so to BEGIN, and closes the connection."""
    cutter = CommitCutter(postgres, refuses_transactions=True)
    async with cutter.listening() as folder, postgres.pool(host=folder) as pool:
        store = PostgresCheckpointStore(pool)

        async def begin() -> None:
            async with pool.acquire() as connection, store.transaction(connection):
                raise AssertionError

        error = await failure(begin())
    assert not error.retryable
    assert "statement mode" in str(error)


async def test_a_connection_in_a_transaction_is_refused(
    pool: Any, store: PostgresCheckpointStore
) -> None:
    """The end of an inner transaction is not that of the outer one."""
    async with pool.acquire() as connection, connection.transaction():
        with pytest.raises(ConfigurationError, match="transaction"):
            async with store.transaction(connection):
                raise AssertionError
        assert connection.is_in_transaction()
    with pytest.raises(ConfigurationError, match="connection must be"):
        async with store.transaction(pool):
            raise AssertionError

    async def begin() -> None:
        async with store.transaction(connection):
            raise AssertionError

    assert (await failure(begin())).retryable  # it was given back


async def test_a_block_that_ends_its_transaction_stores_nothing(
    pool: Any, store: PostgresCheckpointStore
) -> None:
    """The block's rows are rolled back, so the checkpoint must not move."""

    async def undo() -> None:
        async with pool.acquire() as connection, store.transaction(connection) as bound:
            await connection.execute("ROLLBACK")
            await bound.save("default", "one", version=0)

    with pytest.raises(ConfigurationError, match="ended the transaction"):
        await undo()
    assert (await store.load("default")).version == 0


async def test_a_save_that_is_cancelled_in_a_transaction_closes_the_connection(
    postgres: PostgresServer, pool: Any, store: PostgresCheckpointStore
) -> None:
    """The transaction can then not be committed, and nobody waits for the server."""

    async def save(connection: Any) -> None:
        async with store.transaction(connection) as bound:
            await bound.save("default", CANARY, version=1)

    async with locked(pool, store), pool.acquire() as connection:
        saving = asyncio.ensure_future(save(connection))
        await waiting(postgres)
        saving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await saving
    assert (await store.load("default")).version == 1


class FailingConnection(asyncpg.Connection):  # type: ignore[misc]
    """Cannot undo transactions, and is confused by a reply."""

    async def execute(self, query: str, *args: Any, **options: Any) -> Any:
        if query.startswith("ROLLBACK"):
            raise ConnectionResetError
        return await super().execute(query, *args, **options)

    async def fetchrow(self, *_args: Any, **_options: Any) -> Any:
        raise asyncpg.InternalClientError("got result for unknown protocol state 3")


async def test_a_connection_that_the_driver_has_lost_track_of_is_no_end(
    postgres: PostgresServer, pool: Any
) -> None:
    """The next call gets another one; one whose transaction cannot be undone is closed.

    Otherwise the next user of the pool would be given a connection that is in a transaction.
    """
    schema = await pool.fetchval("SELECT current_schema()")
    async with postgres.pool(schema, connection_class=FailingConnection) as other:
        failing = PostgresCheckpointStore(other)
        error = await failure(failing.load("default"))
        assert error.retryable
        async with other.acquire() as connection:
            with pytest.raises(ZeroDivisionError):
                async with failing.transaction(connection):
                    raise ZeroDivisionError
            with pytest.raises(asyncpg.InterfaceError):
                await connection.fetchval("SELECT 1")
