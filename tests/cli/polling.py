"""``income-client poll`` against an emulated service in the test's own process."""

import json
from base64 import b64encode
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from income_client.emulator import Emulator
from income_client.emulator.exchange import HttpRequest
from tests.cli.running import ServiceCommand, ended, until, variables

__all__ = ["ended", "until", "variables"]  # from before these had a module of their own
FROM_THE_BEGINNING: Final = ("--start", "beginning", "--once")


@frozen
class Command(ServiceCommand):
    """The command on one store and one service."""

    store: Path
    """Where it keeps how far it has come."""

    def line(self, *arguments: str) -> tuple[str, ...]:
        """Return the command line with some arguments."""
        return ("poll", "--store", str(self.store), *arguments)


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
