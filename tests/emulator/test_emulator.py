"""The emulator over real sockets: its time, its log, its end, its page."""

import asyncio
import re
import socket
import struct
from contextlib import suppress
from typing import Final
from unittest.mock import AsyncMock

import aiohttp
import pytest
from yarl import URL

from income_client import IncomeClient
from income_client.emulator import CallbackTarget, Emulator, Fault
from income_client.errors import ConfigurationError
from income_client.settings import Secret
from income_client.testing import JumpingClock
from tests.support.emulated import LIST, basic_header, get_json, get_status
from tests.support.server import SILENT, ScriptedServer, in_turn
from tests.support.service import until

FILES: Final = {"/": "text/html", "/page.css": "text/css", "/page.js": "text/javascript"}


async def test_virtual_clock(session: aiohttp.ClientSession, service: Emulator) -> None:
    """Service time stays until it is moved, and the list and the Date header follow it."""
    before = service.now
    first = await get_json(session, service, LIST)
    service.advance(0.5)
    assert (await get_json(session, service, LIST))["updated_before"] == first["updated_before"]
    service.advance(59.5)
    assert service.now == before + 60
    assert first["updated_before"] == "2026-06-30T12:00:00"
    assert (await get_json(session, service, LIST))["updated_before"] == "2026-06-30T12:01:00"
    with pytest.raises(ConfigurationError):
        service.advance(-1)


async def test_old_requests_are_forgotten(
    session: aiohttp.ClientSession, service: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log keeps the last requests, never more than twice as many as it promises."""
    monkeypatch.setattr("income_client.emulator.emulator._MAX_REQUESTS", 5)
    for number in range(23):
        await get_status(session, service, f"/{number}")
        assert len(service.requests) <= 10
    assert [each.path for each in service.requests[-5:]] == [f"/{n}" for n in range(18, 23)]


async def test_large_requests_do_not_fill_the_memory(
    session: aiohttp.ClientSession, service: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records of requests are cut and limited in total; too large requests are refused unread."""
    monkeypatch.setattr("income_client.emulator.emulator._MAX_REQUESTS_SIZE", 40_000)
    long = "y" * 3000
    for number in range(23):
        headers = {"X-Number": str(number), "X-Long": long}
        async with session.get(f"{service.url}/{long}?q={long}", headers=headers) as answer:
            assert answer.status == 404
        assert len(service.requests) <= 11
    assert len(service.requests) >= 4
    last = service.requests[-1]
    assert (last.path, last.query) == (f"/{long}"[:2000], f"q={long}"[:2000])
    assert (last.headers["x-number"], last.headers["x-long"]) == ("22", long[:2000])
    # Of a log that was emptied nothing is forgotten for what was in it.
    service.requests.clear()
    for number in range(30):
        await get_status(session, service, f"/{number}")
    assert len(service.requests) == 30
    fields = {f"X-{number}": "x" * 8000 for number in range(5)}
    for url in (service.url, service.files_url, f"{service.url}/emulator/state"):
        async with session.get(url, headers=fields) as answer:
            assert (answer.status, (await answer.json())["error"]) == (431, "headers_too_large")
    assert len(service.requests) == 30


@pytest.mark.parametrize("turns", range(5))
@pytest.mark.parametrize("server", ["url", "files_url"])
async def test_close_ends_connections_accepted_just_before(server: str, turns: int) -> None:
    """At whichever turn of the loop it comes, a connection is closed, not lost."""
    before = asyncio.all_tasks()
    service = Emulator(1)
    await service.start()
    address = URL(getattr(service, server))
    with socket.create_connection((str(address.host), address.port or 0)) as connection:
        for _ in range(turns):
            await asyncio.sleep(0)
        await service.close()
        assert asyncio.all_tasks() == before
        connection.settimeout(0)
        async with asyncio.timeout(10):
            with suppress(ConnectionResetError):
                assert await asyncio.get_running_loop().sock_recv(connection, 1) == b""


async def test_who_goes_away_gives_up_the_callback(
    session: aiohttp.ClientSession, service: Emulator
) -> None:
    """A command whose sender hangs up is remembered without a status, and no task is left."""
    async with ScriptedServer(in_turn(SILENT)) as server:
        service.callbacks = CallbackTarget(server.url)
        order = session.post(
            f"{service.url}/emulator/fire_callback", json={}, headers=basic_header(service)
        )
        waiting = asyncio.ensure_future(order)
        await until(lambda: len(server.requests) == 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until(lambda: len(service.requests) == 1)
    assert (service.requests[0].name, service.requests[0].status) == ("control", 0)


@pytest.mark.parametrize("gone", [ConnectionError("gone"), TimeoutError("gone")])
async def test_a_connection_that_ends_in_a_request_is_no_error(
    session: aiohttp.ClientSession,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    gone: Exception,
) -> None:
    """No error is logged for it; other failures are logged with their cause."""
    logged = []
    for error in (gone, LookupError("gone too")):
        clock = JumpingClock()
        monkeypatch.setattr(clock, "sleep", AsyncMock(side_effect=error))
        async with Emulator(5, latency=1, clock=clock) as service:
            assert await get_status(session, service) in (500, 504)
        logged.append([record.exc_info and record.exc_info[1] for record in caplog.records])
    assert logged == [[], [error]]


async def test_clients_that_are_cut_off_leave_nothing_behind(
    service: Emulator, caplog: pytest.LogCaptureFixture
) -> None:
    """In half a line, a stream, a reply that trickles, what is not HTTP: no log, no handler."""
    service.faults.add("list_applications: trickle interval=0.001")
    port = URL(service.url).port
    (authorization,) = basic_header(service).values()
    fields = f"Host: 127.0.0.1:{port}\r\nAuthorization: {authorization}\r\n"
    upload = f"{fields}Content-Type: application/json\r\nContent-Length: 900\r\n"
    tasks = asyncio.all_tasks()
    for sent, is_answered in (
        ("GET /v1/inc", False),
        (f"GET / HTTP/1.1\r\n{fields}", False),
        (f"POST /emulator/faults HTTP/1.1\r\n{upload}\r\n{{", False),
        (f"GET /emulator/events HTTP/1.1\r\n{fields}\r\n", True),
        (f"GET {LIST} HTTP/1.1\r\n{fields}\r\n" * 3, True),
        ("GET / HTTP/9\r\n\r\n", True),
        (f"GET / HTTP/1.1\r\nX-Long: {'x' * 20_000}\r\n\r\n", True),
        (f"POST / HTTP/1.1\r\n{fields}Transfer-Encoding: chunked\r\n\r\nnothing\r\n", True),
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent.encode())
        assert not is_answered or await reader.readline()
        connection = writer.get_extra_info("socket")
        # As the kernel does for a killed process with something left to read.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    await until(lambda: asyncio.all_tasks() <= tasks and not service.in_flight)
    assert caplog.messages == []


# Its page


async def test_the_page_loads_nothing_from_elsewhere(
    service: Emulator, session: aiohttp.ClientSession
) -> None:
    """Three files are all of the page, and its policy allows no other file, frame or script."""
    for path, kind in FILES.items():
        async with session.get(service.url + path) as answer:
            assert (answer.status, answer.content_type) == (200, kind)
            policy = answer.headers["Content-Security-Policy"]
            text = await answer.text()
        rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
        assert rules.pop("require-trusted-types-for") == "'script'"
        assert rules.pop("default-src") == rules["frame-ancestors"] == "'none'"
        assert set(rules.values()) == {"'self'", "'none'", "data:"}
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert not re.search(r"https?://|innerHTML|<script>|style=|\son\w+=", text)
        assert {*re.findall(r'(?:href|src)="([^"]+)"', text)} <= {*FILES, "data:,"}
    async with session.post(service.url) as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, "GET")


async def test_the_page_comes_whatever_else_fails(session: aiohttp.ClientSession) -> None:
    """No fault falls on it or its calls, no token is needed, no journal has it; not for others."""
    async with Emulator(3, latency=3600, control_token=Secret("invented-token")) as service:
        service.faults.add("503 rate=100%")
        for path in FILES:
            async with session.get(service.url + path) as answer:
                assert answer.status == 200
            async with session.get(service.url + path, headers={"Host": "evil.example"}) as answer:
                assert answer.status == 421
        state = f"{service.url}/emulator/state"
        headers = {"Authorization": "Bearer invented-token"}
        async with session.get(state, headers=headers) as answer:
            assert answer.status == 200
        assert service.journal.last == 0
        assert [each.name for each in service.requests[:2]] == ["index", "index"]
        assert service.faults.played.total() == 0


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Host": "evil.example"}],
    ids=["Origin", "Sec-Fetch-Site", "Host"],
)
async def test_a_page_of_another_origin_uses_up_nothing(
    service: Emulator, session: aiohttp.ClientSession, headers: dict[str, str]
) -> None:
    """No fault falls on its requests, and neither journal, log nor counters have them."""
    service.faults.add(Fault("status", times=1))
    paths = (LIST, "/oauth2/token", "/nothing", "/", "/emulator/state")
    for url in (*(service.url + path for path in paths), f"{service.files_url}/document"):
        async with session.get(url, headers=headers) as answer:
            assert 400 <= answer.status < 500 or url == f"{service.url}/"
        async with session.post(url, headers=headers, data={"grant_type": "x"}) as answer:
            assert 400 <= answer.status < 500
    assert (len(service.requests), service.journal.last, service.token_requests) == (0, 0, 0)
    assert service.faults.played.total() == 0
    assert await get_status(session, service, LIST) == 503


async def test_a_page_of_another_origin_may_show_a_file(
    service: Emulator, session: aiohttp.ClientSession
) -> None:
    """A web application in development shows documents by their addresses."""
    found = await get_json(session, service, f"{LIST}/{service.world.ids[0]}/documents")
    url = found["documents"]["paystub"][0]["url"]
    async with session.get(URL(url, encoded=True), headers={"Origin": "http://app.example"}) as got:
        assert got.status == 200
    assert service.requests[-1].status == 200


async def test_it_names_the_variables_that_lead_a_client_here(
    service: Emulator, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With them a client reads it; a page of another origin, or another host, does not get them."""
    address = f"{service.url}/emulator/environment"
    async with session.get(address) as answer:
        variables = await answer.json()
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    async with IncomeClient.from_env() as client:
        assert len([row async for row in client.list_applications()]) == 50
    for headers, status in (
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Host": "evil.example"}, 421),
    ):
        async with session.get(address, headers=headers) as answer:
            assert answer.status == status
            assert "secret" not in await answer.text()
    assert await get_status(session, service, LIST) == 200
