"""A key set is fetched from its address alone, within its limits, and nothing leaks."""

import asyncio
import json
import logging
import socket
import ssl
import zlib
from typing import Any, Final

import pytest
import trustme

from income_client.receivers.key_fetch import FetchFault, fetch_key_set
from tests.support.scripted_server import Answer, Seen, forever, reply, reset, serving
from tests.support.signed_tokens import key_set

KEYS: Final = json.dumps(key_set("P-256")).encode()


def always(answer: bytes | None) -> Answer:
    """Return a script that gives the same answer to everything."""

    async def respond(seen: Seen, writer: asyncio.StreamWriter) -> bytes | None:
        return answer

    return respond


async def fetched(answer: Answer, **limits: Any) -> Any:
    """Return what comes from a server of this script."""
    async with serving(answer) as server:
        return await fetch_key_set(f"{server.url}/keys?S3CRET=1", **limits)


async def test_a_key_set_comes_back_as_it_is() -> None:
    """Members that nobody knows are left in it."""
    body = json.dumps({**key_set("P-256"), "extra": 1}).encode()
    assert await fetched(always(reply(body=body))) == {**key_set("P-256"), "extra": 1}
    assert await fetched(always(reply(body=KEYS, content_type="text/plain"))) == key_set("P-256")


async def test_the_request_carries_nothing_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """No proxy, no netrc, no cookie, and the address as it was given."""
    netrc = tmp_path / "netrc"
    netrc.write_text("default login user password S3CRET\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with serving(always(reply(body=KEYS, Set_Cookie="a=b"))) as server:
        for _ in range(2):
            assert await fetch_key_set(f"{server.url}/k%2Fs?a=%41+b") == key_set("P-256")
    for seen in server.seen:
        assert (seen.method, seen.path, seen.query) == ("GET", "/k%2Fs", "a=%41+b")
        assert seen.headers["accept-encoding"] == "identity"
        assert seen.headers.keys() & {"authorization", "cookie", "proxy-authorization"} == set()


@pytest.mark.parametrize("status", [201, 206, 301, 302, 307, 308, 400, 404, 429, 500, 503])
async def test_every_other_status_is_a_failure(status: int) -> None:
    """A redirect is not followed, and nothing is asked twice."""
    async with serving(always(reply(status, KEYS, Location="/elsewhere"))) as server:
        fault = await fetch_key_set(f"{server.url}/keys")
    assert fault == FetchFault(f"the answer has the status {status}")
    assert [seen.path for seen in server.seen] == ["/keys"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"keys": {}}',
        b'{"keys": []',
        b'{"keys": [], "keys": []}',
        b"<html>S3CRET</html>",
        b"\xff\xfe",
        b'{"keys": ' + b"[" * 50_000,
    ],
)
async def test_what_is_no_key_set_is_a_failure(body: bytes) -> None:
    """What came is not shown."""
    fault = await fetched(always(reply(body=body)))
    assert isinstance(fault, FetchFault)
    assert "S3CRET" not in repr(fault)


async def test_a_body_is_counted_while_it_comes() -> None:
    """One that says nothing of its length and never ends is given up at the limit."""

    async def flood(seen: Seen, writer: asyncio.StreamWriter) -> bytes | None:
        writer.write(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"1000\r\n" + b" " * 4096 + b"\r\n")
            await writer.drain()
        return None

    assert await fetched(flood) == FetchFault("the answer is larger than 262144 bytes")
    small = await fetched(always(reply(body=KEYS)), max_bytes=len(KEYS) - 1)
    assert small == FetchFault(f"the answer is larger than {len(KEYS) - 1} bytes")
    assert await fetched(always(reply(body=KEYS)), max_bytes=len(KEYS)) == key_set("P-256")


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "GZIP"])
async def test_what_is_compressed_is_not_unpacked(encoding: str) -> None:
    """It was not asked for, and may be a bomb."""
    bomb = zlib.compress(b" " * 10_000_000)
    fault = await fetched(always(reply(body=bomb, Content_Encoding=encoding)))
    assert fault == FetchFault("the answer is compressed, which was not asked for")


async def test_a_body_that_is_cut_is_a_failure() -> None:
    """Half a set is none, however the connection ends."""
    whole = reply(body=KEYS)

    async def cut(seen: Seen, writer: asyncio.StreamWriter) -> bytes | None:
        writer.write(whole[:-20])
        await writer.drain()
        if seen.path == "/reset":
            reset(writer)
        return None

    async with serving(cut) as server:
        for path in ("/closed", "/reset"):
            assert isinstance(await fetch_key_set(server.url + path), FetchFault)


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 X\r\nContent-Length: 50\r\n\r\n{"])
async def test_silence_ends_with_the_time_limit(start: bytes) -> None:
    """Before the head and within the body."""

    async def silence(seen: Seen, writer: asyncio.StreamWriter) -> bytes | None:
        writer.write(start)
        await forever()

    assert await fetched(silence, seconds=0.2) == FetchFault("it took too long")


@pytest.mark.parametrize("answer", [b"garbage\r\n\r\n", b"HTTP/1.1 200 X\r\nA: " + b"x" * 99_999])
async def test_what_is_not_http_is_a_failure(answer: bytes) -> None:
    """The error of the library stays inside, and so does the address."""

    async def respond(seen: Seen, writer: asyncio.StreamWriter) -> bytes | None:
        writer.write(answer)
        await writer.drain()
        return None

    fault = await fetched(respond)
    assert isinstance(fault, FetchFault)
    assert "S3CRET" not in fault.reason


async def test_where_nobody_listens_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Neither the address nor its query is shown anywhere."""
    caplog.set_level(logging.DEBUG)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    fault = await fetch_key_set(f"http://127.0.0.1:{port}/?S3CRET=1")
    assert isinstance(fault, FetchFault)
    assert "127.0.0.1" not in fault.reason
    assert "S3CRET" not in caplog.text


async def test_cancellation_passes() -> None:
    """It is not taken for a failure of the fetch."""
    arrived = asyncio.Event()

    async def silence(seen: Seen, writer: asyncio.StreamWriter) -> bytes | None:
        arrived.set()
        await forever()

    async with serving(silence) as server:
        task = asyncio.create_task(fetch_key_set(server.url))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_certificates_are_verified_with_the_context_that_is_given() -> None:
    """A stranger's certificate is refused by default, and accepted by whoever trusts it."""
    authority = trustme.CA()
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(served)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply(body=KEYS, Connection="close"))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", 0, ssl=served)
    async with server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        fault = await fetch_key_set(url)
        assert fault == FetchFault("it failed with ClientConnectorCertificateError")
        assert await fetch_key_set(url, tls=trusting) == key_set("P-256")
