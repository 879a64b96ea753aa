"""How the examples of the README that watch a client are run, and what must come of each."""

import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from income_client.emulator import Emulator, Fault
from tests.cli.polling import until
from tests.readme_examples import asgi, loaded, python


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
    """Prometheus reads how the poller does."""
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
        "income_poll_saturated_seconds",
        "income_polls_total",
        "income_records_total",
    ]
    assert float(figures["income_polls_total"]) == 1


RUN: Final[Mapping[str, Callable[[Emulator, Path], Awaitable[None]]]] = {
    "measured_fastapi.py": measures,
    "tells.py": tells,
    "traced.py": traces,
}
