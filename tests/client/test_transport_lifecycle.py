"""Connections belong to one loop and one owner, and none is left behind."""

import asyncio
import contextlib
from typing import Any

import aiohttp
import pytest

from income_client.errors import (
    ClientClosedError,
    ConfigurationError,
)
from income_client.protocol.addresses import addresses
from income_client.protocol.messages import Response
from income_client.transport import Transport
from tests.support.scripted_server import Seen, always, forever, reply, serving
from tests.support.service import until
from tests.support.transport import connected, send

ELSEWHERE = "the client belongs to the event loop in which it was first used"


@pytest.mark.parametrize("moment", ["connecting", "head", "body"])
async def test_cancelling_closes_the_connection(moment: str) -> None:
    """A cancelled request leaves neither a task nor a connection."""
    reached = asyncio.Event()

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bytes | None:
        reached.set()
        if moment == "body":
            writer.write(reply(body=b"x" * 100)[:-50])
            await writer.drain()
        await forever()

    async with connected(answer) as (transport, _):
        task = asyncio.create_task(send(transport))
        if moment == "connecting":
            await asyncio.sleep(0)
        else:
            await reached.wait()
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        session = transport._session
        assert session is not None
        assert session.connector is not None
        assert not session.connector._acquired


async def test_a_borrowed_session_lends_its_connections_only() -> None:
    """Its cookies, headers, credentials and redirects stay out; it is not closed."""
    events = []
    trace = aiohttp.TraceConfig()

    async def note(*args: Any) -> None:
        events.append(args)

    trace.on_request_start.append(note)
    async with (
        serving(always(reply(307, Location="/x", Set_Cookie="theirs=2"))) as server,
        aiohttp.ClientSession(
            headers={"X-Theirs": "1", "Authorization": "Basic theirs"},
            cookies={"theirs": "1"},
            raise_for_status=True,
            trace_configs=[trace],
            cookie_jar=aiohttp.CookieJar(unsafe=True),
        ) as session,
    ):
        transport = Transport(addresses(server.url), session=session)
        found = await send(transport)
        assert isinstance(found, Response)
        assert found.status == 307
        await transport.aclose()
        assert not session.closed
        assert len(events) == 1
        assert isinstance(await send(transport), ClientClosedError)
        assert [cookie.value for cookie in session.cookie_jar] == ["1"]
    (seen,) = server.seen
    assert seen.authorization == "Bearer S3CRET"
    assert "x-theirs" not in seen.headers
    assert "cookie" not in seen.headers


async def test_a_borrowed_session_that_was_closed_is_told() -> None:
    """The owner closed it: the client is closed as well."""
    async with serving(always(reply())) as server:
        session = aiohttp.ClientSession()
        transport = Transport(addresses(server.url), session=session)
        assert isinstance(await send(transport), Response)
        await session.close()
        error = await send(transport)
        assert isinstance(error, ClientClosedError)
        assert error.message == "the session that the client borrowed was closed"
        await transport.aclose()


async def test_a_body_under_way_ends_with_the_transport() -> None:
    """Who reads it while the client is closed gets told so, and waits no longer."""
    begun = asyncio.Event()

    async def answer(_: Seen, writer: asyncio.StreamWriter) -> bytes | None:
        writer.write(reply(body=b"x" * 100)[:-50])
        await writer.drain()
        begun.set()
        return await forever()

    async with connected(answer) as (transport, _):
        waiting = asyncio.ensure_future(send(transport, read=3600))
        await begun.wait()
        await until(lambda: bool(transport._replies))
        await transport.aclose()
        error = await waiting
        assert isinstance(error, ClientClosedError)


async def test_a_closed_transport_stays_closed() -> None:
    """Closing twice does nothing, and nothing is sent afterwards."""
    async with connected(always(reply())) as (transport, server):
        await transport.aclose()
        await transport.aclose()
        error = await send(transport)
        assert isinstance(error, ClientClosedError)
        assert error.message == "the client was closed"
        assert server.seen == []


async def test_closing_ends_a_request_under_way() -> None:
    """Who waits for a reply while the client is closed gets told so."""
    reached = asyncio.Event()

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bytes | None:
        reached.set()
        await forever()

    async with connected(answer) as (transport, _):
        task = asyncio.create_task(send(transport))
        await reached.wait()
        await transport.aclose()
        assert isinstance(await task, ClientClosedError)


def test_another_event_loop_is_told_apart() -> None:
    """The connections belong to the loop of the first request."""
    with asyncio.Runner() as first:

        async def begin() -> tuple[Transport, Any]:
            stack = contextlib.AsyncExitStack()
            server = await stack.enter_async_context(serving(always(reply())))
            transport = Transport(addresses(server.url))
            assert isinstance(await send(transport), Response)
            return transport, stack

        transport, stack = first.run(begin())
        with asyncio.Runner() as second:
            error = second.run(send(transport))
            assert isinstance(error, ClientClosedError)
            assert error.message == ELSEWHERE
            with pytest.raises(ClientClosedError, match=ELSEWHERE):
                second.run(transport.aclose())
            assert not transport.is_closed
        first.run(transport.aclose())
        first.run(stack.aclose())


def test_a_session_of_another_loop_is_told() -> None:
    """A session borrowed from another loop cannot be used."""

    async def borrow() -> aiohttp.ClientSession:
        return aiohttp.ClientSession()

    with asyncio.Runner() as first:
        session = first.run(borrow())
        transport = Transport(addresses("http://127.0.0.1:9"), session=session)
        with asyncio.Runner() as second:
            error = second.run(send(transport))
            assert isinstance(error, ClientClosedError)
            assert error.message == "the borrowed session belongs to another event loop"
        first.run(session.close())


@pytest.mark.parametrize(
    "options",
    [
        {"session": object()},
        {"tls": True},
        {"max_response_bytes": 0},
        {"max_response_bytes": True},
        {"max_response_bytes": 1.5},
        {"user_agent": ""},
        {"user_agent": "a\r\nX: y"},
        {"user_agent": 7},
        {"trace_configs": 7},
        {"trace_configs": [object()]},
        {"trace_configs": None},
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(options: dict[str, Any]) -> None:
    """Nothing is sent, and the option is not shown."""
    with pytest.raises(ConfigurationError) as caught:
        Transport(addresses("https://a.example"), **options)
    assert "S3CRET" not in str(caught.value)
