"""How the examples of the README that watch a client are run, and what must come of each."""

import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from aiohttp import ClientSession

from income_client.emulator import Emulator, Fault
from tests.support.callback_processes import free_port
from tests.support.examples import asgi, loaded, logged, python, until
from tests.support.readme_polling import alive, begun, ended, lines_of, updated


async def tells(service: Emulator, path: Path) -> None:
    """Pages and retries are lines, and the calls are counted."""
    service.faults.add(Fault("status", status=500, path="*/applications"))
    lines = await python(service, path.parent, path.name)
    assert re.fullmatch(
        r"list_applications has failed \(ServerError\), again in \d\.\d s",
        next(line for line in lines if "failed" in line),
    )
    assert any(re.fullmatch(r"\d+% covered, \d+ applications more", line) for line in lines)
    calls = sum(request.name == "list_applications" for request in service.requests)
    assert lines[-1] == f"{len(service.world.ids)} applications in {calls - 1} calls"


async def traces(service: Emulator, path: Path) -> None:
    """Each call is a span, each request is one, and no line shows an id or a query."""
    lines = await python(service, path.parent, path.name)
    names = [line.partition(" {")[0] for line in lines]
    assert names.count("GET") == 7
    assert names.count("income_client get_application") == 3
    assert names.count("income_client get_documents") == 3
    assert names.count("income_client token") == 1
    shown = "\n".join(lines)
    assert "app-" not in shown
    assert "?" not in shown


async def measures(service: Emulator, path: Path) -> None:
    """Prometheus reads how the poller does, and whether it still does."""
    module = loaded(path)
    app, figure = module.app, module.registry.get_sample_value
    async with app.router.lifespan_context(app):
        await until(lambda: figure("income_polls_total", {"poller": "default"}) == 1)
        shown = (await asgi(app, "/metrics", {})).body.decode()
    figures = dict(
        re.findall(r"^(income_\w+)\{poller=\"default\"\} ([\d.]+)$", shown, re.MULTILINE)
    )
    assert sorted(figures) == [
        "income_poll_dead_letters",
        "income_poll_failures",
        "income_poll_lag_seconds",
        "income_poll_running",
        "income_poll_saturated_seconds",
        "income_polls_total",
        "income_records_total",
    ]
    assert float(figures["income_polls_total"]) == float(figures["income_poll_running"]) == 1
    service.faults.add(Fault("status", status=401, path="/v1/*", times=None))
    module = loaded(path)
    app, figure = module.app, module.registry.get_sample_value
    with logged() as lines:
        async with app.router.lifespan_context(app):
            await until(lambda: figure("income_poll_running", {"poller": "default"}) == 0)
    assert lines == ["polling has ended"]


async def measures_a_worker(service: Emulator, path: Path) -> None:
    """A thread of its own shows Prometheus what events have told; it ends by a signal."""
    async with alive(service, path, PORT=str(free_port())) as process:
        await begun(path)
        assert await ended(process) == []
    new, port = updated(service, range(3, 6)), free_port()
    async with alive(service, path, PORT=str(port)) as process, ClientSession() as session:
        assert sorted(await lines_of(process, 3)) == new
        async with session.get(f"http://127.0.0.1:{port}/metrics") as reply:
            shown = await reply.text()
        assert "income_records_total 3.0" in shown.splitlines()
        assert await ended(process) == []


RUN: Final[Mapping[str, Callable[[Emulator, Path], Awaitable[None]]]] = {
    "measured_fastapi.py": measures,
    "measured_worker.py": measures_a_worker,
    "tells.py": tells,
    "traced.py": traces,
}
