"""How the examples of the README that take callbacks are run, and what must come of each."""

import asyncio
import contextlib
import io
import json
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

import pytest
from aiohttp import web

from income_client import BasicAuth, OAuth2ClientCredentials
from income_client.emulator import CallbackTarget, Emulator, Fault
from income_client.receivers import callback_ssl_context
from tests.support.callback_certificates import made_papers
from tests.support.callbacks import served_by_uvicorn
from tests.support.examples import loaded, logged, passes, started, until
from tests.support.pages import commands
from tests.support.processes import COMMAND, ROOT, environment
from tests.support.readme_polling import alive, begun, ended, lines_of

_USER: Final = BasicAuth("service", "invented-password")
_BUYER: Final = OAuth2ClientCredentials("service", "invented-secret-of-the-service-00")


async def wakes_with_fastapi(service: Emulator, path: Path) -> None:
    """A callback makes it read what has changed, a stranger's is refused; 503 after its end."""
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setenv("INCOME_CALLBACK_USERNAME", _USER.username)
        patch.setenv("INCOME_CALLBACK_PASSWORD", _USER.password.reveal())
        app = loaded(path).app
        async with app.router.lifespan_context(app), served_by_uvicorn(app) as url:
            await begun(path)
            updated = await _rung(service, CallbackTarget(f"{url}/callbacks", auth=_USER))
            await until(lambda: updated in printed.getvalue())
            stranger = CallbackTarget(f"{url}/callbacks", auth=BasicAuth("service", "guess"))
            assert (await service.fire_callback(target=stranger)).attempts == (401,)
    service.faults.add(Fault("status", status=401, path="/v1/*", times=None))
    with logged() as lines:
        async with app.router.lifespan_context(app), served_by_uvicorn(app) as url:
            await until(app.state.polling.done)
            target = CallbackTarget(f"{url}/callbacks", auth=_USER, pauses=())
            assert (await service.fire_callback(target=target)).attempts == (503,)
    assert lines == ["polling has ended"]


async def wakes_a_worker(service: Emulator, path: Path) -> None:
    """It sells the service a token, takes it, and prints what has changed."""
    port = _free_port()
    more = {
        "INCOME_CALLBACK_CLIENT_ID": _BUYER.client_id,
        "INCOME_CALLBACK_CLIENT_SECRET": _BUYER.client_secret.reveal(),
        "PORT": str(port),
    }
    async with alive(service, path, **more) as process:
        await begun(path)
        await until(lambda: _is_open(port))
        url = f"http://127.0.0.1:{port}"
        target = CallbackTarget(f"{url}/callbacks", auth=_BUYER, token_url=f"{url}/token")
        updated = await _rung(service, target)
        (line,) = await lines_of(process, 1)
        assert line.startswith(f"{updated} ")
        assert await ended(process) == []


async def hears_over_mtls(service: Emulator, path: Path) -> None:
    """The service's certificate passes, and another one of its authority does not."""
    papers, printed = made_papers(path.parent), io.StringIO()
    context = callback_ssl_context("server.pem", "server.key", "client_ca.pem")
    runner = web.AppRunner(loaded(path).make_app())
    await runner.setup()
    with contextlib.redirect_stdout(printed):
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        url = f"https://127.0.0.1:{runner.addresses[0][1]}/callbacks"
        for paper in (papers.service(), papers.client_ca.issue_cert("other.example")):
            target = CallbackTarget(url, ssl=papers.client(paper))
            await service.fire_callback(service.world.ids[3], "extractions", target=target)
        await runner.cleanup()
    assert printed.getvalue() == f"extractions {service.world.ids[3]}\n"


async def answers_elsewhere(service: Emulator, path: Path) -> None:
    """Who shows nothing is refused, with the status and the reason."""
    process = await started(service, path.parent, path.name)
    output, logged = await process.communicate()
    assert (process.returncode, logged) == (
        0,
        b"callback refused with 401: no Authorization header\n",
    )
    assert output.decode().splitlines() == [
        '(401, b\'{"error":"Unauthorized"}\')',
        "401 no Authorization header",
    ]


async def is_read_by_the_tests_of_nginx(_service: Emulator, path: Path) -> None:
    """The one beside nginx's configuration runs there; here it is only loaded."""
    assert loaded(path).app


async def rings_by_command(folder: Path) -> None:
    """The three commands of the README, one after the other, with nothing set."""
    user = {"HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)}
    emulate, listen, trigger = (
        commands(f"income-client {name}")[0] for name in ("emulate", "listen", "trigger")
    )
    async with _command(emulate, folder, **user) as emulating:
        await _told(emulating.stdout, "# Its files")
        async with _command(f"{listen} --port {_free_port()}", folder, **user) as listening:
            await _told(emulating.stderr, "callbacks go to")
            async with _command(trigger, folder, **user) as triggering:
                line, complaints = await triggering.communicate()
                assert (triggering.returncode, complaints) == (0, b"")
            assert listening.stdout is not None
            heard = json.loads(await listening.stdout.readline())
    sent = json.loads(line)
    assert sent["attempts"] == [200]
    assert (sent["application_id"], sent["event_type"]) == (
        heard["application_id"], heard["event_type"],
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


async def _told(printed: asyncio.StreamReader | None, text: str) -> None:
    """Wait for a line that a command prints."""
    assert printed is not None
    while text not in (line := (await printed.readline()).decode()):
        assert line


async def _rung(service: Emulator, target: CallbackTarget) -> str:
    """Update an application and ring; return its id."""
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


RUN: Final[Mapping[str, Callable[[Emulator, Path], Awaitable[None]]]] = {
    "callbacks_elsewhere.py": answers_elsewhere,
    "callbacks_fastapi.py": wakes_with_fastapi,
    "callbacks_mtls.py": hears_over_mtls,
    "callbacks_nginx.py": is_read_by_the_tests_of_nginx,
    "callbacks_worker.py": wakes_a_worker,
    "test_callbacks.py": passes,
}
