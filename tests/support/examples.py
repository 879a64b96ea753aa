"""What the tables of examples have in common: running a program beside the emulator."""

import asyncio
import contextlib
import importlib.util
import json
import logging
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote

from attrs import frozen
from multidict import CIMultiDict

from income_client.emulator import Emulator, HttpRequest, respond
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


async def python(service: Emulator, folder: Path, *arguments: str, **more: str) -> list[str]:
    """Run Python in a folder, and return the lines that it printed."""
    process = await started(service, folder, *arguments, **more)
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
def logged(name: str = "root") -> Iterator[list[str]]:
    """Collect what is logged meanwhile through a logger, from INFO on."""
    lines: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.name == name:
                lines.append(record.getMessage())

    collector, logger = Collector(), logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(collector)
    try:
        yield lines
    finally:
        logger.removeHandler(collector)
        logger.setLevel(level)


@frozen
class Answer:
    """What a browser gets."""

    status: int
    """HTTP status."""
    headers: Mapping[str, str]
    """Header fields, whatever their case."""
    body: bytes
    """Content."""


async def passes(service: Emulator, path: Path) -> None:
    """The example is a test, and pytest runs it in either mode of pytest-asyncio."""
    scope = "--override-ini=asyncio_default_fixture_loop_scope=function"
    for mode in ("strict", "auto"):
        options = ("-q", "-p", "no:cacheprovider", f"--asyncio-mode={mode}", scope)
        lines = await python(service, path.parent, "-m", "pytest", *options, path.name)
        assert lines[-1].startswith("1 passed")


async def asgi(
    app: Any, address: str, method: str = "GET", headers: Sequence[tuple[bytes, bytes]] = ()
) -> Answer:
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
        "headers": list(headers),
    }
    await app(scope, receive, send)
    shown = ((name.decode(), text.decode()) for name, text in sent[0]["headers"])
    body = b"".join(message.get("body", b"") for message in sent)
    return Answer(sent[0]["status"], CIMultiDict(shown), body)


RunExample = Callable[[Emulator, Path], Awaitable[None]]
"""Runs the file of an example beside a service, and checks the result."""


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something holds that another process brings about."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - another process sets no event
            await asyncio.sleep(0.01)


def reads(service: Emulator) -> int:
    """Return how many applications were asked for."""
    return sum(request.name == "get_application" for request in service.requests)


def served(service: Emulator, application_id: str, rest: str = "", query: str = "") -> Any:
    """Return what the service itself says of an application."""
    name, password = service.basic.username, service.basic.password.reveal()
    token = b64encode(f"{name}:{password}".encode()).decode()
    request = HttpRequest(
        method="GET",
        path=f"/v1/income/applications/{application_id}{rest}",
        query=query,
        headers={"authorization": f"Basic {token}", "host": "127.0.0.1"},
    )
    return json.loads(respond(service._service, request).body, parse_float=Decimal)
