"""A NATS server of its own for each test process, on loopback, started when it is first needed."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Final

import nats
from nats.aio.client import Client
from nats.js.kv import KeyValue

from income_client.engines.relay import UpdateEvent

_BINARY: Final = Path(sys.executable).with_name("nats-server")
_START_SECONDS: Final = 30.0
_NUMBERS: Final = count(1)
PASSWORD: Final = "S3CRET"
USERS: Final = """
authorization {
  users = [
    {user: owner, password: S3CRET}
    {user: reader, password: S3CRET, permissions: {
      publish: ["$JS.API.STREAM.INFO.>", "$JS.API.STREAM.MSG.GET.>", "$JS.API.DIRECT.GET.>"]
      subscribe: "_INBOX.>"
    }}
    {user: leader, password: S3CRET, permissions: {
      publish: {allow: ">", deny: "$JS.API.DIRECT.GET.>"}
    }}
    {user: nobody, password: S3CRET, permissions: {publish: "x", subscribe: "_INBOX.>"}}
  ]
}
"""
"""Configuration of a server with users of several rights."""


class NatsServer:
    """A server whose data is in a folder; it can be killed and started again on its port."""

    def __init__(self, folder: Path, config: str = "") -> None:
        self._folder = folder
        self._config = folder / "server.conf"
        self._config.write_text(config, "utf-8")
        self._process: subprocess.Popen[bytes] | None = None
        self.port = -1
        self.start()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it listens."""
        for old in self._folder.glob("*.ports"):
            old.unlink()
        folder = str(self._folder)
        self._process = subprocess.Popen(
            [
                *(str(_BINARY), "-c", str(self._config), "-a", "127.0.0.1", "-p", str(self.port)),
                *("--ports_file_dir", folder, "-js", "-sd", folder),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + _START_SECONDS
        while self.port < 0 or not [*self._folder.glob("*.ports")]:
            assert self._process.poll() is None, "the NATS server has ended"
            assert time.monotonic() < until, "the NATS server does not listen"
            time.sleep(0.005)
            for file in self._folder.glob("*.ports"):
                if text := file.read_text("utf-8"):
                    self.port = int(json.loads(text)["nats"][0].rpartition(":")[2])

    def freeze(self) -> None:
        """Suspend the server, with its connections open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)  # until then it may answer once more

    def resume(self) -> None:
        """Resume the server after `freeze`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it without a word."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def running_server(folder: Path, config: str = "") -> Iterator[NatsServer]:
    """Run a server until the fixture that yields from here ends."""
    server = NatsServer(folder, config)
    try:
        yield server
    finally:
        server.kill()


CLUSTER: Final = """
server_name: node{number}
cluster {{ name: nodes, listen: "127.0.0.1:{port}", routes: [{routes}] }}
"""


@contextmanager
def running_cluster(folder: Path) -> Iterator[list[NatsServer]]:
    """Run three servers that keep replicas for each other."""
    with ExitStack() as held:
        ports = _free_ports(3)
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
        servers = []
        for number, port in enumerate(ports):
            home = folder / f"node{number}"
            home.mkdir()
            config = CLUSTER.format(number=number, port=port, routes=routes)
            server = NatsServer(home, config)
            held.callback(server.kill)
            servers.append(server)
        yield servers


def _free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        listening = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in listening:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in listening]


@asynccontextmanager
async def connected(server: NatsServer | str, **options: Any) -> AsyncIterator[Client]:
    """Connect to a server or its address; lost connections are expected here."""

    async def ignore(*_: object) -> None:
        await asyncio.sleep(0)

    url = server if isinstance(server, str) else server.url
    client = await nats.connect(url, error_cb=ignore, reconnect_time_wait=0.05, **options)
    try:
        yield client
    finally:
        await client.close()


async def bucket(client: Client, **options: Any) -> KeyValue:
    """Make a bucket that no other test has."""
    return await client.jetstream().create_key_value(bucket=f"test{next(_NUMBERS)}", **options)


NOW: Final = datetime(2026, 1, 2, tzinfo=UTC)


def event(application_id: str = "app-1", event_id: str = "1") -> UpdateEvent:
    """Return an event as a relay publishes it."""
    return UpdateEvent(id=event_id, application_id=application_id, updated_at=NOW)
