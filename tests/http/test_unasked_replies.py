"""Promise 14: a reply counts only for the request that it answers.

A connection on which bytes came that nobody asked for is closed, and not used again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import product
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
from attrs import evolve

from income_client import (
    ConnectionFailedError,
    IncomeClient,
    UnexpectedResponseError,
)
from income_client.testing import JumpingClock, make_document
from tests.support.clients import BASIC, HERE, OAUTH
from tests.support.connections import (
    StrayService,
    When,
    answer_to,
    application,
    page,
    straying,
    tls_pair,
)
from tests.support.payloads import APPLICATION, DOCUMENTS
from tests.support.server import (
    Reply,
    Request,
    ScriptedServer,
    accepting,
    json_reply,
    reply,
    reset,
    turns,
)

STRAY: Final = bytes(application("somebody-else"))
PARTS: Final = {"half a head": STRAY[:30], "an empty line": b"\r\n"}
JOINED: Final = [When.SAME, When.TAIL]
APART: Final = [When.IDLE, When.UNREAD]


def client_of(service: StrayService, **options: Any) -> IncomeClient:
    """Return a client of a service, whose pauses take no time."""
    settings: dict[str, Any] = {"auth": BASIC, "clock": JumpingClock()} | options
    return IncomeClient(service.server.url, **settings)


async def two_calls(service: StrayService, client: IncomeClient) -> None:
    """Make two calls that give what was asked for, with one request each."""
    assert (await client.get_application("app-1")).application_id == "app-1"
    await service.pass_time()
    assert (await client.get_application("app-2")).application_id == "app-2"
    paths = [request.name for request in service.server.requests]
    assert paths == ["app-1", "app-2"]


# Bytes that nobody asked for


BYTES: Final = (b"\r\n", b"HTTP/1.1 200", b"HTTP/1.1 100 X\r\n\r\n", b"?")


@pytest.mark.parametrize(
    ("when", "stray", "is_tls"),
    [*product(When, [STRAY], [False, True]), *product(APART, BYTES, [False])],
)
async def test_what_nobody_asked_for_answers_no_call(
    when: When, stray: bytes, is_tls: bool
) -> None:
    """Even a byte ends its connection; each call is one request with its own reply."""
    tls, trust = tls_pair() if is_tls else (None, {})
    async with straying(when, stray, tls=tls) as service, client_of(service, **trust) as client:
        for number in range(5):
            wanted = f"app-{number}"
            assert (await client.get_application(wanted)).application_id == wanted
            await service.pass_time()
        assert len(service.server.requests) == 5
        assert service.over == [0] + [1] * 4
        assert len(service.server.connections) == 1


@pytest.mark.parametrize("when", When)
async def test_an_unrequested_file_is_not_taken(when: When, tmp_path: Path) -> None:
    """Download connections are closed after unrequested replies as well."""

    def answer(request: Request) -> Reply:
        return reply(body=request.path.encode(), content_type="text/csv")

    stray = bytes(reply(body=b"/slip-9", content_type="text/csv"))
    async with (
        straying(when, stray, answer=answer) as service,
        client_of(service, downloads=HERE) as client,
    ):
        for number in range(3):
            document = make_document(url=f"{service.server.url}/slip-{number}")
            await client.download(document, tmp_path / f"{number}")
            await service.pass_time()
        assert service.over == [0, 1, 1]
    files = [(tmp_path / f"{number}").read_text() for number in range(3)]
    assert files == ["/slip-0", "/slip-1", "/slip-2"]


@pytest.mark.parametrize("when", JOINED)
@pytest.mark.parametrize("stray", PARTS)
async def test_a_part_that_comes_with_a_reply_spoils_no_other(stray: str, when: When) -> None:
    """It cannot be told apart from the reply before it, and is ignored."""
    async with straying(when, PARTS[stray]) as service, client_of(service) as client:
        await two_calls(service, client)


@pytest.mark.parametrize("when", When)
async def test_a_connection_of_a_borrowed_session_is_checked_as_well(when: When) -> None:
    """And its owner can use it as before, over the same connections."""
    async with (
        straying(when, STRAY) as service,
        aiohttp.ClientSession() as session,
        client_of(service, session=session) as client,
    ):
        await two_calls(service, client)
        assert service.over == [0, 1]
        url = f"{service.server.url}/v1/income/applications/app-3"
        async with session.get(url) as answer:
            assert (await answer.json())["application_id"] == "app-3"
        assert service.over == [0, 1, 1]
        assert (await client.get_application("app-4")).application_id == "app-4"


@pytest.mark.parametrize("when", When)
async def test_every_idle_connection_may_have_a_stray_reply(when: When) -> None:
    """However many there are, a call takes none of them, and no attempt is lost."""
    async with straying(when, *[STRAY] * 8) as service, client_of(service) as client:
        await asyncio.gather(*[client.get_application(f"app-{n}") for n in range(8)])
        await service.pass_time()
        found = await asyncio.gather(*[client.get_application(f"next-{n}") for n in range(8)])
        assert [one.application_id for one in found] == [f"next-{n}" for n in range(8)]
        assert len(service.server.requests) == 16
        assert set(service.over[8:]).isdisjoint(service.over[:8])


@pytest.mark.parametrize("when", When)
async def test_a_stray_reply_is_no_token(when: When) -> None:
    """Token requests and calls go over the same connections where the host is the same."""
    clock = JumpingClock()
    async with (
        straying(when, b"", STRAY) as service,
        client_of(service, auth=OAUTH, clock=clock) as client,
    ):
        assert (await client.get_application("app-1")).application_id == "app-1"
        await service.pass_time()
        clock.advance(4000)
        assert (await client.get_application("app-2")).application_id == "app-2"
        paths = [request.name for request in service.server.requests]
        assert paths == ["token", "app-1", "token", "app-2"]
        assert service.over == [0, 0, 1, 1]


@pytest.mark.parametrize("when", JOINED)
async def test_what_follows_a_token_is_no_application(when: When) -> None:
    """The call that waits for the token is sent over another connection."""
    async with straying(when, STRAY) as service, client_of(service, auth=OAUTH) as client:
        assert (await client.get_application("app-1")).application_id == "app-1"
        assert service.over == [0, 1]


@pytest.mark.parametrize("hook", ["on_connection_reuseconn", "on_request_headers_sent"])
async def test_bytes_that_come_while_a_request_is_prepared_are_no_reply(hook: str) -> None:
    """A trace hook may hold a request up between the choice of its connection and its sending."""
    trace = aiohttp.TraceConfig()

    async def hold(*_: Any) -> None:
        if service.over:
            await service.pass_time()
            await turns()

    getattr(trace, hook).append(hold)
    async with (
        straying(When.UNREAD, STRAY) as service,
        client_of(service, trace_configs=[trace]) as client,
    ):
        for number in range(3):
            wanted = f"app-{number}"
            assert (await client.get_application(wanted)).application_id == wanted
        assert service.over[-1] == 1


async def test_a_greeting_is_no_reply() -> None:
    trace = aiohttp.TraceConfig()
    greeted = 0

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal greeted
        greeted += 1
        writer.write(STRAY)
        await reader.read()

    async def hold(*_: Any) -> None:
        await turns()

    trace.on_connection_create_end.append(hold)
    options: dict[str, Any] = {"clock": JumpingClock(), "trace_configs": [trace]}
    async with (
        accepting(greet) as port,
        IncomeClient(f"http://127.0.0.1:{port}", auth=BASIC, **options) as client,
    ):
        with pytest.raises(ConnectionFailedError, match="before anything was asked") as caught:
            await client.get_application("somebody-else")
        await turns()
    assert (caught.value.retryable, caught.value.attempts, greeted) == (True, 3, 3)


@pytest.mark.parametrize("ending", ["fin", "rst"])
async def test_a_connection_that_the_service_closed_costs_no_attempt(ending: str) -> None:
    """Though the event loop has not heard of it yet, the request goes over another one."""
    async with ScriptedServer(answer_to) as server:
        async with IncomeClient(server.url, auth=BASIC, clock=JumpingClock()) as client:
            await client.get_application("app-1")
            (writer,) = server.connections.values()
            if ending == "rst":
                reset(writer)
            else:
                writer.transport.write_eof()
            # Not a turn of the loop in between.
            assert (await client.get_application("app-2")).application_id == "app-2"
        assert len(server.requests) == 2


async def test_a_reply_that_is_no_token_ends_its_connection() -> None:
    """The token request is made again over another one, and so are the calls behind it."""
    replies = [reply(body=b"<html>", content_type="text/html")]

    def answer(request: Request) -> Reply:
        return replies.pop() if replies else answer_to(request)

    async with (
        straying(When.SAME, answer=answer) as service,
        client_of(service, auth=OAUTH) as client,
    ):
        assert (await client.get_application("app-1")).application_id == "app-1"
        assert service.over == [0, 1, 1]


# Replies about something else


@pytest.mark.parametrize("call", [IncomeClient.get_application, IncomeClient.get_documents])
async def test_a_reply_about_another_application_is_not_taken(
    call: Callable[..., Awaitable[object]],
) -> None:
    """Its connection is closed and the call retried; if that does not help, it fails."""
    whole = {**APPLICATION, **DOCUMENTS, "application_id": "somebody-else"}
    out = json_reply(whole, X_Request_Id="r-1")
    async with (
        straying(When.SAME, answer=lambda _: out) as service,
        client_of(service) as client,
    ):
        with pytest.raises(UnexpectedResponseError, match="another application") as caught:
            await call(client, "app-1")
    error = caught.value
    assert (error.status, error.request_id, error.attempts) == (200, "r-1", 3)
    assert service.over == [0, 1, 2]


async def test_a_reply_to_another_request_is_retried() -> None:
    """If only the connection was at fault, the call succeeds over another one."""
    wrong = [application("somebody-else"), page("loan-9")]

    def answer(request: Request) -> Reply:
        return wrong.pop(0) if len(service.over) in (1, 3) else answer_to(request)

    async with (
        straying(When.SAME, answer=answer) as service,
        client_of(service) as client,
    ):
        assert (await client.get_application("app-1")).application_id == "app-1"
        found = await client.find_application("loan-1")
        assert found is not None
        assert found.application_reference_id == "loan-1"
        assert service.over == [0, 1, 1, 2]


async def test_other_applications_do_not_mean_not_found() -> None:
    """A service that ignores the reference has not answered the call; an empty list does."""
    rows = [page("loan-2"), page("LOAN-1"), page()]
    async with (
        straying(When.SAME, answer=lambda _: rows[0]) as service,
        client_of(service) as client,
    ):
        while len(rows) > 1:
            with pytest.raises(UnexpectedResponseError):
                await client.find_application("loan-1")
            rows.pop(0)
        assert await client.find_application("loan-1") is None


async def test_two_applications_with_one_reference_are_an_error() -> None:
    """A reference is unique, so neither can be taken for the one that is meant."""
    twice = page("loan-1", "loan-1")
    one, another = twice.body.split(b"id-of-loan-1", 1)
    two = evolve(twice, body=one + b"id-of-another" + another)
    replies = [two, two, two, twice]
    async with (
        straying(When.SAME, answer=lambda _: replies.pop(0)) as service,
        client_of(service) as client,
    ):
        with pytest.raises(UnexpectedResponseError, match="2 applications have this"):
            await client.find_application("loan-1")
        found = await client.find_application("loan-1")
    assert found is not None
    assert found.application_id == "id-of-loan-1"
