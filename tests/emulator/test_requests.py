"""Requests as any client may write them: blanks before credentials, and what is not HTTP."""

import asyncio
import logging
from base64 import b64encode
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import msgspec
import pytest

from income_client.emulator import Emulator


@pytest.fixture
async def service() -> AsyncIterator[Emulator]:
    """A service with one application."""
    async with Emulator(1) as emulator:
        yield emulator


async def answer(service: Emulator, sent: bytes) -> bytes:
    """Send bytes, and return all that comes back until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(service.url).port)
    try:
        writer.write(sent)
        async with asyncio.timeout(20):
            return await reader.read()
    finally:
        writer.transport.abort()


def head(line: str, authorization: str, *more: str) -> bytes:
    """Return the head of a request whose connection ends with the answer."""
    fields = ("Host: 127.0.0.1", f"Authorization: {authorization}", "Connection: close", *more)
    return "\r\n".join((line, *fields, "", "")).encode()


def basic(name: str, secret: str) -> str:
    """Return the credentials of a user or a client."""
    return b64encode(f"{name}:{secret}".encode()).decode()


@pytest.mark.parametrize("blanks", [1, 2, 5])
@pytest.mark.parametrize("scheme", ["Basic", "basic", "Bearer", "BEARER"])
async def test_credentials_stand_behind_one_blank_or_several(
    service: Emulator, blanks: int, scheme: str
) -> None:
    """RFC 9110 has ``auth-scheme 1*SP token68``, and clients may use that."""
    client, user = service.oauth2, service.basic
    pair = basic(client.client_id, client.client_secret.reveal())
    form = "grant_type=client_credentials"
    bought = await answer(
        service,
        head(
            "POST /token HTTP/1.1",
            f"basic{' ' * blanks}{pair}",
            "Content-Type: application/x-www-form-urlencoded",
            f"Content-Length: {len(form)}",
        )
        + form.encode(),
    )
    assert bought.startswith(b"HTTP/1.1 200 ")
    token = msgspec.json.decode(bought.partition(b"\r\n\r\n")[2])["access_token"]
    is_bearer = scheme.lower() == "bearer"
    credentials = token if is_bearer else basic(user.username, user.password.reveal())
    authorization = f"{scheme}{' ' * blanks}{credentials}"
    listed = await answer(service, head("GET /v1/income/applications HTTP/1.1", authorization))
    assert listed.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("authorization", ["Bearer", "Bearer  ", "Bearer  x", "Basic  x", "  "])
async def test_wrong_credentials_stay_wrong(service: Emulator, authorization: str) -> None:
    """Blanks alone are no credentials."""
    listed = await answer(service, head("GET /v1/income/applications HTTP/1.1", authorization))
    assert listed.startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
        b"GET / HTTP/9\r\n\r\n",
        b"GET / HTTP/1.1\r\nno header\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n",
        b"GET / HTTP/1.1\r\nX-Long: " + b"x" * 20_000 + b"\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nnothing\r\n",
    ],
    ids=["tls", "version", "header", "length", "long", "chunk"],
)
async def test_what_is_not_http_is_not_logged(
    service: Emulator, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """It is refused with 400, and no traceback of the server's fills anybody's terminal."""
    caplog.set_level(logging.INFO)
    replied = await answer(service, sent)
    assert replied.startswith((b"HTTP/1.0 400 ", b"HTTP/1.1 400 "))
    assert caplog.records == []
