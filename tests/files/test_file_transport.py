"""What is asked of a storage, byte by byte, and how a body comes."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from income_client.downloads.http import FilePool
from income_client.errors import UnsafeLinkError
from income_client.http.endpoints import proxy_address
from income_client.settings import DownloadPolicy, Timeouts
from tests.support.clients import (
    CANARY,
    body_of,
    fetched,
    link_to,
    open_connections,
    pooled,
)
from tests.support.loop_time import pass_time
from tests.support.server import Reply, ScriptedServer, in_turn, reply
from tests.support.service import until

WAITS = Timeouts(read=5)
STAYS_OUT = DownloadPolicy(allowed_hosts=["localhost:*", "*.example.com:*"], require_https=False)
AWKWARD = (
    "/a%2Fb/%7Ename/c+d%20e?X-Amz-Signature=%2F%7E+%20%27&empty=&key",
    "/a?b??c=?/&d=/e",
    "//double//slash/",
    "/a/../b/./c",
    "/a;b=c,d:e@f!$&'()*",
    "/%E2%82%AC%zz%",
    '/"<>[]^`{|}?"<>[]^`{|}',
    "/?a=b",
)


async def test_a_request_is_the_address_and_five_fields() -> None:
    more = {"Range": "bytes=5-", "If-Range": '"tag"'}
    async with pooled(in_turn(reply(body=b"whole")), user_agent="test/1") as (pool, server):
        for target in AWKWARD:
            with await pool.get(link_to(server.url, target), more, WAITS) as found:
                assert await body_of(found) == b"whole"
    for target, request in zip(AWKWARD, server.requests, strict=True):
        lines = request.head.decode().removesuffix("\r\n\r\n").split("\r\n")
        assert lines[0] == f"GET {target} HTTP/1.1"
        assert sorted(lines[1:]) == [
            "Accept-Encoding: identity",
            "Accept: */*",
            f"Host: 127.0.0.1:{server.port}",
            'If-Range: "tag"',
            "Range: bytes=5-",
            "User-Agent: test/1",
        ]


async def test_the_environment_adds_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / ".netrc").write_text(f"default login {CANARY} password {CANARY}\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    async with pooled(in_turn(reply(Set_Cookie="a=b"))) as (pool, server):
        for _ in range(2):
            # Cookies of bare IP addresses would not be kept anyway.
            assert await fetched(pool, f"http://localhost:{server.port}") == b"{}"
    for request in server.requests:
        assert set(request.headers) == {"host", "user-agent", "accept", "accept-encoding"}
        assert request.headers["user-agent"].startswith("income-client/")


async def test_a_proxy_may_be_anywhere() -> None:
    """It is the caller's own choice; it is given the address as it is, and no name of ours."""
    async with ScriptedServer(in_turn(reply(body=b"whole"))) as server:
        proxy = proxy_address(f"http://user:word@127.0.0.1:{server.port}")
        pool = FilePool(STAYS_OUT, proxy=proxy)
        assert await fetched(pool, "http://files.example.com", "/a%2Fb?c=%7E") == b"whole"
        refused = await fetched(pool, "http://localhost:1")
        await pool.aclose()
    (head,) = (request.head for request in server.requests)
    assert head.startswith(b"GET http://files.example.com/a%2Fb?c=%7E HTTP/1.1\r\n")
    assert b"\r\nProxy-Authorization: Basic " in head
    assert b"\r\nAuthorization" not in head
    assert isinstance(refused, UnsafeLinkError)


# Bodies


ERRORS = (
    (reply(403, b"<Code>AccessDenied</Code>"), "<Code>AccessDenied</Code>"),
    (reply(403, b"x" * 2000), "x" * 1000),
    (reply(403, b"x" * 1000), "x" * 1000),
    (reply(403, b"\xff!"), "\ufffd!"),
    (reply(403, b""), ""),
    (reply(403, b"x" * 100, cut=-1), "x" * 99),
    (reply(403, b"x" * 100, cut=-1, held=True), "x" * 99),
)


async def test_the_text_of_an_error_is_bounded() -> None:
    async with pooled(in_turn(*(out for out, _ in ERRORS))) as (pool, server):
        for out, text in ERRORS:
            with await pool.get(link_to(server.url), {}, WAITS) as found:
                reading = asyncio.create_task(found.error_text(limit=1000, seconds=60))
                while out.held and not reading.done():
                    await asyncio.sleep(0)
                    pass_time(6)
                assert await reading == text


async def test_memory_does_not_grow_with_the_file() -> None:
    piece = b"x" * 2**20

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(32):
            yield piece

    head = Reply(headers={"Content-Length": f"{32 * 2**20}"}, slow=pieces, held=True)
    async with pooled(in_turn(head)) as (pool, server):
        size = 0
        with await pool.get(link_to(server.url), {}, WAITS) as found:
            tracemalloc.start()
            while read := await found.read():
                size += len(read)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    assert size == 32 * 2**20
    assert peak < 8 * 2**20


async def test_leaving_early_closes_the_connection() -> None:
    """The rest of a body is not waited for, and never taken for the next reply."""

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 50_000

    head = Reply(headers={"Content-Length": "1000000000000"}, slow=endless)
    async with pooled(in_turn(head, head, reply(body=b"next"))) as (pool, server):
        for reads_some in (False, True):
            with await pool.get(link_to(server.url), {}, WAITS) as found:
                assert not reads_some or await found.read()
            assert open_connections(pool) == 0
            await until(lambda: not server.connections)
        assert await fetched(pool, server.url, "/more") == b"next"
