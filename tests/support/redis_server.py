"""A Redis server of its own for each test process, on loopback, started when it is first needed."""

import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from redis import Redis as BlockingRedis
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.support.callback_processes import free_port

EXECUTABLE: Final = shutil.which("redis-server")
"""The server of this machine; None if there is none."""

needs_redis: Final = pytest.mark.skipif(
    EXECUTABLE is None, reason="no redis-server; Debian has one: apt-get install redis-server"
)
DURABLE: Final = ("--appendonly", "yes", "--appendfsync", "always")
"""What the guide says to set."""
_START_SECONDS: Final = 30.0


class RedisServer:
    """A server whose data is in a folder; it can be killed and started again on its port."""

    def __init__(self, folder: Path, *options: str) -> None:
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
        assert EXECUTABLE is not None
        self._process = subprocess.Popen(
            [
                *(EXECUTABLE, "--bind", "127.0.0.1", "--port", str(self.port)),
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


def running_redis(folder: Path, *options: str) -> Iterator[RedisServer]:
    """Run a server until the fixture that yields from here ends."""
    server = RedisServer(folder, *options)
    try:
        yield server
    finally:
        server.kill()


@asynccontextmanager
async def redis_client(server: RedisServer) -> AsyncIterator[Redis]:
    """Connect to a server."""
    async with Redis.from_url(server.url) as client:
        yield client
