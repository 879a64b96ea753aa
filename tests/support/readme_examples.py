"""How each example of the README is run, and what must come of it.

The row of an example in `RUN` is called with the emulated service that the
environment leads to and with the file that holds the example.
"""

import asyncio
import contextlib
import importlib.util
import io
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from urllib.parse import unquote

import pytest
from aiohttp import ClientSession, web
from attrs import frozen
from multidict import CIMultiDict
from yarl import URL

from income_client import errors
from income_client.emulator import Emulator, Fault
from tests.support.processes import ROOT, environment


def variables(service: Emulator) -> dict[str, str]:
    """Return the environment that leads to a service."""
    return {
        "INCOME_BASE_URL": service.url,
        "INCOME_CLIENT_ID": service.oauth2.client_id,
        "INCOME_CLIENT_SECRET": service.oauth2.client_secret.reveal(),
    }


async def started(
    service: Emulator, folder: Path, *arguments: str, **more: str
) -> asyncio.subprocess.Process:
    """Start Python in a folder, with warnings as errors and its output piped at once."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-u", "-W", "error"),
        *arguments,
        cwd=folder,
        env=environment(**variables(service), **more, PYTHONPATH=path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


async def python(service: Emulator, folder: Path, *arguments: str) -> list[str]:
    """Run Python in a folder, and return the lines that it printed."""
    process = await started(service, folder, *arguments)
    output, complaints = await process.communicate()
    assert (process.returncode, complaints.decode()) == (0, ""), output.decode()
    return output.decode().splitlines()


def loaded(path: Path) -> ModuleType:
    """Import a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def logged() -> Iterator[list[str]]:
    """Collect what a program says through the root logger meanwhile."""
    lines: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.name == "root":
                lines.append(record.getMessage())

    collector = Collector()
    logging.getLogger().addHandler(collector)
    try:
        yield lines
    finally:
        logging.getLogger().removeHandler(collector)


@frozen
class Answer:
    """What a browser gets."""

    status: int
    """HTTP status."""
    headers: Mapping[str, str]
    """Header fields, whatever their case."""
    body: bytes
    """Content."""


async def prints_incomes(service: Emulator, path: Path) -> None:
    """Each line is an application, an applicant, a year and an amount."""
    lines = await python(service, path.parent, path.name)
    assert len(lines) > 5
    for line in lines:
        assert re.fullmatch(r"app-[0-9a-f]{10} applicant\d 20\d\d \d+(\.\d+)?", line)


async def prints_documents(service: Emulator, path: Path) -> None:
    """Each line is a time, a type and a document."""
    oauth2 = service.oauth2
    arguments = (service.url, oauth2.client_id, oauth2.client_secret.reveal())
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        await loaded(path).show(*arguments, service.world.reference_of(7))
    lines = printed.getvalue().splitlines()
    assert lines
    assert all(re.fullmatch(r"[0-9-]{10} [0-9:]{8}\+00:00 \w+ doc-\S+", line) for line in lines)


async def resumes(service: Emulator, path: Path) -> None:
    """The first run reads everything, each later one what was updated since the one before."""
    ids = service.world.ids
    assert sorted(await python(service, path.parent, path.name)) == sorted(ids)
    assert await python(service, path.parent, path.name) == []
    for number in (3, 4, 5):
        service.advance(60)
        service.touch(ids[number])
    service.advance(60)
    assert sorted(await python(service, path.parent, path.name)) == sorted(ids[3:6])
    assert await python(service, path.parent, path.name) == []
    assert sorted(child.name for child in path.parent.iterdir()) == [path.name, "walk.checkpoint"]


async def reports_each(service: Emulator, path: Path) -> None:
    """Every application is read, and the one that does not exist is told apart."""
    *read, failed = await python(service, path.parent, path.name)
    assert read
    assert all(line.endswith(" read") for line in read)
    assert failed.startswith("no-such-application not at all ")


async def shares_a_token(service: Emulator, path: Path) -> None:
    """Of several processes one after the other only the first buys a token; its file is private."""
    for _ in range(3):
        assert await python(service, path.parent, path.name) == ["3 rows"]
    assert [request.name for request in service.requests].count("token") == 1
    assert (path.parent / "income.token").stat().st_mode & 0o777 == 0o600


async def is_called_by_threads(service: Emulator, path: Path) -> None:
    """It reads without an event loop of the caller's, and buys one token for all."""
    moment = (datetime.now(UTC) - timedelta(days=3)).isoformat()
    lines = await python(service, path.parent, path.name, moment)
    assert lines
    assert all(re.fullmatch(r"app-[0-9a-f]{10} [0-9-]{10} [0-9:]{8}\+00:00", one) for one in lines)
    assert [request.name for request in service.requests].count("token") == 1


async def prints_w2(service: Emulator, path: Path) -> None:
    """Only W-2 forms are printed, with their year."""
    lines = await python(service, path.parent, path.name)
    assert lines
    assert all(re.fullmatch(r"w2 20\d\d", line) for line in lines)


async def tells_it_is_gone(service: Emulator, path: Path) -> None:
    """An application that does not exist is one line."""
    (line,) = await python(service, path.parent, path.name)
    assert line.startswith("gone: ")


async def passes(service: Emulator, path: Path) -> None:
    """The example is a test, and pytest runs it in either mode of pytest-asyncio."""
    scope = "--override-ini=asyncio_default_fixture_loop_scope=function"
    for mode in ("strict", "auto"):
        options = ("-q", "-p", "no:cacheprovider", f"--asyncio-mode={mode}", scope)
        lines = await python(service, path.parent, "-m", "pytest", *options, path.name)
        assert lines[-1].startswith("1 passed")


Get = Callable[[str], Awaitable[Answer]]


async def serves(service: Emulator, get: Get) -> None:
    """An application is the service's own JSON, and each error has its status."""
    one = f"/applications/{service.world.ids[0]}"
    found = await get(one)
    assert (found.status, found.headers["content-type"]) == (200, "application/json")
    assert json.loads(found.body)["application_id"] == service.world.ids[0]
    assert (await get("/applications/nobody")).status == 404
    assert (await get("/applications/a%07b")).status == 400
    service.faults.add(
        Fault("status", status=403, path="/v1/*"),
        Fault("status", status=429, headers={"Retry-After": "120"}, path="/v1/*"),
    )
    with logged() as lines:
        assert (await get(one)).status == 502
    assert [line.partition(":")[0] for line in lines] == ["PermissionDeniedError"]
    busy = await get(one)
    assert (busy.status, busy.headers["retry-after"]) == (503, "120")


async def serves_with_fastapi(service: Emulator, path: Path) -> None:
    """The application answers over ASGI, its client opened and closed by its lifespan."""
    app = loaded(path).app
    async with app.router.lifespan_context(app) as state:
        await serves(service, lambda address: asgi(app, address, state))
        client = state["income"]
    with pytest.raises(errors.ClientClosedError):
        await client.get_application(service.world.ids[0])


async def serves_with_aiohttp(service: Emulator, path: Path) -> None:
    """The application answers over a socket."""
    runner = web.AppRunner(loaded(path).make_app())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]

    async def get(address: str) -> Answer:
        url = URL(f"http://{host}:{port}{address}", encoded=True)
        async with session.get(url) as reply:
            return Answer(reply.status, CIMultiDict(reply.headers), await reply.read())

    async with ClientSession() as session:
        await serves(service, get)
    await runner.cleanup()


async def asgi(app: Any, address: str, state: Mapping[str, Any], method: str = "GET") -> Answer:
    """Call an ASGI application as a server does."""
    sent: list[Mapping[str, Any]] = []

    async def receive() -> Mapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(address),
        "raw_path": address.encode(),
        "query_string": b"",
        "headers": [],
        "state": dict(state),
    }
    await app(scope, receive, send)
    headers = ((name.decode(), text.decode()) for name, text in sent[0]["headers"])
    body = b"".join(message.get("body", b"") for message in sent)
    return Answer(sent[0]["status"], CIMultiDict(headers), body)


RunExample = Callable[[Emulator, Path], Awaitable[None]]
"""Runs the file of an example beside a service, and says what must come of it."""

RUN: Final[Mapping[str, RunExample]] = {
    "backend.py": serves_with_fastapi,
    "backend_aiohttp.py": serves_with_aiohttp,
    "blocking.py": is_called_by_threads,
    "careful.py": tells_it_is_gone,
    "explicit.py": prints_documents,
    "incomes.py": prints_incomes,
    "nightly.py": resumes,
    "shared_token.py": shares_a_token,
    "test_decision.py": passes,
    "test_files.py": passes,
    "test_polling.py": passes,
    "test_updates.py": passes,
    "w2.py": prints_w2,
    "worker.py": reports_each,
}
