"""Short ways to call an emulator over real sockets."""

import asyncio
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
from yarl import URL

from income_client.emulator import Emulator
from tests.support.emulated_replies import LIST


def basic_header(service: Emulator) -> dict[str, str]:
    """Return the header of good Basic credentials."""
    return {"Authorization": service.basic.authorization().reveal()}


async def get_status(session: aiohttp.ClientSession, service: Emulator, path: str = LIST) -> int:
    """Return the status of a GET."""
    async with session.get(service.url + path, headers=basic_header(service)) as reply:
        await reply.read()
        return reply.status


async def get_json(session: aiohttp.ClientSession, service: Emulator, path: str) -> Any:
    """Return the content of a 200."""
    async with session.get(service.url + path, headers=basic_header(service)) as reply:
        assert reply.status == 200
        return await reply.json()


async def bearer_header(session: aiohttp.ClientSession, service: Emulator) -> dict[str, str]:
    """Request a token and return its header."""
    async with session.post(
        f"{service.url}/token",
        data={"grant_type": "client_credentials"},
        headers={"Authorization": service.oauth2.authorization().reveal()},
    ) as reply:
        token = await reply.json()
    return {"Authorization": f"{token['token_type']} {token['access_token']}"}


async def raw_reply(service: Emulator, path: str = LIST) -> bytes:
    """Return every byte that a GET is answered with, until the connection closes."""
    port = URL(service.url).port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    authorization = service.basic.authorization().reveal()
    writer.write(
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Authorization: {authorization}\r\n\r\n".encode()
    )
    try:
        return await reader.read()
    finally:
        writer.close()


async def until(condition: Callable[[], bool]) -> None:
    """Give the loop turns until a condition holds."""
    for _ in range(100_000):
        if condition():
            return
        await asyncio.sleep(0)
    pytest.fail("what was waited for never came")
