"""How the examples of the guide that take callbacks are run, and what must come of each."""

import asyncio
import contextlib
import json
import socket
import subprocess
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

from income_client import OAuth2ClientCredentials
from income_client.emulator import CallbackTarget, Emulator
from tests.support.example_polling import alive, begun, ended, lines_of
from tests.support.examples import RunExample, loaded, passes, until
from tests.support.pages import commands
from tests.support.processes import COMMAND, ROOT, environment

_CLIENT: Final = OAuth2ClientCredentials("service", "invented-secret-of-the-service-00")


async def wakes_a_worker(service: Emulator, path: Path) -> None:
    """It issues a token, takes a callback with it, and prints what has changed."""
    port = _free_port()
    more = {
        "INCOME_CALLBACK_CLIENT_ID": _CLIENT.client_id,
        "INCOME_CALLBACK_CLIENT_SECRET": _CLIENT.client_secret.reveal(),
        "PORT": str(port),
    }
    async with alive(service, path, **more) as process:
        await begun(path)
        await until(lambda: _is_open(port))
        url = f"http://127.0.0.1:{port}"
        target = CallbackTarget(f"{url}/callbacks", auth=_CLIENT, token_url=f"{url}/token")
        updated = await _called_back(service, target)
        (line,) = await lines_of(process, 1)
        assert line.startswith(f"{updated} ")
        assert await ended(process) == []


async def is_loaded(_service: Emulator, path: Path) -> None:
    """The one behind nginx is run by the tests of nginx; here it is only loaded."""
    assert loaded(path).app


async def sends_by_command(folder: Path) -> None:
    """One command takes the callback that another has the third send, with nothing set."""
    user = {"HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)}
    emulate, listen, trigger = (
        commands(f"income-client {name}")[0] for name in ("emulate", "listen", "trigger")
    )
    async with _command(emulate, folder, **user) as emulating:
        await _printed(emulating.stdout, "# Its files")
        async with _command(f"{listen} --port {_free_port()}", folder, **user) as listening:
            await _printed(emulating.stderr, "callbacks go to")
            async with _command(trigger, folder, **user) as triggering:
                line, complaints = await triggering.communicate()
                assert (triggering.returncode, complaints) == (0, b"")
            assert listening.stdout is not None
            received = json.loads(await listening.stdout.readline())
    sent = json.loads(line)
    assert sent["attempts"] == [200]
    assert (sent["application_id"], sent["event_type"]) == (
        received["application_id"], received["event_type"],
    )  # fmt: skip


@contextlib.asynccontextmanager
async def _command(
    line: str, folder: Path, **more: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a command beside what happens inside; it is killed at the end unless it has ended."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *line.split()[1:],
        cwd=folder,
        env=environment(**more, PYTHONUNBUFFERED="1", PYTHONPATH=str(ROOT)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def _printed(printed: asyncio.StreamReader | None, text: str) -> None:
    """Wait for a line that a command prints."""
    assert printed is not None
    while text not in (line := (await printed.readline()).decode()):
        assert line


async def _called_back(service: Emulator, target: CallbackTarget) -> str:
    """Update an application and send a callback; return the id."""
    service.advance(60)
    delivery = await service.fire_callback(service.world.ids[3], target=target, update=True)
    assert (delivery.delivered, delivery.attempts) == (True, (200,))
    await asyncio.sleep(0)
    return service.world.ids[3]


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _is_open(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


RUN: Final[Mapping[str, RunExample]] = {
    "callbacks_nginx.py": is_loaded,
    "callbacks_worker.py": wakes_a_worker,
    "test_callbacks.py": passes,
}
