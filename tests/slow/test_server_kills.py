"""Stores in PostgreSQL and Redis while servers are killed, frozen or replaced (promises 8, 9)."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import asyncpg
import pytest
from redis.asyncio import RedisCluster
from redis.asyncio.sentinel import Sentinel
from redis.exceptions import RedisError

from income_client import CheckpointError, Poller
from income_client.engines import postgres
from income_client.engines.postgres import PostgresCheckpointStore
from income_client.engines.redis import RedisCheckpointStore, RedisTokenStore
from income_client.testing import check_checkpoint_store
from tests.support.kills import poll_among_kills, save_among_kills, share_of
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.redis_server import (
    DURABLE,
    RedisServer,
    needs_redis,
    redis_client,
    running_redis,
    running_redis_cluster,
    running_sentinel,
    unused_prefix,
)

LOST: Final = (
    CheckpointError, asyncpg.InterfaceError, asyncpg.InternalClientError, asyncpg.PostgresError,
    OSError,
)  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """Run a server, which starts again after each kill."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    """Run a server of the test's own."""
    yield from running_redis(tmp_path, *DURABLE, "--repl-diskless-sync-delay", "0")


@pytest.fixture
def kills(pytestconfig: pytest.Config) -> int:
    return share_of(pytestconfig, 0.4)


async def test_a_killed_postgres_loses_nothing_that_was_saved(
    server: PostgresServer, kills: int
) -> None:
    async with server.pool() as pool:
        store = PostgresCheckpointStore(pool)
        await store.create_schema()
        await save_among_kills(server, kills, store)


@needs_redis
async def test_a_killed_redis_loses_nothing_that_was_saved(
    redis_server: RedisServer, kills: int
) -> None:
    async with redis_client(redis_server) as redis:
        await save_among_kills(redis_server, kills, RedisCheckpointStore(redis))


async def test_each_update_takes_effect_once_although_postgres_is_killed(
    server: PostgresServer, kills: int
) -> None:
    """Rows and checkpoint are committed together, and what was committed does not come again."""
    failures = 0

    async def consume(poller: Poller) -> None:
        nonlocal failures
        async for batch in poller.batches():
            try:
                async with batch, pool.acquire() as connection, batch.transaction(connection):
                    ids = [(record.application_id,) for record in batch]
                    await connection.executemany("INSERT INTO rows VALUES ($1)", ids)
            except LOST:
                failures += 1

    async with server.pool() as pool:
        store = PostgresCheckpointStore(pool)
        await store.create_schema()
        await pool.execute("CREATE TABLE rows (id text)")
        updated = await poll_among_kills(server, kills, store, consume)
        rows = await pool.fetch("SELECT id FROM rows")
    assert sorted(row["id"] for row in rows) == sorted(updated)
    assert failures > 0


@needs_redis
async def test_each_update_is_delivered_once_although_redis_is_killed(
    redis_server: RedisServer, kills: int
) -> None:
    """A save whose answer was lost is found again, and its batch does not come again."""
    delivered: list[str] = []

    async def consume(poller: Poller) -> None:
        async for record in poller:
            delivered.append(record.application_id)  # noqa: PERF401 - while the poller runs

    async with redis_client(redis_server) as redis:
        store = RedisCheckpointStore(redis)
        updated = await poll_among_kills(redis_server, kills, store, consume)
    assert sorted(delivered) == sorted(updated)


@pytest.mark.parametrize("is_cancelled", [False, True])
@pytest.mark.parametrize("in_transaction", [False, True])
async def test_calls_end_although_the_server_is_frozen(
    server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
    is_cancelled: bool,
    in_transaction: bool,
) -> None:
    """After their time, or once they are cancelled; a transaction is undone later."""
    async with server.pool(max_size=1) as pool:
        store = PostgresCheckpointStore(pool)
        await store.create_schema()
        await store.save("default", "one", version=0)
        monkeypatch.setattr(postgres, "_SECONDS", 60.0 if is_cancelled else 0.2)
        pids = (server.pid, await pool.fetchval("SELECT pg_backend_pid()"))

        async def save() -> None:
            if not in_transaction:
                _send(signal.SIGSTOP, pids)
                await store.save("default", "two", version=1)
                return
            async with pool.acquire() as connection, store.transaction(connection) as bound:
                _send(signal.SIGSTOP, pids)
                await bound.save("default", "two", version=1)

        saving = asyncio.ensure_future(save())
        try:
            await asyncio.wait([saving], timeout=0.1 if is_cancelled else 30.0)
            saving.cancel()
            await asyncio.wait([saving], timeout=30.0)
            assert saving.done()
        finally:
            _send(signal.SIGCONT, pids)
        assert saving.cancelled() is is_cancelled
        error = None if is_cancelled else saving.exception()
        assert is_cancelled or (isinstance(error, CheckpointError) and error.retryable)
        monkeypatch.undo()
        assert (await store.load("default")).version in ((1,) if in_transaction else (1, 2))


def _send(number: signal.Signals, pids: Sequence[int]) -> None:
    for pid in pids:
        os.kill(pid, number)


@needs_redis
async def test_the_server_of_this_machine_keeps_the_rules(redis_server: RedisServer) -> None:
    """It is older than the one that the default tests run."""
    async with redis_client(redis_server) as redis:
        await check_checkpoint_store(lambda: RedisCheckpointStore(redis, unused_prefix()))


@needs_redis
async def test_a_cluster_keeps_the_rules(tmp_path: Path) -> None:
    """Each name is on one of its nodes; a ring reaches all of them, and the driver follows."""
    with running_redis_cluster(tmp_path) as servers:
        async with RedisCluster.from_url(servers[0].url) as cluster:
            await check_checkpoint_store(lambda: RedisCheckpointStore(cluster, unused_prefix()))
            tokens = RedisTokenStore(cluster)
            assert await tokens.claim(10)
            assert await tokens.load() is None
        async with redis_client(servers[0]) as node:
            store = RedisCheckpointStore(node)
            errors = [await failure_of(store.load(name)) for name in map(str, range(20))]
            moved = [error for error in errors if error is not None]
            assert 0 < len(moved) < len(errors)
            assert all("another node of the cluster has the key" in str(one) for one in moved)


async def failure_of(work: Awaitable[object]) -> CheckpointError | None:
    """Return the error of a call, if it has failed."""
    try:
        await work
    except CheckpointError as error:
        return error
    return None


@needs_redis
async def test_a_sentinel_leads_a_store_to_the_server_that_has_taken_over(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    """Once the primary is lost; the version and the mark are those of the replica then."""
    folder = tmp_path / "replica"
    folder.mkdir()
    following = ("--replicaof", f"127.0.0.1 {redis_server.port}")
    for replica in running_redis(folder, *DURABLE, *following):
        with running_sentinel(tmp_path, redis_server) as port:
            sentinel = Sentinel([("127.0.0.1", port)])  # type: ignore[no-untyped-call]
            async with redis_client(replica) as follower:
                while not (await sentinel_knows(sentinel)):
                    await follower.ping()
            async with sentinel.master_for("primary") as redis:
                store = RedisCheckpointStore(redis)
                await store.save("default", "one", version=0)
                await redis.wait(1, 10_000)
                redis_server.kill()
                while error := await failure_of(store.save("default", "two", version=1)):
                    assert error.retryable
                assert (await store.load("default")).checkpoint == "two"
                async with redis_client(replica) as promoted:
                    assert (await RedisCheckpointStore(promoted).load("default")).version == 2
            for one in sentinel.sentinels:
                await one.aclose()


async def sentinel_knows(sentinel: Sentinel) -> bool:
    """Return whether it knows a replica that can take over."""
    with suppress(RedisError):
        return bool(await sentinel.discover_slaves("primary"))
    return False
