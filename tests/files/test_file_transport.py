"""What is asked of a storage, byte by byte, and which of its addresses are connected to."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest
from attrs import evolve

from income_client.downloads.http import FilePool
from income_client.errors import (
    ConfigurationError,
    DownloadError,
    IncomeClientError,
    UnsafeLinkError,
)
from income_client.http.endpoints import proxy_address
from income_client.settings import DownloadPolicy, Timeouts
from tests.support.clients import CANARY, HERE, TARGET, link_to, pooled
from tests.support.server import accepting, in_turn, reply

WAITS = Timeouts(read=5)
STAYS_OUT = DownloadPolicy(
    allowed_hosts=["localhost:*", "*.example.com:*"],
    require_https=False,
)
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


@contextlib.asynccontextmanager
async def recording() -> AsyncIterator[tuple[int, list[bytes]]]:
    """Run a server that keeps each connection's bytes as they came, and answers one request."""
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(b"")
        heads[-1] = await reader.readuntil(b"\r\n\r\n")
        writer.write(bytes(reply(body=b"whole", Connection="close")))

    async with accepting(answer) as port:
        yield port, heads


async def asked(pool: FilePool, url: str, target: str = TARGET) -> object:
    """Ask once, and return the status or the error."""
    try:
        with await pool.get(link_to(url, target), {}, WAITS) as found:
            return found.status
    except IncomeClientError as error:
        return error


@pytest.mark.parametrize("target", AWKWARD)
async def test_a_request_is_the_address_and_five_fields(target: str) -> None:
    """Path and query arrive byte by byte, and no header field beside those that are needed."""
    pool = FilePool(HERE, user_agent="test/1")
    more = {"Range": "bytes=5-", "If-Range": '"tag"'}
    async with recording() as (port, heads):
        with await pool.get(link_to(f"http://127.0.0.1:{port}", target), more, WAITS) as found:
            assert found.status == 200
        await pool.aclose()
    lines = heads[0].decode().removesuffix("\r\n\r\n").split("\r\n")
    assert lines[0] == f"GET {target} HTTP/1.1"
    assert sorted(lines[1:]) == [
        "Accept-Encoding: identity",
        "Accept: */*",
        f"Host: 127.0.0.1:{port}",
        'If-Range: "tag"',
        "Range: bytes=5-",
        "User-Agent: test/1",
    ]


async def test_the_environment_adds_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Neither a netrc, nor a proxy variable, nor a cookie has a say."""
    (tmp_path / ".netrc").write_text(f"default login {CANARY} password {CANARY}\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    async with pooled(in_turn(reply(Set_Cookie="a=b"))) as (pool, server):
        for _ in range(2):
            # Cookies of bare IP addresses would not be kept anyway.
            assert await asked(pool, f"http://localhost:{server.port}") == 200
    for request in server.requests:
        assert set(request.headers) == {"host", "user-agent", "accept", "accept-encoding"}
        assert request.headers["user-agent"].startswith("income-client/")


async def test_a_proxy_may_be_anywhere() -> None:
    """It is the caller's own choice; it is given the address as it is, and no name of ours."""
    async with recording() as (port, heads):
        pool = FilePool(STAYS_OUT, proxy=proxy_address(f"http://user:word@127.0.0.1:{port}"))
        assert await asked(pool, "http://files.example.com", "/a%2Fb?c=%7E") == 200
        refused = await asked(pool, "http://localhost:1")
        await pool.aclose()
    assert heads[0].startswith(b"GET http://files.example.com/a%2Fb?c=%7E HTTP/1.1\r\n")
    assert b"\r\nProxy-Authorization: Basic " in heads[0]
    assert b"\r\nAuthorization" not in heads[0]
    assert isinstance(refused, UnsafeLinkError)
    assert len(heads) == 1


class NotedContext(ssl.SSLContext):
    """A TLS context that knows of its use."""

    uses = 0

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """Count one more use."""
        self.uses += 1
        return super().wrap_bio(*args, **options)


async def test_tls_is_spoken_as_the_policy_says() -> None:
    """The policy's context is used, and a storage that does not speak TLS is not spoken to."""
    heads: list[bytes] = []

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(bytes(reply()))
        heads.append(await reader.read(5))

    context = NotedContext(ssl.PROTOCOL_TLS_CLIENT)
    pool = FilePool(evolve(HERE, ssl=context))
    async with accepting(greet) as port:
        error = await asked(pool, f"https://127.0.0.1:{port}")
        await pool.aclose()
    assert isinstance(error, DownloadError)
    assert error.message == "TLS handshake failed"
    assert context.uses == 1
    assert [head[:1] for head in heads] == [b"\x16"]


@pytest.mark.parametrize("name", ["", "a\r\nX: y", "a" * 257, 7])
def test_a_user_agent_that_cannot_be_meant_is_refused(name: Any) -> None:
    """It goes into the head of a request."""
    with pytest.raises(ConfigurationError, match="user_agent"):
        FilePool(HERE, user_agent=name)
