"""A RabbitMQ server on loopback, with its own data, names and ports."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.callback_processes import free_port

LAUNCHER: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # the wrapper would change user
needs_rabbit: Final = pytest.mark.skipif(
    not LAUNCHER.exists(),
    reason="no RabbitMQ; Debian has one: apt-get install rabbitmq-server",
)
_START_SECONDS: Final = 60.0


class RabbitServer:
    """A server whose data is in a folder; it can be killed and started again on its port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        (folder / "plugins").write_text("[].", "utf-8")
        (folder / "server.conf").write_text("", "utf-8")
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),  # of the cookie by which nodes know each other
            "ERL_EPMD_PORT": str(free_port()),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"income{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_CONFIG_FILE": str(folder / "server.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "-kernel inet_dist_use_interface {127,0,0,1} +sbwt none"
            ),
        }
        # The server would start one that outlives it.
        self._epmd = subprocess.Popen(["epmd"], env=self._environment)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it is."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = subprocess.Popen(
            [str(LAUNCHER)],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        until = time.monotonic() + _START_SECONDS
        while not self._answers():
            assert self._process.poll() is None, "the RabbitMQ server has ended"
            assert time.monotonic() < until, "the RabbitMQ server does not answer"
            time.sleep(0.05)

    def kill(self) -> None:
        """End it without a word."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def keeps(self, queue: str) -> bool:
        """Return whether a new quorum queue outlives a kill: its name is written later."""
        files = (self._folder / "data").rglob("quorum/*/names.dets")
        return any(queue.encode() in file.read_bytes() for file in files)

    def close(self) -> None:
        """End it for good."""
        self.kill()
        self._epmd.kill()
        self._epmd.wait()

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 5) as connection:
                connection.sendall(b"AMQP\x00\x00\x09\x01")
                return connection.recv(1) == b"\x01"  # of a frame
        except OSError:
            return False


def running_rabbit(folder: Path) -> Iterator[RabbitServer]:
    """Run a server until the fixture that yields from here ends."""
    server = RabbitServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.close()
