"""What the client relies on in aiohttp without being promised it: an upgrade may not take it away.

Each of these would be lost without a sound: a hook that is no longer called, an attribute that
is no longer looked at. So each is tested by what it does, through public names.
"""

import inspect
import socket
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from opentelemetry.instrumentation.aiohttp_client import AioHttpClientInstrumentor

from income_client import (
    IncomeClient,
    RetryPolicy,
    Timeouts,
    UnsafeLinkError,
)
from income_client.testing import JumpingClock, make_document
from tests.support.clients import BASIC, HERE, hosting
from tests.support.server import ScriptedServer, application, in_turn, reply
from tests.support.telemetry import collecting

ONCE: Final = RetryPolicy(max_attempts=1)
SHORT: Final = Timeouts(read=0.1)


def test_the_names_that_the_watch_on_connections_needs_are_there() -> None:
    """Of requests, of connections and of what reads them."""
    assert inspect.iscoroutinefunction(aiohttp.ClientRequest.send)
    assert list(inspect.signature(aiohttp.ClientRequest.send).parameters) == ["self", "conn"]
    assert "request_class" in inspect.signature(aiohttp.ClientSession).parameters
    assert {"add_callback", "closed", "protocol", "transport"} <= set(dir(Connection))
    assert isinstance(inspect.getattr_static(ResponseHandler, "should_close"), property)
    assert callable(ResponseHandler.exception)


async def test_what_came_before_a_cut_is_kept(tmp_path: Path) -> None:
    """Bytes that lie in a stream that has failed are taken out of it."""
    # The end comes together with the bytes before it.
    begun = reply(body=b"0123456789", content_type="text/csv", ETag='"1"', cut=-4)
    rest = reply(206, b"6789", "text/csv", ETag='"1"', Content_Range="bytes 6-9/10")
    async with hosting(in_turn(begun, rest)) as (client, document, server):
        await client.download(document, tmp_path / "slip")
    assert (tmp_path / "slip").read_bytes() == b"0123456789"
    ranges = [request.headers.get("range") for request in server.requests]
    assert ranges == [None, "bytes=6-"]


@pytest.mark.parametrize(
    "addresses",
    [["169.254.169.254"], ["0.0.0.0", "169.254.169.254"], ["fe80::1", "169.254.169.254", "::"]],
)
async def test_an_address_that_is_refused_passes_through_the_race_of_addresses(
    addresses: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It comes out as what it is, and is not tried again."""

    def look_up(_: object, port: int, *__: object, **___: object) -> list[Any]:
        kind = (socket.SOCK_STREAM, 6, "")
        return [
            (socket.AF_INET6, *kind, (ip, port, 0, 0))
            if ":" in ip
            else (socket.AF_INET, *kind, (ip, port))
            for ip in addresses
        ]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    clock = JumpingClock()
    async with IncomeClient(
        "https://service.example", auth=BASIC, downloads=HERE, clock=clock
    ) as client:
        document = make_document(url="https://files.example.com/slip")
        with pytest.raises(UnsafeLinkError) as caught:
            await client.download(document, tmp_path / "slip")
    assert not caught.value.retryable
    assert clock.slept == []


async def test_a_session_that_was_instrumented_is_not_instrumented_again() -> None:
    """OpenTelemetry marks its hooks in every session of a process, and borrowed ones have them."""
    instrumentor: Any = AioHttpClientInstrumentor()
    with collecting() as exported:
        instrumentor.instrument()
        try:
            async with (
                ScriptedServer(in_turn(application("app-1"))) as server,
                aiohttp.ClientSession() as session,
                IncomeClient(server.url, auth=BASIC, session=session, telemetry=False) as client,
            ):
                await client.get_application("app-1")
        finally:
            instrumentor.uninstrument()
    assert len(exported.named("GET")) == 1
