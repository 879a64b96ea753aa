"""Running the programs of the guide beside an emulated service."""

import asyncio
import contextlib
import importlib.util
import logging
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote

from attrs import frozen
from multidict import CIMultiDict

from income_client.emulator import Emulator
from tests.support.processes import ROOT, environment

RunExample = Callable[[Emulator, Path], Awaitable[None]]
"""Runs the file of an example beside a service, and checks what comes of it."""


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


@contextlib.asynccontextmanager
async def alive(
    service: Emulator, path: Path, **more: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run an example beside what happens inside; it is killed at the end unless it ended."""
    process = await started(service, path.parent, path.name, **more)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def ended(process: asyncio.subprocess.Process) -> list[str]:
    """Have a process end as a service manager does, and return the rest of its lines."""
    process.terminate()
    output, complaints = await process.communicate()
    assert (process.returncode, complaints.decode()) == (0, "")
    return output.decode().splitlines()


async def lines_of(process: asyncio.subprocess.Process, count: int) -> list[str]:
    """Return the next lines that it prints."""
    assert process.stdout is not None
    return [(await process.stdout.readline()).decode().rstrip("\n") for _ in range(count)]


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something holds that another process brings about."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - another process sets no event
            await asyncio.sleep(0.01)


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    """Return what a query finds in an SQLite file."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


async def begun(path: Path) -> None:
    """Wait until a poller that begins with the present has stored which one that is."""
    store = path.parent / "polls.db"

    def has_begun() -> bool:
        with contextlib.suppress(sqlite3.OperationalError):  # the file is there before its tables
            return store.exists() and bool(rows(store, "SELECT * FROM checkpoints"))
        return False

    await until(has_begun)


def updated(service: Emulator, numbers: range) -> list[str]:
    """Update applications after what was polled before, and return their ids in order."""
    service.advance(60)
    for number in numbers:
        service.touch(service.world.ids[number])
    service.advance(60)
    return sorted(service.world.ids[number] for number in numbers)


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
    """Collect what a program logs through the root logger meanwhile."""
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


async def passes(service: Emulator, path: Path) -> None:
    """The example is a test, and pytest runs it in either mode of pytest-asyncio."""
    scope = "--override-ini=asyncio_default_fixture_loop_scope=function"
    for mode in ("strict", "auto"):
        options = ("-q", "-p", "no:cacheprovider", f"--asyncio-mode={mode}", scope)
        lines = await python(service, path.parent, "-m", "pytest", *options, path.name)
        assert lines[-1].startswith("1 passed")


@frozen
class Answer:
    """What a browser gets."""

    status: int
    """HTTP status."""
    headers: Mapping[str, str]
    """Header fields, whatever their case."""
    body: bytes
    """Content."""


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
