"""How the examples of the README that poll beside a web server are run, and what comes of each."""

import contextlib
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from aiohttp import ClientSession, web

from income_client.emulator import Emulator, Fault
from tests.support.examples import asgi, loaded, logged, until
from tests.support.readme_polling import begun, ids_in, updated


async def polls_with_fastapi(service: Emulator, path: Path) -> None:
    """Its poller lives with the application, tells how it is, and is woken from outside."""
    app, printed = loaded(path).app, io.StringIO()
    with contextlib.redirect_stdout(printed):
        async with app.router.lifespan_context(app):
            await begun(path)
        new = updated(service, range(3, 6))
        async with app.router.lifespan_context(app) as state:
            poller = state["poller"]
            await until(lambda: poller.status.polls == 1)
            health = await asgi(app, "/health", state)
            shown = json.loads(health.body)
            assert (health.status, shown["failures"], shown["last_error"]) == (200, 0, None)
            assert 5 <= shown["lag"] < 30
            planned = poller.status.next_poll_at
            assert (await asgi(app, "/wake", state, "POST")).status == 202
            assert poller.status.next_poll_at < planned
    assert ids_in(printed.getvalue().splitlines()) == new
    service.faults.add(Fault("status", status=401, path="/v1/*", times=None))
    lifespan = app.router.lifespan_context(app)
    state = await lifespan.__aenter__()
    await until(state["polling"].done)
    health = await asgi(app, "/health", state)
    last_error = json.loads(health.body)["last_error"]
    assert (health.status, last_error) == (503, "AuthenticationError")
    await lifespan.__aexit__(None, None, None)


async def polls_with_aiohttp(service: Emulator, path: Path) -> None:
    """Its poller is stopped when the application is cleaned up, and goes on with the next."""
    module, printed = loaded(path), io.StringIO()

    @contextlib.asynccontextmanager
    async def application() -> AsyncIterator[web.AppRunner]:
        runner = web.AppRunner(module.make_app())
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner
        await runner.cleanup()
        assert runner.app[module.POLLING].done()

    with contextlib.redirect_stdout(printed):
        async with application():
            await begun(path)
        new = updated(service, range(3, 6))
        async with application() as runner:
            await until(lambda: runner.app[module.POLLER].status.polls == 1)
            assert await _health(runner) == 200
    assert ids_in(printed.getvalue().splitlines()) == new
    service.faults.add(Fault("status", status=401, path="/v1/*", times=None))
    with logged() as lines:
        async with application() as runner:
            await until(runner.app[module.POLLING].done)
            assert await _health(runner) == 503
    assert lines == ["polling has ended"]


async def _health(runner: web.AppRunner) -> int:
    """Ask an application for its health, and return the status."""
    host, port = runner.addresses[0][:2]
    async with ClientSession() as session, session.get(f"http://{host}:{port}/health") as reply:
        return reply.status


RUN: Final[Mapping[str, Callable[[Emulator, Path], Awaitable[None]]]] = {
    "polling_aiohttp.py": polls_with_aiohttp,
    "polling_fastapi.py": polls_with_fastapi,
}
