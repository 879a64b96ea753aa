"""Checkpoints in Redis: the contract of a store on a real server, and the server's faults."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import define
from redis import Redis as BlockingRedis
from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError

from income_client import (
    CheckpointConflictError,
    CheckpointError,
    ConfigurationError,
    StoredCheckpoint,
)
from income_client.engines import redis as redis_module
from income_client.engines import redis_settings
from income_client.engines.redis import RedisCheckpointStore, RedisTokenStore
from income_client.testing import check_checkpoint_store
from tests.support.canaries import CANARY
from tests.support.leaks import held_by
from tests.support.polling import scene
from tests.support.redis_server import (
    KEPT,
    RedisServer,
    changed_settings,
    redis_client,
    running_redis,
    unused_prefix,
    valkey,
)
from tests.support.store_files import letter

KEY: Final = "{}:checkpoint:default"


@pytest.fixture
def prefix() -> str:
    return unused_prefix()


@pytest.fixture
def store(redis: Redis, prefix: str) -> RedisCheckpointStore:
    return RedisCheckpointStore(redis, prefix)


@pytest.fixture
def lost_server(tmp_path: Path) -> Iterator[RedisServer]:
    """Run a server that a test may kill."""
    folder = tmp_path / "redis"
    folder.mkdir()
    at_once = ("--repl-diskless-sync-delay", "0")
    yield from running_redis(folder, *KEPT, *at_once, executable=valkey())


async def failure(work: Awaitable[object]) -> CheckpointError:
    """Return the error of a call, of which nothing shows what it was called with."""
    with pytest.raises(CheckpointError) as caught:
        await work
    error = caught.value
    assert (error.__cause__, error.__context__) == (None, None)
    assert CANARY not in held_by(error.again())
    assert "127.0.0.1" not in held_by(error)
    return error


@pytest.mark.parametrize(
    "options", [{}, {"decode_responses": True, "protocol": 3, "single_connection_client": True}]
)
async def test_the_rules_of_a_store_are_kept(
    redis_server: RedisServer, options: dict[str, Any]
) -> None:
    """However the client was made, which stays open."""
    async with redis_client(redis_server, **options) as redis:
        await check_checkpoint_store(lambda: RedisCheckpointStore(redis, unused_prefix()))
        store = RedisCheckpointStore(redis, unused_prefix())
        for name in ("default", "a b:c", "Größe > {*}", "x" * 200):
            await store.save(name, name, version=0)
            assert (await store.load(name)).checkpoint == name
            assert (await store.load(name + ":")).version == 0
        assert await redis.ping()


async def test_the_rights_that_the_documentation_names_are_enough(
    redis: Any, redis_server: RedisServer
) -> None:
    """Without them an error says so, in which nobody sees the password."""
    described = " ".join((RedisCheckpointStore.__doc__ or "").split())
    rights = described.partition("``~income:*")[2].partition("``")[0]
    user = ("ACL", "SETUSER", "poller")
    named: dict[str, Any] = {"username": "poller", "password": CANARY}
    async with redis_client(redis_server, **named) as narrow:
        store, tokens = RedisCheckpointStore(narrow), RedisTokenStore(narrow)
        assert "refused the user" in str(await failure(store.load("default")))
        await redis.execute_command(*user, "on", f">{CANARY}", "+@connection")
        for work in (store.load("default"), store.ring("default"), store.listen("default", print)):
            error = await failure(work)
            assert not error.retryable
            assert "lacks rights" in str(error)
        await redis.execute_command(*user, "~income:*", *rights.split())
        await redis.script_flush()
        await store.save("default", "one", version=0, dead_letters=[letter(1)])
        await store.save("default", "two", version=1, resolved=[letter(1).key])
        assert await store.forget("default", [letter(1).key]) == ()
        assert await store.dead_letters("default") == ()
        assert await tokens.claim(10)
        assert await tokens.load() is None
        heard = asyncio.Event()
        listening = asyncio.ensure_future(store.listen("default", heard.set))
        async with asyncio.timeout(30):
            await heard.wait()
        listening.cancel()
        await asyncio.wait([listening])


DAMAGE: Final[dict[str, Callable[[Any, str], Awaitable[object]]]] = {
    "another type": lambda redis, key: redis.set(key, CANARY),
    "no checkpoint": lambda redis, key: redis.hdel(key, "checkpoint"),
    "no version": lambda redis, key: redis.hdel(key, "version"),
    "no number": lambda redis, key: redis.hset(key, "version", CANARY),
    "no text": lambda redis, key: redis.hset(key, "checkpoint", b"\xff" + CANARY.encode()),
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_damaged_key_is_an_error_and_stays_as_it_is(
    redis: Redis, store: RedisCheckpointStore, prefix: str, damage: str
) -> None:
    """It is never a new beginning."""
    await store.save("default", "one", version=0, dead_letters=[letter(1)])
    key = KEY.format(prefix)
    await DAMAGE[damage](redis, key)
    before = await redis.dump(key)
    for work in (store.load("default"), store.dead_letters("default")):
        error = await failure(work)
        assert not error.retryable
        assert "the key holds" in str(error)
    await failure(store.save("default", "anew", version=0))
    assert await redis.dump(key) == before


async def test_a_letter_that_is_damaged_is_an_error(
    redis: Any, store: RedisCheckpointStore, prefix: str
) -> None:
    """And what lacks its checkpoint does not lose its letters to somebody who forgets them."""
    await store.save("default", "one", version=0, dead_letters=[letter(1)])
    await redis.hset(KEY.format(prefix), f"letter:{letter(1).key}", CANARY)
    assert not (await failure(store.dead_letters("default"))).retryable
    await redis.hdel(KEY.format(prefix), "version")
    assert await store.forget("default", [letter(1).key]) == ()
    assert await redis.hlen(KEY.format(prefix)) == 3


async def test_what_is_deleted_under_a_poller_is_noticed(redis: Any, prefix: str) -> None:
    """As by FLUSHALL: nothing that was updated meanwhile is lost, and no new process begins."""
    key, store = KEY.format(prefix), RedisCheckpointStore(redis, prefix)
    async with scene() as place:
        place.store = store
        poller = place.poll()
        place.touch(1)
        assert (await anext(poller)).application_id == place.ids[1]
        await redis.delete(key)
        with pytest.raises(CheckpointError, match="there is no checkpoint"):
            await anext(place.poll(must_exist=True, start=None))
        assert await store.load("default") == StoredCheckpoint(checkpoint=None, version=0)
        place.touch(2)
        found = [await anext(poller)]
        while found[-1].application_id != place.ids[2]:
            found.append(await anext(poller))
        await poller.aclose()
        assert (await store.load("default")).version
        with pytest.raises(CheckpointConflictError, match="not at 99"):
            await store.save("default", "two", version=99)


# What the server is set to


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"maxmemory": "100mb", "maxmemory_policy": "allkeys-lru"}, "set it to noeviction"),
        ({"maxmemory": "100mb", "maxmemory_policy": "volatile-lru"}, None),
        ({"maxmemory_policy": "allkeys-lru"}, None),  # without a limit nothing is evicted
        ({"appendonly": "no"}, "a restart loses every save"),
        ({"appendonly": "no", "save": "3600 1"}, "a crash loses the saves since the last one"),
        ({"appendfsync": "no"}, "to the system when to write"),
        ({"appendfsync": "everysec"}, None),
    ],
)
async def test_settings_that_cost_checkpoints_are_refused_or_logged(
    redis: Redis,
    store: RedisCheckpointStore,
    caplog: pytest.LogCaptureFixture,
    changed: dict[str, str],
    said: str | None,
) -> None:
    """Once, before anything is stored; what only repeats the last batches is neither."""
    async with changed_settings(redis, **changed):
        if said == "set it to noeviction":
            for _ in range(2):
                error = await failure(store.save("default", "one", version=0))
                assert (said in str(error), error.retryable) == (True, False)
            return
        await asyncio.gather(store.load("default"), store.dead_letters("default"))
        await store.save("default", "one", version=0)
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == (said is not None)
    assert said is None or (said in warned[0] and "must_exist=True" in warned[0])


async def test_a_server_that_does_not_say_what_it_is_set_to_may_lose_all(
    redis: Any, redis_server: RedisServer, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As those of some services, which forbid the question."""
    rights = ("~*", "+@all", "-config", "-info", ">pass")
    await redis.execute_command("ACL", "SETUSER", "managed", "on", *rights)
    async with redis_client(redis_server, username="managed", password="pass") as narrow:
        await RedisCheckpointStore(narrow, prefix).save("default", "one", version=0)
    assert "does not say whether it keeps saves on its disk" in caplog.text


async def test_a_full_memory_changes_nothing(redis: Redis, store: RedisCheckpointStore) -> None:
    """Not even what a save only removes."""
    await store.save("default", "one", version=0, dead_letters=[letter(1)])
    async with changed_settings(redis, maxmemory="1"):
        work = store.save(
            "default", "two", version=1, dead_letters=[letter(2)], resolved=[letter(1).key]
        )
        error = await failure(work)
        assert "full (OOM)" in str(error)
        assert error.retryable
        assert await store.load("default") == StoredCheckpoint(checkpoint="one", version=1)
    assert await store.dead_letters("default") == (letter(1),)


# Faults


PASSING: Final = "BUSY CLUSTERDOWN LOADING MASTERDOWN MISCONF NOREPLICAS OOM READONLY TRYAGAIN"
FINAL: Final = "MOVED NOAUTH NOPERM WRONGTYPE ERR"


async def test_each_code_of_a_server_is_tried_again_or_not(
    store: RedisCheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault that passes does not end a poller; older servers have the codes in a sentence."""
    await store.load("default")
    for code in f"{PASSING} {FINAL}".split():
        node = "1 10.0.0.1:1" if code == "MOVED" else CANARY
        for said in (f"{code} {node}", f"ERR Error running script f_1: -{code} {CANARY}"):
            script = f"return redis.error_reply('{said}') -- {{}}"
            monkeypatch.setattr(redis_module, "_LOAD", script)
            error = await failure(store.load("default"))
            assert error.retryable is (code in PASSING), code
            assert f"({code})" in str(error) or code == "ERR"


async def test_a_replica_refuses_to_answer(lost_server: RedisServer, tmp_path: Path) -> None:
    """It may lack the last saves; once it has taken over without them, they are missed."""
    for replica in running_redis(tmp_path, *KEPT, executable=valkey()):
        async with redis_client(lost_server) as first, redis_client(replica) as second:
            store, other = RedisCheckpointStore(first), RedisCheckpointStore(second)
            unlinked: Any = second
            await second.replicaof("127.0.0.1", str(lost_server.port))
            await store.save("default", "one", version=0)
            while not await unlinked.exists(KEY.format("income")):
                pass
            for call in (other.load, other.dead_letters, other.ring):
                error = await failure(call("default"))
                assert error.retryable
                assert "READONLY" in str(error)
                assert not any(one.is_connected for one in idle(second)), "its name may have moved"
            await failure(other.forget("default", ["application:1"]))
            await failure(other.save("default", "two", version=1))
            await failure(RedisTokenStore(second).load())
            await second.replicaof("NO", "ONE")
            await store.save("default", "two", version=1)
            with pytest.raises(CheckpointConflictError, match="at version 1, not at 2"):
                await other.save("default", "three", version=2, replaces="two")
            with pytest.raises(CheckpointConflictError, match="by another"):
                await other.save("default", "three", version=1, replaces="of another")
            assert (await other.load("default")).checkpoint == "one"


def idle(redis: Redis) -> list[Any]:
    return [*redis.connection_pool._available_connections]


@define
class Cutter:
    """Stands between a client and its server, and loses the answer to a script."""

    port: int
    cuts: int = 0
    """How many answers it still loses."""

    @contextlib.asynccontextmanager
    async def client(self, **options: Any) -> AsyncIterator[Redis]:
        """Connect through it."""
        async with await asyncio.start_server(self._serve, "127.0.0.1", 0) as listening:
            port = listening.sockets[0].getsockname()[1]
            async with Redis(port=port, **options) as redis:
                yield redis

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.port)
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                far_writer.write(data)
                answer = await far_reader.read(65536)
                if self.cuts and b"EVALSHA" in data and not answer.startswith(b"-"):
                    self.cuts -= 1
                    break
                writer.write(answer)
        for one in (writer, far_writer):
            one.close()
            with contextlib.suppress(ConnectionError):
                await one.wait_closed()


@pytest.mark.parametrize("retries", [0, 3])
async def test_a_save_whose_answer_is_lost_is_made_once(
    redis_server: RedisServer, prefix: str, retries: int
) -> None:
    """A driver that sends it again gets the answer; without that, a load shows what was saved."""
    cutter = Cutter(redis_server.port)
    retry: dict[str, Any] = {
        "retry": Retry(NoBackoff(), retries),
        "retry_on_error": [RedisConnectionError],
    }
    async with cutter.client(**retry) as redis:
        store = RedisCheckpointStore(redis, prefix)
        await store.save("default", "one", version=0, dead_letters=[letter(1)])
        cutter.cuts = 1
        saving = store.save("default", "two", version=1, resolved=[letter(1).key])
        if retries:
            assert await saving == 2
        else:
            error = await failure(saving)
            assert error.retryable
            assert "reached" in str(error)
        assert await store.load("default") == StoredCheckpoint(checkpoint="two", version=2)
        assert await store.dead_letters("default") == ()


async def test_a_server_that_is_away_or_silent_is_a_fault_that_passes(
    lost_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is answered too late, or to a call that was cancelled, answers no other call."""
    async with redis_client(lost_server) as redis:
        store = RedisCheckpointStore(redis)
        await store.save("default", "one", version=0)
        lost_server.freeze()
        with monkeypatch.context() as patched:
            patched.setattr(redis_settings, "SECONDS", 0.05)
            error = await failure(store.save("default", "two", version=1))
        assert error.retryable
        assert "did not answer" in str(error)
        saving = asyncio.ensure_future(store.save("default", "three", version=2))
        await asyncio.sleep(0.05)
        saving.cancel()
        await asyncio.wait([saving])
        assert saving.cancelled()
        lost_server.resume()
        assert (await store.load("default")).version in (1, 2, 3)
        assert await store.dead_letters("default") == ()
        assert not redis.connection_pool._in_use_connections
        lost_server.kill()
        error = await failure(store.load("default"))
        assert error.retryable
        assert "reached" in str(error)
        lost_server.start()
        assert (await store.load("default")).version in (1, 2, 3)


@pytest.mark.parametrize("error", [None, RedisConnectionError(CANARY)])
async def test_a_cancellation_that_the_driver_swallows_ends_the_call(
    store: RedisCheckpointStore, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    """It waits by `wait_for`, which does so where the answer comes at the same moment."""
    await store.load("default")

    async def swallow(*_: object, **__: object) -> Any:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        if error is not None:
            raise error

    monkeypatch.setattr(Redis, "evalsha", swallow)
    monkeypatch.setattr(PubSub, "get_message", swallow)
    for work in (store.save("default", "one", version=0), store.listen("default", print)):
        task = asyncio.ensure_future(work)
        await asyncio.wait([task], timeout=0.05)
        task.cancel()
        await asyncio.wait([task], timeout=30)
        assert task.cancelled()


@pytest.mark.parametrize("make", [RedisCheckpointStore, RedisTokenStore])
def test_what_is_no_client_is_refused(make: Callable[..., object], redis: Redis) -> None:
    """Such as an address, of which nothing is shown; so is an empty prefix."""
    for wrong in (f"redis://me:{CANARY}@host", BlockingRedis()):
        with pytest.raises(ConfigurationError, match="redis must be a client of"):
            make(wrong)
    with pytest.raises(ConfigurationError, match="prefix must be"):
        make(redis, prefix="")
