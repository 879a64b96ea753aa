"""Helpers of the tables of examples: run a program beside the emulator."""

import asyncio
import contextlib
import importlib.util
import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

from income_client import DeadLetter, SQLiteCheckpointStore
from income_client.emulator import Emulator, HttpRequest, respond
from income_client.records import Window
from income_client.records.window import EPOCH
from tests.support.processes import ROOT, environment

RunExample = Callable[[Emulator, Path], Awaitable[None]]
"""Runs the file of an example beside a service, and checks the result."""


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
    assert (process.returncode, complaints) == (0, b""), (output + complaints).decode()
    return output.decode().splitlines()


@contextlib.asynccontextmanager
async def alive(
    service: Emulator, folder: Path, *arguments: str, **more: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run Python beside what happens inside; then end it as a service manager does."""
    process = await started(service, folder, *arguments, **more)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        _, complaints = await process.communicate()
    assert b"Traceback" not in complaints, complaints.decode()


async def printed(stream: asyncio.StreamReader | None, wanted: set[str]) -> None:
    """Wait until each of these words was in a line."""
    assert stream is not None
    async with asyncio.timeout(40):
        missing = set(wanted)
        while missing:
            line = await stream.readline()
            assert line, f"it has ended without {missing}"
            missing -= set(line.decode().split())


async def leave_letters(path: Path, *application_ids: str | None) -> None:
    """Leave dead letters in a store, after what is there."""
    letters = [
        DeadLetter(
            application_id=one,
            window=Window(1, 2),
            reason="NotFoundError: 404 Not Found",
            attempts=2,
            first_tried_at=EPOCH,
            last_tried_at=EPOCH,
        )
        for one in application_ids
    ]
    store = SQLiteCheckpointStore(path)
    version = (await store.load("default")).version
    await store.save("default", "{}", version=version, dead_letters=letters)


def loaded(path: Path) -> ModuleType:
    """Import a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def updated(service: Emulator, numbers: range) -> set[str]:
    """Update applications after what was polled before, and return their ids."""
    service.advance(60)
    for number in numbers:
        service.touch(service.world.ids[number])
    service.advance(60)
    return {service.world.ids[number] for number in numbers}


def asked(service: Emulator, name: str = "get_application") -> list[str]:
    """Return the ends of the paths that were asked for by a call."""
    return [one.path.rpartition("/")[2] for one in service.requests if one.name == name]


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
