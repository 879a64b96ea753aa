"""An emulated service in a test's own event loop, beside a program of the README."""

import asyncio
import json
from base64 import b64encode
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from income_client.emulator import Emulator, HttpRequest, respond


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
