"""A store in Redis on a cluster, behind a sentinel, and while its server is killed.

These are promises 8 and 9.
"""

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.sentinel import Sentinel
from redis.exceptions import RedisError

from income_client import CheckpointError, IncomeClient, Poller
from income_client.emulator import Emulator
from income_client.engines.redis import RedisCheckpointStore, RedisTokenStore
from income_client.testing import JumpingClock, check_checkpoint_store
from tests.support.kills import killed, share_of
from tests.support.pollers import StandingClock
from tests.support.polling import Scene
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
from tests.support.service import NOW

pytestmark = needs_redis


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """Run a server of the test's own."""
    yield from running_redis(tmp_path, *DURABLE, "--repl-diskless-sync-delay", "0")


async def test_the_server_of_this_machine_keeps_the_rules(server: RedisServer) -> None:
    """It is older than the one that the default tests run."""
    async with redis_client(server) as redis:
        await check_checkpoint_store(lambda: RedisCheckpointStore(redis, unused_prefix()))


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


async def test_a_sentinel_leads_a_store_to_the_server_that_has_taken_over(
    server: RedisServer, tmp_path: Path
) -> None:
    """Once the primary is lost; the version and the mark are those of the replica then."""
    folder = tmp_path / "replica"
    folder.mkdir()
    following = ("--replicaof", f"127.0.0.1 {server.port}")
    for replica in running_redis(folder, *DURABLE, *following):
        with running_sentinel(tmp_path, server) as port:
            sentinel = Sentinel([("127.0.0.1", port)])  # type: ignore[no-untyped-call]
            async with redis_client(replica) as follower:
                while not (await sentinel_knows(sentinel)):
                    await follower.ping()
            async with sentinel.master_for("primary") as redis:
                store = RedisCheckpointStore(redis)
                await store.save("default", "one", version=0)
                await redis.wait(1, 10_000)
                server.kill()
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


async def test_a_killed_server_loses_nothing_that_was_saved(
    server: RedisServer, pytestconfig: pytest.Config
) -> None:
    """After each fault the store is at the last version known of, or the next."""
    kills = share_of(pytestconfig, 0.4)
    async with redis_client(server) as redis:
        store = RedisCheckpointStore(redis)
        known = faults = 0
        is_sure = True
        async with killed(server, kills) as killing:
            while not killing.done() or not is_sure:
                try:
                    if not is_sure:
                        stored = await store.load("default")
                        assert stored.version in (known, known + 1)
                        assert stored.checkpoint in (None, f"text {stored.version}")
                        known, is_sure = stored.version, True
                    known = await store.save("default", f"text {known + 1}", version=known)
                except CheckpointError as error:
                    if not error.retryable:
                        raise
                    faults, is_sure = faults + is_sure, False
                    await asyncio.sleep(0)
        assert (await store.load("default")).version == known > faults > 0


async def test_each_update_is_delivered_once_although_the_server_is_killed(
    server: RedisServer, pytestconfig: pytest.Config
) -> None:
    """A save whose answer was lost is found again, and its batch does not come again."""
    kills = share_of(pytestconfig, 0.4)
    clock = JumpingClock()
    clock.most_sleeps = None  # it polls for as long as the kills take
    async with (
        redis_client(server) as redis,
        Emulator(range(NOW - 2000, NOW - 1000), clock=clock, time_flows=True) as service,
        IncomeClient(service.url, auth=service.oauth2, clock=clock) as client,
    ):
        place = Scene(service, client, RedisCheckpointStore(redis))
        poller = place.poll()
        delivered: list[str] = []
        consuming = asyncio.ensure_future(_consume(poller, delivered))
        updated: list[str] = []
        async with killed(server, kills) as killing:
            while not killing.done():
                updated += place.touch(len(updated))
                poller.wake()
                await asyncio.sleep(0.01)
        poller.stop(after_poll=True)
        await consuming
        last = place.poll()  # the poll that was under way had begun before the last updates
        last.stop(after_poll=True)
        await _consume(last, delivered)
        assert sorted(delivered) == sorted(updated)


async def _consume(poller: Poller, delivered: list[str]) -> None:
    async for record in poller:
        delivered.append(record.application_id)  # noqa: PERF401 - while the poller runs


async def test_a_standby_takes_over_from_a_leader_that_is_lost_with_the_server(
    server: RedisServer,
) -> None:
    """Nothing is lost; what the lost one had in hand comes again, and it can store nothing more."""
    clocks = (StandingClock(), StandingClock())
    async with (
        redis_client(server) as one,
        redis_client(server) as other,
        redis_client(server) as fresh,
        Emulator(range(NOW - 100, NOW - 80), time_flows=False, days=30) as service,
        IncomeClient(service.url, auth=service.oauth2, clock=clocks[0]) as first,
        IncomeClient(service.url, auth=service.oauth2, clock=clocks[1]) as second,
    ):
        place = Scene(service, first)
        leader = _follow(first, one)
        standby = _follow(second, other)
        held = asyncio.ensure_future(anext(aiter(leader)))
        while not held.done():
            await _pass(service, clocks[0], 1)
        # The leader has a record in hand, is paused from now on, and the server restarts.
        delivered: list[str] = []
        consuming = asyncio.ensure_future(_consume(standby, delivered))
        await _pass(service, clocks[1], 3)
        server.kill()
        server.start()
        (again,) = place.touch(7)
        while not {(await held).application_id, again} <= {*delivered}:
            await _pass(service, clocks[1], 1)
        assert not standby.status.is_standby
        version = (await RedisCheckpointStore(fresh).load("default")).version
        # It resumes, finds that it was replaced, and stores nothing.
        resuming = asyncio.ensure_future(_consume(leader, []))
        while not leader.status.is_standby:
            await _pass(service, clocks[0], 1)
        assert (await RedisCheckpointStore(fresh).load("default")).version >= version
        for task in (resuming, consuming):
            task.cancel()
        await asyncio.wait([resuming, consuming])
        await leader.aclose()
        await standby.aclose()


def _follow(client: IncomeClient, redis: Redis) -> Poller:
    options: dict[str, Any] = {"start": "2020-01-01", "documents": False, "standby": True}
    return client.poll(RedisCheckpointStore(redis), **options)


async def _pass(service: Emulator, clock: StandingClock, seconds: int) -> None:
    """Let so many seconds pass, one after the other."""
    for _ in range(seconds):
        service.advance(1)
        clock.advance(1)
        await asyncio.sleep(0.02)
