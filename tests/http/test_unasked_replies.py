"""Promise 14: a reply counts only for the request that it answers.

A connection on which bytes came that nobody asked for is closed, and not used again.
"""

import asyncio
import contextlib
import enum
import select
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import product
from pathlib import Path
from typing import Any, Final, assert_never

import aiohttp
import pytest
from attrs import define, evolve, field

from income_client import ConnectionFailedError, IncomeClient, UnexpectedResponseError
from income_client.testing import JumpingClock, make_document
from tests.support.clients import BASIC, HERE, OAUTH
from tests.support.payloads import APPLICATION, DOCUMENTS
from tests.support.proxies import tls_pair
from tests.support.server import (
    Reply,
    Request,
    ScriptedServer,
    accepting,
    answer_to,
    application,
    json_reply,
    page,
    reply,
    reset,
    turns,
)

STRAY: Final = bytes(application("somebody-else"))


class When(enum.Enum):
    """The moment at which bytes come that nobody asked for."""

    IDLE = "while the connection is idle"
    UNREAD = "just before the next request, so that the event loop has not read them yet"
    SAME = "in one segment with the reply before"
    TAIL = "in the last segment of the reply before"


always = pytest.mark.parametrize("when", When, ids=lambda when: when.name)


@define
class StrayService:
    """A service whose first replies are followed by bytes that nobody asked for."""

    when: When
    strays: list[bytes]
    answer: Callable[[Request], Reply]
    server: ScriptedServer = field(init=False)
    _late: list[tuple[int, bytes]] = field(factory=list)

    @property
    def over(self) -> list[int]:
        """Number of the connection of each request: 0, 1, ..."""
        return [request.connection for request in self.server.requests]

    async def pass_time(self) -> None:
        """Let pass what lies between two calls of a client."""
        await turns()
        while self._late:
            connection, stray = self._late.pop()
            if connection in self.server.connections:
                self.server.connections[connection].write(stray)
        if self.when is not When.UNREAD:
            await turns()

    def reply_to(self, request: Request) -> Reply:
        """Return the right reply, and perhaps more behind it."""
        right = self.answer(request)
        stray = self.strays.pop(0) if self.strays else b""
        whole = bytes(right)

        async def last() -> AsyncIterator[bytes]:
            await turns()
            yield whole[-1:] + stray

        match self.when if stray else When.IDLE:
            case When.SAME:
                return Reply(raw=whole + stray)
            case When.TAIL:
                return Reply(raw=whole[:-1], slow=last)
            case When.IDLE | When.UNREAD:
                self._late.append((request.connection, stray))
                return right
            case _ as never:
                assert_never(never)


@contextlib.asynccontextmanager
async def straying(
    when: When, *strays: bytes, answer: Callable[[Request], Reply] = answer_to, **options: Any
) -> AsyncIterator[tuple[StrayService, IncomeClient]]:
    """Run a service that sends strays after its first replies, and a client without pauses."""
    service = StrayService(when, list(strays), answer)
    tls, trust = tls_pair() if options.pop("is_tls", False) else (None, {})
    usual: dict[str, Any] = {"auth": BASIC, "clock": JumpingClock(), **trust}
    async with (
        ScriptedServer(service.reply_to, tls) as service.server,
        IncomeClient(service.server.url, **usual | options) as client,
    ):
        yield service, client


async def get(client: IncomeClient, *names: str) -> None:
    """Make calls at once that give what was asked for."""
    found = await asyncio.gather(*map(client.get_application, names))
    assert [one.application_id for one in found] == [*names]


# Bytes that nobody asked for


@pytest.mark.parametrize(
    ("when", "stray", "is_tls"),
    [
        *product(When, [STRAY], [False, True]),
        *((When.IDLE, stray, False) for stray in (b"\r\n", b"HTTP/1.1 200")),
        *((When.UNREAD, stray, False) for stray in (b"HTTP/1.1 100 X\r\n\r\n", b"?")),
    ],
)
async def test_what_nobody_asked_for_answers_no_call(
    when: When, stray: bytes, is_tls: bool
) -> None:
    """Even a byte ends its connection; each call is one request with its own reply."""
    async with straying(when, stray, is_tls=is_tls) as (service, client):
        for number in range(3):
            await get(client, f"app-{number}")
            await service.pass_time()
        assert service.over == [0, 1, 1]
        assert len(service.server.connections) == 1


@pytest.mark.parametrize("when", [When.SAME, When.TAIL])
@pytest.mark.parametrize("part", [STRAY[:30], b"\r\n"], ids=["half a head", "an empty line"])
async def test_a_part_that_comes_with_a_reply_spoils_no_other(part: bytes, when: When) -> None:
    """The part cannot be distinguished from the reply before it, and is ignored."""
    async with straying(when, part) as (service, client):
        await get(client, "app-1")
        await service.pass_time()
        await get(client, "app-2")
        assert len(service.over) == 2


@always
async def test_an_unrequested_file_is_not_taken(when: When, tmp_path: Path) -> None:
    """Download connections are closed after unrequested replies as well."""

    def answer(request: Request) -> Reply:
        return reply(body=request.path.encode(), content_type="text/csv")

    stray = bytes(reply(body=b"/slip-9", content_type="text/csv"))
    async with straying(when, stray, answer=answer, downloads=HERE) as (service, client):
        for number in range(3):
            document = make_document(url=f"{service.server.url}/slip-{number}")
            await client.download(document, tmp_path / f"{number}")
            assert (tmp_path / f"{number}").read_text() == f"/slip-{number}"
            await service.pass_time()
        assert service.over == [0, 1, 1]


@always
async def test_a_connection_of_a_borrowed_session_is_checked_as_well(when: When) -> None:
    """And its owner can use it as before, over the same connections."""
    async with (
        aiohttp.ClientSession() as session,
        straying(when, STRAY, session=session) as (service, client),
    ):
        await get(client, "app-1")
        await service.pass_time()
        await get(client, "app-2")
        url = f"{service.server.url}/v1/income/applications/app-3"
        async with session.get(url) as answer:
            assert (await answer.json())["application_id"] == "app-3"
        assert service.over == [0, 1, 1]
        await get(client, "app-4")


@always
async def test_every_idle_connection_may_have_a_stray_reply(when: When) -> None:
    """However many there are, a call takes none of them, and no attempt is lost."""
    async with straying(when, *[STRAY] * 8) as (service, client):
        await get(client, *[f"app-{n}" for n in range(8)])
        await service.pass_time()
        await get(client, *[f"next-{n}" for n in range(8)])
        assert len(service.over) == 16
        assert set(service.over[8:]).isdisjoint(service.over[:8])


async def test_unread_bytes_are_noticed_without_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows has no `select.poll`."""
    monkeypatch.delattr(select, "poll", raising=False)
    async with straying(When.UNREAD, STRAY) as (service, client):
        for number in range(3):
            await get(client, f"app-{number}")
            await service.pass_time()
        assert service.over == [0, 1, 1]


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
        aiohttp.ClientSession(trace_configs=[trace]) as session,
        straying(When.UNREAD, STRAY, session=session) as (service, client),
    ):
        for number in range(3):
            await get(client, f"app-{number}")
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
    clock = JumpingClock()
    async with (
        accepting(greet) as port,
        aiohttp.ClientSession(trace_configs=[trace]) as session,
        IncomeClient(
            f"http://127.0.0.1:{port}", auth=BASIC, clock=clock, session=session
        ) as client,
    ):
        with pytest.raises(ConnectionFailedError, match="before anything was asked") as caught:
            await client.get_application("somebody-else")
        await turns()
    assert (caught.value.retryable, caught.value.attempts, greeted) == (True, 3, 3)


@pytest.mark.parametrize("ending", ["fin", "rst"])
async def test_a_connection_that_the_service_closed_costs_no_attempt(ending: str) -> None:
    """Though the event loop has not heard of it yet, the request goes over another one."""
    async with straying(When.IDLE) as (service, client):
        await get(client, "app-1")
        (writer,) = service.server.connections.values()
        if ending == "rst":
            reset(writer)
        else:
            writer.transport.write_eof()
        # Not a turn of the loop in between.
        await get(client, "app-2")
        assert service.over == [0, 1]


async def test_a_reply_that_is_no_token_ends_its_connection() -> None:
    """The token request is made again over another one, and so are the calls behind it."""
    replies = [reply(body=b"<html>", content_type="text/html")]

    def answer(request: Request) -> Reply:
        return replies.pop() if replies else answer_to(request)

    async with straying(When.SAME, answer=answer, auth=OAUTH) as (service, client):
        await get(client, "app-1")
        assert service.over == [0, 1, 1]


# Replies about something else


@pytest.mark.parametrize("call", [IncomeClient.get_application, IncomeClient.get_documents])
async def test_a_reply_about_another_application_is_not_taken(
    call: Callable[..., Awaitable[object]],
) -> None:
    """The reply's connection is closed and the call retried; if that does not help, it fails."""
    whole = {**APPLICATION, **DOCUMENTS, "application_id": "somebody-else"}
    out = json_reply(whole, X_Request_Id="r-1")
    async with straying(When.SAME, answer=lambda _: out) as (service, client):
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

    async with straying(When.SAME, answer=answer) as (service, client):
        await get(client, "app-1")
        found = await client.find_application("loan-1")
        assert found is not None
        assert found.application_reference_id == "loan-1"
        assert service.over == [0, 1, 1, 2]


async def test_other_applications_with_a_reference_are_an_error() -> None:
    """A service that ignores the reference has not answered the call; an empty list does.

    Of two with one reference, which is unique, neither can be taken for the one that is meant.
    """
    twice = page("loan-1", "loan-1")
    one, another = twice.body.split(b"id-of-loan-1", 1)
    two = evolve(twice, body=one + b"id-of-another" + another)
    given = [page("loan-2"), page("LOAN-1"), two, twice, page()]
    async with straying(When.SAME, answer=lambda _: given[0]) as (_, client):
        for reason in ("no row has this", "no row has this", "2 applications have this"):
            with pytest.raises(UnexpectedResponseError, match=reason):
                await client.find_application("loan-1")
            given.pop(0)
        found = await client.find_application("loan-1")
        assert found is not None
        assert found.application_id == "id-of-loan-1"
        given.pop(0)
        assert await client.find_application("loan-1") is None
