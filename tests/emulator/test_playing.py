"""Faults over real sockets."""

import asyncio
import re

import aiohttp
import pytest

from income_client.emulator import Emulator, Fault
from tests.support.emulated_calls import (
    basic_header,
    get_status,
    raw_reply,
    until,
)
from tests.support.emulated_replies import LIST


async def test_status_fault(session: aiohttp.ClientSession, service: Emulator) -> None:
    """A status fault replaces the reply with its status, headers and body, as often as it says."""
    service.faults.add(Fault("status", status=429, headers={"Retry-After": "7"}, body=b"{}"))
    async with session.get(service.url + LIST, headers=basic_header(service)) as reply:
        assert (reply.status, reply.headers["Retry-After"]) == (429, "7")
        assert reply.headers["Date"] == "Tue, 30 Jun 2026 12:00:00 GMT"
        assert "X-Request-Id" in reply.headers
        assert await reply.read() == b"{}"
    assert await get_status(session, service) == 200
    assert [each.fault for each in service.requests] == ["status", None]


@pytest.mark.parametrize("status", [204, 304, 302, 418, 599, 999])
async def test_odd_statuses(session: aiohttp.ClientSession, service: Emulator, status: int) -> None:
    """A status fault can send any final status, with a Location or without one."""
    service.faults.add(Fault("status", status=status))
    url = service.url + LIST
    async with session.get(url, headers=basic_header(service), allow_redirects=False) as reply:
        assert reply.status == status


async def test_redirect_and_body_faults(session: aiohttp.ClientSession, service: Emulator) -> None:
    """A redirect leads elsewhere; a body fault gives any content with 200."""
    service.faults.add(
        Fault("redirect", location="http://127.0.0.1:9/", status=302),
        Fault("body", body=b"<html>", content_type="text/html"),
    )
    url = service.url + LIST
    async with session.get(url, headers=basic_header(service), allow_redirects=False) as reply:
        assert (reply.status, reply.headers["Location"]) == (302, "http://127.0.0.1:9/")
    async with session.get(url, headers=basic_header(service)) as reply:
        assert (reply.status, reply.content_type) == (200, "text/html")
        assert await reply.read() == b"<html>"


async def test_reset_fault(service: Emulator) -> None:
    """A reset ends the connection with RST."""
    service.faults.add(Fault("reset"))
    with pytest.raises(ConnectionResetError):
        await raw_reply(service)


async def test_drop_fault(service: Emulator) -> None:
    """A drop closes the connection without a byte."""
    service.faults.add(Fault("drop"))
    assert await raw_reply(service) == b""


async def test_cut_fault(session: aiohttp.ClientSession, service: Emulator) -> None:
    """A cut announces the whole length and sends a part of it."""
    service.faults.add(Fault("cut"), Fault("cut", keep=0), Fault("cut", path="*/nobody"))
    for keep in (None, 0):
        head, _, body = (await raw_reply(service)).partition(b"\r\n\r\n")
        length = re.search(rb"Content-Length: (\d+)", head)
        assert length is not None
        assert len(body) == (int(length[1]) // 2 if keep is None else keep)
    with pytest.raises(aiohttp.ClientPayloadError):
        await get_status(session, service, f"{LIST}/nobody")


async def test_garbage_fault(session: aiohttp.ClientSession, service: Emulator) -> None:
    """Garbage is not HTTP."""
    service.faults.add(Fault("garbage"), Fault("garbage", body=b"HTTP/9 what\r\n\r\n"))
    for _ in range(2):
        with pytest.raises(aiohttp.ClientResponseError):
            await get_status(session, service)


async def test_trickle_fault(service: Emulator) -> None:
    """A trickle sends the true reply byte by byte."""
    service.faults.add(Fault("trickle", interval=0.0))
    trickled, true = await raw_reply(service, f"{LIST}/nobody"), b'{"error":"not_found"'
    assert trickled.startswith(b"HTTP/1.1 404 Not Found\r\n")
    assert true in trickled


async def test_close_ends_stalls_and_trickles() -> None:
    """Closing ends requests that would never be answered and leaves no task behind."""
    before = asyncio.all_tasks()
    async with Emulator(5) as service:
        service.faults.add(Fault("stall"), Fault("trickle", interval=3600))
        waiting = [asyncio.create_task(raw_reply(service)) for _ in range(2)]
        await until(lambda: len(service.requests) == 2)
        assert service.max_in_flight == 2
    assert await waiting[0] == b""
    assert len(await waiting[1]) == 1
    assert asyncio.all_tasks() == before


async def test_stalls_end_with_their_client(service: Emulator) -> None:
    """A stalled request ends with its client, and others are served."""
    service.faults.add(Fault("stall"))
    waiting = asyncio.create_task(raw_reply(service))
    await until(lambda: len(service.requests) == 1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    service.faults.add(Fault("drop"))
    assert await raw_reply(service) == b""
    assert [each.status for each in service.requests] == [0, 0]
