"""Redis and RabbitMQ as one kind of thing: events on a server, which a test looks into."""

import asyncio
import functools
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, TypeAlias
from uuid import uuid4

import aio_pika

from income_client.engines.relay import UpdateEvent
from income_client.engines.worker import EventSource, Worker
from income_client.engines.worker_rabbit import rabbit_events, rabbit_publisher
from income_client.engines.worker_redis import redis_events, redis_publisher
from tests.support.event_source import event
from tests.support.rabbit_server import RabbitServer
from tests.support.redis_server import RedisServer, redis_client

GROUP: Final = "incomes"
_SECONDS: Final = 50.0


class OnRedis:
    """A stream, and a group of consumers."""

    def __init__(self, server: RedisServer, name: str = "") -> None:
        self.server = server
        self.name = name or f"updates-{uuid4().hex}"
        self.dead = self.name.replace("updates", "dead")

    def source(self, group: str = GROUP) -> EventSource:
        """Return events for a worker."""
        return redis_events(self.server.url, stream=self.name, group=group, dead_letters=self.dead)

    def publisher(self) -> AbstractAsyncContextManager[Callable[[UpdateEvent], Any]]:
        """Open what a relay publishes with."""
        return redis_publisher(self.server.url, stream=self.name)

    async def pass_time(self) -> None:
        """Have all that is pending be silent since an hour."""
        async with redis_client(self.server) as redis:
            pending: Any = await redis.xpending_range(self.name, GROUP, "-", "+", 1_000)
            for one in pending:
                name = one["message_id"]
                await redis.xclaim(self.name, GROUP, "test", 0, [name], idle=3_600_000, justid=True)

    async def settle(self) -> None:
        """Do nothing: a group is on the disk once it is made."""

    async def dead_letters(self) -> list[tuple[bytes, str, str, int]]:
        """Return the body of each, the reason, the error and the attempt."""
        async with redis_client(self.server) as redis:
            found: Any = await redis.xrange(self.dead)
        return [
            (
                one[b"__data__"],
                one[b"reason"].decode(),
                one[b"error"].decode(),
                int(one[b"attempt"]),
            )
            for _, one in found
        ]

    async def delete(self) -> None:
        """Delete the stream, and its group with it."""
        async with redis_client(self.server) as redis:
            await redis.delete(self.name)


class OnRabbit:
    """A queue."""

    def __init__(self, server: RabbitServer, name: str = "") -> None:
        self.server = server
        self.name = name or f"updates-{uuid4().hex}"
        self.dead = self.name.replace("updates", "dead")

    def source(self) -> EventSource:
        """Return events for a worker."""
        return rabbit_events(self.server.url, queue=self.name, dead_letters=self.dead)

    def publisher(self) -> AbstractAsyncContextManager[Callable[[UpdateEvent], Any]]:
        """Open what a relay publishes with."""
        return rabbit_publisher(self.server.url, queue=self.name, dead_letters=self.dead)

    async def pass_time(self) -> None:
        """Do nothing: they come at once, when the connection ends."""

    async def settle(self) -> None:
        """Wait until what was made outlives the server."""
        for name in (self.name, self.dead):
            await until(functools.partial(self.server.keeps, name))

    async def dead_letters(self) -> list[tuple[bytes, str, str, int]]:
        """Return the body of each, the reason, the error and the attempt."""
        found = []
        async with rabbit_channel(self.server.url) as channel:
            queue = await channel.get_queue(self.dead)
            while (one := await queue.get(fail=False)) is not None:
                why: Any = one.headers
                found.append((one.body, why["reason"], why["error"], why["attempt"]))
        return found

    async def delete(self) -> None:
        """Delete the queue."""
        async with rabbit_channel(self.server.url) as channel:
            await channel.queue_delete(self.name)


Broker: TypeAlias = OnRedis | OnRabbit


@asynccontextmanager
async def rabbit_channel(url: str) -> AsyncIterator[Any]:
    """Open a channel."""
    async with await aio_pika.connect(url) as connection, connection.channel() as channel:
        yield channel


async def until(condition: Callable[[], object]) -> None:
    """Wait until something holds that a server or a process brings about."""
    async with asyncio.timeout(_SECONDS):
        while not condition():  # noqa: ASYNC110 - it sets no event
            await asyncio.sleep(0.01)


def events(count: int, first: int = 0) -> list[UpdateEvent]:
    """Return events of as many applications."""
    return [event(f"app-{one}", str(one)) for one in range(first, first + count)]


class Handling:
    """A worker's function, which counts."""

    def __init__(self) -> None:
        self.times: Counter[str] = Counter()

    async def __call__(self, one: UpdateEvent) -> None:
        """Count it."""
        self.times[one.id] += 1

    def has(self, events: list[UpdateEvent]) -> bool:
        """Return whether all of these were handled."""
        return {one.id for one in events} <= self.times.keys()


async def received(source: Any) -> Any:
    """Return the next message of a source."""
    while True:
        async with asyncio.timeout(30):
            if found := await source.receive(1):
                return found[0]


async def publish(broker: Broker, events: Sequence[UpdateEvent]) -> None:
    """Publish these, each until the server has taken it."""
    async with broker.publisher() as send:
        for one in events:
            while True:
                try:
                    await send(one)
                except Exception:  # noqa: BLE001 - as a relay does
                    await asyncio.sleep(0.5)
                else:
                    break


@asynccontextmanager
async def working(worker: Worker) -> AsyncIterator["asyncio.Task[None]"]:
    """Run a worker, and stop it at the end."""
    task = asyncio.create_task(worker.run())
    try:
        yield task
        worker.stop()
        await task
    finally:
        task.cancel()
        await asyncio.wait({task})


_PROGRAM: Final = """
import asyncio, sys
from income_client.engines.worker import Worker
from tests.support.brokers import ACTIONS, BROKERS

kind, url, name, action = sys.argv[1:]
class Server: url = url
worker = Worker(ACTIONS[action], BROKERS[kind](Server, name).source(), stop_timeout=0.1)
asyncio.run(worker.run(until_signal=True))
"""


async def _die(_: UpdateEvent) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def _wait(_: UpdateEvent) -> None:
    print("in hand", flush=True)  # noqa: T201 - the test waits for it
    await asyncio.Event().wait()


ACTIONS: Final = {"die": _die, "wait": _wait}
BROKERS: Final[dict[str, Any]] = {"OnRedis": OnRedis, "OnRabbit": OnRabbit}


async def worker_process(broker: Broker, action: str) -> asyncio.subprocess.Process:
    """Start a worker as a process."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _PROGRAM),
        *(type(broker).__name__, broker.server.url, broker.name, action),
        stdout=asyncio.subprocess.PIPE,
    )
