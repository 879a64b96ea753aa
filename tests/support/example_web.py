"""How the examples of the guide's page on web backends are run, and what must come of each."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from income_client import BasicAuth, errors
from income_client.emulator import Emulator, Fault
from tests.support.examples import RunExample, asgi, loaded, logged, python, until


async def is_called_by_threads(service: Emulator, path: Path) -> None:
    """It reads without an event loop of its caller's, and requests one token for all calls."""
    ids = service.world.ids[:3]
    lines = await python(service, path.parent, path.name, *ids)
    assert [line.split()[0] for line in lines] == list(ids)
    assert [request.name for request in service.requests].count("token") == 1


async def serves_and_polls(service: Emulator, path: Path) -> None:
    """It reads, polls and takes callbacks from start to end, and continues where it stopped."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INCOME_CALLBACK_PASSWORD", "invented")
        app = loaded(path).app
    state = app.state
    with logged("web_backend") as lines:
        async with app.router.lifespan_context(app):
            await until(lambda: state.poller.status.polls == 1)
            await _wakes(app)
            await _answers(service, app)
            shown = json.loads((await asgi(app, "/health")).body)
            assert shown["failures"] == 0
            assert 5 <= shown["lag"] < 30
        assert state.polling.done()
        with pytest.raises(errors.ClientClosedError):
            await state.client.get_application(service.world.ids[0])
        lines.clear()
        service.advance(60)
        service.touch(service.world.ids[3])
        service.advance(60)
        async with app.router.lifespan_context(app):
            await until(lambda: state.poller.status.records == 1)
        assert lines == [f"{service.world.ids[3]} was updated"]
    await _ends_when_it_is_refused(service, app)


async def _wakes(app: Any) -> None:
    """A callback with the right password starts a poll at once, and no other does."""
    right, wrong = (
        BasicAuth("service", password).authorization().reveal() for password in ("invented", "x")
    )
    polls = app.state.poller.status.polls
    for authorization, status in ((wrong, 401), (right, 200)):
        headers = [(b"authorization", authorization.encode())]
        answer = await asgi(app, "/callbacks", method="POST", headers=headers)
        assert answer.status == status
    await until(lambda: app.state.poller.status.polls == polls + 1)


async def _answers(service: Emulator, app: Any) -> None:
    """An application is the service's own JSON, and each error has its status."""
    one = f"/applications/{service.world.ids[0]}"
    found = await asgi(app, one)
    assert (found.status, found.headers["content-type"]) == (200, "application/json")
    assert json.loads(found.body)["application_id"] == service.world.ids[0]
    for unknown in ("no-such-application", "a%07b"):
        assert (await asgi(app, f"/applications/{unknown}")).status == 404
    service.faults.add(
        Fault("status", status=403, path="/v1/*"),
        Fault("status", status=429, headers={"Retry-After": "120"}, path="/v1/*"),
    )
    with logged("web_backend") as lines:
        assert (await asgi(app, one)).status == 502
    assert [line.partition(":")[0] for line in lines] == ["PermissionDeniedError"]
    busy = await asgi(app, one)
    assert (busy.status, busy.headers["retry-after"]) == (503, "120")


async def _ends_when_it_is_refused(service: Emulator, app: Any) -> None:
    """Where credentials are rejected at the start, polling ends and the health check says so."""
    service.faults.add(Fault("status", status=401, path="/v1/*", times=None))
    with logged("web_backend") as lines:
        async with app.router.lifespan_context(app):
            await until(app.state.polling.done)
            assert (await asgi(app, "/health")).status == 503
    assert lines == ["polling has ended"]


RUN: Final[Mapping[str, RunExample]] = {
    "blocking.py": is_called_by_threads,
    "web_backend.py": serves_and_polls,
}
