"""Redis streams: what the server must be set to, what is removed, and who may publish."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("faststream", reason="brokers need the extra 'full'")

from faststream.redis import RedisBroker

from income_client import ConfigurationError, IncomeClientError
from income_client.engines.relay import faststream_publisher
from income_client.engines.worker import Worker
from income_client.engines.worker_redis import redis_events
from tests.support.brokers import Handling, OnRedis, events, publish, received, until, working
from tests.support.redis_server import DURABLE, RedisServer, needs_redis, redis_client
from tests.support.telemetry import collecting, ids_of

pytestmark = needs_redis
_USUAL = {
    **{name.lstrip("-"): value for name, value in zip(DURABLE[::2], DURABLE[1::2], strict=True)},
    "maxmemory": "0",
    "maxmemory-policy": "noeviction",
    "save": "3600 1",
}


@asynccontextmanager
async def settings(server: RedisServer, changed: Mapping[str, str]) -> AsyncIterator[None]:
    """Change settings of a server for a while."""
    async with redis_client(server) as redis:
        for name, value in changed.items():
            await redis.config_set(name, value)
        yield
        for name, value in _USUAL.items():
            await redis.config_set(name, value)


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu", "allkeys-random"])
async def test_a_server_that_evicts_events_is_refused(
    redis_server: RedisServer, policy: str
) -> None:
    """By workers, and by what a relay publishes with before it has published anything."""
    broker = OnRedis(redis_server)
    async with settings(redis_server, {"maxmemory": "100mb", "maxmemory-policy": policy}):
        with pytest.raises(IncomeClientError, match=f"{policy}.*noeviction") as refused:
            await Worker(Handling(), broker.source()).run()
        assert not refused.value.retryable
        async with broker.publisher() as send:
            with pytest.raises(IncomeClientError, match="noeviction"):
                await send(events(1)[0])
    async with redis_client(redis_server) as redis:
        assert not await redis.exists(broker.name)


@pytest.mark.parametrize(
    ("changed", "loss"),
    [
        ({"appendonly": "no", "save": ""}, "a restart loses every event"),
        ({"appendonly": "no", "save": "3600 1"}, "a crash loses the events since the last one"),
        ({"appendfsync": "everysec"}, "once a second, so a power failure loses events"),
        ({"appendfsync": "no"}, "to the system when to write, so a power failure loses events"),
        ({"maxmemory": "100mb", "maxmemory-policy": "volatile-lru"}, None),
        ({"maxmemory-policy": "allkeys-lru"}, None),  # without a limit nothing is evicted
    ],
)
async def test_settings_that_cost_events_are_logged(
    redis_server: RedisServer,
    caplog: pytest.LogCaptureFixture,
    changed: Mapping[str, str],
    loss: str | None,
) -> None:
    """Once, with what each costs."""
    async with settings(redis_server, changed):
        source = OnRedis(redis_server).source()
        for _ in range(2):
            assert not await source.receive(1)
        await source.aclose()
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    if loss is None:
        assert warnings == []
    else:
        [warning] = warnings
        assert loss in warning
        assert "appendonly yes and appendfsync always" in warning


async def test_what_every_group_has_acknowledged_is_removed(redis_server: RedisServer) -> None:
    """Nothing before: neither what another group has in hand nor what it has not read."""
    broker = OnRedis(redis_server)
    first, second = broker.source("first"), broker.source("second")
    assert not await first.receive(1)
    assert not await second.receive(1)
    await publish(broker, events(2))
    async with redis_client(redis_server) as redis:
        for _ in range(2):
            await (await received(first)).acknowledge()
        in_hand = await received(second)
        for kept in (2, 1, 0):
            for _ in range(2):
                assert not await first.receive(1)  # it removes what it can every second
            assert await redis.xlen(broker.name) == kept
            await in_hand.acknowledge()
            in_hand = await received(second) if kept > 1 else in_hand
    await first.aclose()
    await second.aclose()


async def test_no_new_events_are_read_while_a_thousand_are_pending(
    redis_server: RedisServer,
) -> None:
    """Those that wait for their next attempt do not fill the memory of the server's group."""
    broker = OnRedis(redis_server)
    source = broker.source()
    await publish(broker, events(1_001))
    some: Any = await source.receive(1_000)
    assert len(some) == 1_000
    assert not await source.receive(1)
    await some[0].acknowledge()
    assert len(await source.receive(10)) == 1
    await source.aclose()


async def test_workers_read_what_faststream_publishes(redis_server: RedisServer) -> None:
    """In an envelope, with the trace in it, and before there was a worker."""
    handling = Handling()
    broker = OnRedis(redis_server)
    with collecting() as exported:
        async with RedisBroker(redis_server.url) as faststream:
            publisher = faststream_publisher(faststream.publisher(stream=broker.name))
            await faststream.start()
            for one in events(3):
                await publisher(one)
        async with working(Worker(handling, broker.source())):
            await until(lambda: handling.has(events(3)))
    sent = [ids_of(span)[0] for span in exported.named(f"send {broker.name}")]
    done = [ids_of(span)[0] for span in exported.named(f"process {broker.name}")]
    assert sorted(sent) == sorted(done)
    assert len(sent) == 3


async def test_an_entry_that_is_no_event_becomes_a_dead_letter(redis_server: RedisServer) -> None:
    """With the fields that it has."""
    broker = OnRedis(redis_server)
    async with redis_client(redis_server) as redis:
        await redis.xadd(broker.name, {"other": "content"})
        worker = Worker(Handling(), broker.source())
        async with working(worker):
            await until(lambda: worker.status.dead)
        letters: Any = await redis.xrange(broker.dead)
    [(_, fields)] = letters
    assert fields == {
        b"other": b"content",
        b"reason": b"unreadable",
        b"error": b"DecodeError",
        b"attempt": b"1",
    }


def test_an_address_of_another_kind_is_refused() -> None:
    """Before anything is sent."""
    with pytest.raises(ConfigurationError, match="redis://"):
        redis_events("http://127.0.0.1:6379", group="incomes")
