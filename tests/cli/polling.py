"""``income-client poll`` against an emulated service in the test's own process."""

import asyncio
import json
import subprocess
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from income_client.emulator import Emulator
from income_client.emulator.exchange import HttpRequest
from tests.cli.entry import run, start

FROM_THE_BEGINNING: Final = ("--start", "beginning", "--once")


def variables(service: Emulator) -> dict[str, str]:
    """Return the environment that leads the command to a service."""
    return {
        "INCOME_BASE_URL": service.url,
        "INCOME_CLIENT_ID": service.oauth2.client_id,
        "INCOME_CLIENT_SECRET": service.oauth2.client_secret.reveal(),
    }


@frozen
class Command:
    """The command on one store and one service."""

    service: Emulator
    """What it polls."""
    store: Path
    """Where it keeps how far it has come."""

    async def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run it to its end while the service goes on."""
        whole = ("poll", "--store", str(self.store), *arguments)
        return await asyncio.to_thread(run, *whole, **variables(self.service))

    @contextmanager
    def started(self, *arguments: str, **options: Any) -> "Iterator[subprocess.Popen[str]]":
        """Run it beside what happens inside; nothing of it is left afterwards."""
        whole = ("poll", "--store", str(self.store), *arguments)
        together: dict[str, Any] = {**variables(self.service), **options}
        process = start(*whole, **together)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something holds that another process brings about."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - another process sets no event
            await asyncio.sleep(0.01)


async def ended(process: "subprocess.Popen[str]") -> tuple[str | None, str]:
    """Wait for a process, and return what it wrote to both streams; None if not to a pipe."""
    return await asyncio.to_thread(process.communicate, timeout=50)


def reads(service: Emulator) -> int:
    """Return how many applications were asked for."""
    return sum(request.name == "get_application" for request in service.requests)


def parsed(lines: str) -> list[Any]:
    """Read lines of JSON, numbers exactly."""
    return [json.loads(line, parse_float=Decimal) for line in lines.splitlines()]


def ids_of(lines: str) -> list[str]:
    """Return the ids of applications, one a line."""
    return [line["application_id"] for line in parsed(lines)]


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
    return json.loads(service._answer(request).body, parse_float=Decimal)


def without_addresses(documents: Any) -> Any:
    """Return documents as JSON without their download addresses, which change with each reply."""
    for each in all_of(documents["documents"].values()):
        each["url"] = each["url"].partition("?")[0]
    return documents


def all_of(lists: Iterable[list[Any]]) -> Iterable[Any]:
    """Yield the elements of lists."""
    for one in lists:
        yield from one
