"""An endpoint with few file descriptors, and clients that hold more connections than it has."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from income_client.emulator import CallbackTarget, Emulator
from tests.cli.commands import BASIC, BASIC_VARIABLES
from tests.support.processes import COMMAND, environment

DESCRIPTORS: Final = 128
HELD: Final = 140
HEAD: Final = b"POST /callbacks HTTP/1.1\r\nHost: x\r\n"
LIMITED: Final = (
    "import os, resource, sys; "
    "resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]),) * 2); "
    "os.execv(sys.argv[2], sys.argv[2:])"
)
"""Runs a command with so many descriptors."""


@contextmanager
def started(*command: str, log: Path, **variables: str) -> Iterator[int]:
    """Run a server with few descriptors, and yield its port."""
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", LIMITED, str(DESCRIPTORS), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=environment(**variables),
        )
    try:
        while not (port := port_in(log)):
            assert process.poll() is None, log.read_text("utf-8")
            time.sleep(0.02)
        yield port
    finally:
        process.kill()
        process.communicate()


def port_in(log: Path) -> int:
    """Return the port that a server has said, 0 until then."""
    text = log.read_text("utf-8")
    if "http://127.0.0.1:" not in text or not text.endswith("\n"):
        return 0
    return urlsplit(text[text.index("http://") :].split()[0]).port or 0


def held(stack: ExitStack, port: int) -> None:
    """Hold connections with half a head each."""
    for _ in range(HELD):
        one = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        one.sendall(HEAD)


async def test_half_sent_heads_do_not_make_listen_deaf(tmp_path: Path) -> None:
    """A callback is taken while more heads are on their way than there are descriptors."""
    log = tmp_path / "log"
    command = (*COMMAND, "listen", "--port", "0")
    with ExitStack() as stack, started(*command, log=log, **BASIC_VARIABLES) as port:
        held(stack, port)
        url = f"http://127.0.0.1:{port}/callbacks"
        target = CallbackTarget(url, auth=BASIC, timeout=50, pauses=())
        async with Emulator(1) as service:
            delivery = await service.fire_callback(target=target)
    assert delivery.attempts == (200,)
    assert log.stat().st_size < 2000
