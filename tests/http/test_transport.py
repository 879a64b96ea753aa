"""Bytes on a wire become replies or errors of ours, and nothing else comes out."""

import pytest
from yarl import URL

from income_client.errors import UnexpectedResponseError
from income_client.http.endpoints import (
    Response,
    addresses,
    get_application,
    get_documents,
    list_applications,
    proxy_address,
    token_request,
)
from income_client.http.transport import Transport
from tests.support.clients import CHUNKED, connected, one, send
from tests.support.server import Reply, ScriptedServer, in_turn, reply


async def test_a_request_carries_what_it_needs_and_no_more() -> None:
    """Path and query arrive byte by byte; the header is set by us alone."""
    request = list_applications(application_reference_id="%2F ~+'&é")
    async with connected(in_turn(reply(body=b'{"a":1}', X_Request_Id="r"))) as (transport, server):
        answer = await send(transport, request)
        await send(transport, token_request())
    assert isinstance(answer, Response)
    assert (answer.status, answer.body, answer.headers["x-request-id"]) == (200, b'{"a":1}', "r")
    get, post = server.requests
    assert f"{get.path}?{get.query}" == f"{request.path}?{request.query}"
    assert get.authorization == "Bearer S3CRET"
    assert get.headers["accept"] == "application/json"
    assert get.headers["user-agent"].startswith("income-client/")
    assert "cookie" not in get.headers
    assert (post.method, post.path, post.body) == (
        "POST",
        "/token",
        b"grant_type=client_credentials",
    )


async def test_a_reply_over_the_limit_is_not_read() -> None:
    """A body as long as the limit is read, a longer one refused and not tried again."""
    whole = await one(in_turn(reply(body=b"x" * 1000)), max_response_bytes=1000)
    assert isinstance(whole, Response)
    chunked = Reply(raw=CHUNKED + b"3e9\r\n" + b"x" * 1001 + b"\r\n0\r\n\r\n")
    for out in (reply(body=b"x" * 1001), chunked):
        error = await one(in_turn(out), max_response_bytes=1000)
        assert isinstance(error, UnexpectedResponseError)
        assert error.message == "get_application(a/1): the reply is larger than 1000 bytes"
        assert (error.status, error.retryable) == (200, False)


@pytest.mark.parametrize("tail", [b"", b"x" * 70_000])
async def test_an_error_status_needs_no_body(tail: bytes) -> None:
    """However the body of an error continues, its status is what counts."""
    fields = {"Content-Length": "90000", "Retry-After": "3"}
    found = await one(in_turn(Reply(status=503, headers=fields, body=tail, closed=True)))
    assert isinstance(found, Response)
    assert (found.status, found.body, found.headers["retry-after"]) == (503, b"", "3")


async def test_an_upgrade_nobody_asked_for_ends_the_connection() -> None:
    """A 101 is a reply with an unexpected status."""
    out = b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\nS3CRET"
    found = await one(in_turn(Reply(raw=out)))
    assert isinstance(found, Response)
    assert (found.status, found.body) == (101, b"")


async def test_a_proxy_is_used() -> None:
    """A request goes to the proxy with the whole address in its first line."""
    async with ScriptedServer(in_turn(reply(body=b'"proxied"'))) as proxy:
        transport = Transport(addresses("http://127.0.0.1:9"), proxy=proxy_address(proxy.url))
        answer = await send(transport)
        await transport.pool.aclose()
    assert isinstance(answer, Response)
    assert answer.body == b'"proxied"'
    assert proxy.requests[0].path == "http://127.0.0.1:9/v1/income/applications/a%2F1"


@pytest.mark.parametrize(
    "root",
    ["http://127.0.0.1:8000", "https://a.example", "https://a.example/x/y%2F", "http://[::1]:80"],
)
@pytest.mark.parametrize("name", ["plain", "%2F ~+'&é", ":@?#"])
def test_an_address_is_that_of_the_whole_text(root: str, name: str) -> None:
    """Whether it is put together of its parts or read from a text: the same to the last byte."""
    places = addresses(root, "https://login.example/y/")
    transport = Transport(places)
    for request in (
        get_application(name),
        get_documents(name, pages=True),
        list_applications(updated_after="2024-01-01T00:00:00", application_reference_id=name),
        token_request(),
    ):
        origin = places.token if request.form else places.api
        query = f"?{request.query}" if request.query else ""
        url, wanted = transport._url_of(request), URL(origin + request.path + query, encoded=True)
        assert (url, str(url), url.raw_path_qs) == (wanted, str(wanted), wanted.raw_path_qs)
        assert (url.raw_host, url.port) == (wanted.raw_host, wanted.port)
        assert url.host_port_subcomponent == wanted.host_port_subcomponent


@pytest.mark.parametrize("prefix", ["/income%2Fapi", "/%7Elender", "/a%20b"])
async def test_the_path_of_the_address_is_sent_as_it_was_given(prefix: str) -> None:
    """What is quoted in it stays quoted: it may mean something else to a gateway."""
    async with ScriptedServer(in_turn(reply(body=b"{}"))) as server:
        transport = Transport(addresses(f"{server.url}{prefix}"))
        try:
            await send(transport, get_application("app-1"))
        finally:
            await transport.pool.aclose()
    (request,) = server.requests
    assert request.path == f"{prefix}/v1/income/applications/app-1"
