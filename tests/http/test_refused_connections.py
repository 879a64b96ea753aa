"""Why a connection or a reply is of no use is said in plain words."""

import contextlib
import gzip
import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
import trustme

from income_client import (
    ConnectionFailedError,
    DownloadError,
    DownloadPolicy,
    IncomeClient,
    IncomeClientError,
    TokenError,
    UnexpectedResponseError,
)
from income_client.testing import JumpingClock, make_document
from tests.support.clients import BASIC, OAUTH
from tests.support.server import Answer, Reply, Request, ScriptedServer, in_turn, reply

TLS_1_2: Final = ssl.TLSVersion.TLSv1_2
TLS_1_3: Final = ssl.TLSVersion.TLSv1_3
REQUIRED: Final = "the other side requires a client certificate"
NOT_ACCEPTED: Final = "the other side did not accept the client certificate"
PERHAPS: Final = "TLS handshake refused by the other side, which may require a client certificate"


def converse(listener: socket.socket, context: ssl.SSLContext) -> None:
    """Take connections with a certificate, and tell the others what is missing before closing."""
    while True:
        try:
            accepted, _ = listener.accept()
        except OSError:
            return
        accepted.settimeout(10)
        secure = context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
        try:
            secure.do_handshake()
            secure.recv(65536)
            secure.sendall(bytes(reply(503, Connection="close")))
            secure.close()
        except ssl.SSLError:
            # asyncio's own server would close before its last words are read.
            plain = socket.socket(fileno=secure.detach())
            plain.shutdown(socket.SHUT_WR)
            with contextlib.suppress(OSError):
                while plain.recv(65536):
                    pass
            plain.close()


@contextlib.contextmanager
def demanding(authority: trustme.CA, version: ssl.TLSVersion) -> Iterator[str]:
    """Run a server that wants a certificate of an authority; give its address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = context.maximum_version = version
    context.verify_mode = ssl.CERT_REQUIRED
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=converse, args=(listener, context))
        thread.start()
        try:
            yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def certificate(kind: str, authority: trustme.CA) -> trustme.LeafCert | None:
    """Return a client's certificate."""
    match kind:
        case "good":
            return authority.issue_cert("partner")
        case "of a stranger":
            return trustme.CA().issue_cert("partner")
        case "expired":
            first, last = (datetime(year, 1, 1, tzinfo=UTC) for year in (2020, 2021))
            return authority.issue_cert("partner", not_before=first, not_after=last)
    return None


@pytest.mark.parametrize(
    ("kind", "version", "text"),
    [
        ("none", TLS_1_3, REQUIRED),
        # An older server does not say what is missing.
        ("none", TLS_1_2, PERHAPS),
        ("of a stranger", TLS_1_3, NOT_ACCEPTED),
        ("of a stranger", TLS_1_2, NOT_ACCEPTED),
        ("expired", TLS_1_3, NOT_ACCEPTED),
        ("expired", TLS_1_2, NOT_ACCEPTED),
        ("good", TLS_1_3, "503 Service Unavailable"),
        ("good", TLS_1_2, "503 Service Unavailable"),
    ],
    ids=lambda value: value.name if isinstance(value, ssl.TLSVersion) else None,
)
async def test_a_service_that_wants_a_client_certificate_is_understood(
    kind: str, version: ssl.TLSVersion, text: str, tmp_path: Path
) -> None:
    """Where none is sent, or another one, the message says so; a certificate is not grown."""
    authority = trustme.CA()
    context = ssl.create_default_context()
    authority.configure_trust(context)
    sent = certificate(kind, authority)
    if sent is not None:
        sent.configure_cert(context)
    policy = DownloadPolicy(allowed_hosts=("127.0.0.1",), allow_private_networks=True, ssl=context)
    with demanding(authority, version) as url:
        clock = JumpingClock()
        async with IncomeClient(
            url, auth=BASIC, clock=clock, ssl=context, downloads=policy
        ) as client:
            with pytest.raises(IncomeClientError) as caught:
                await client.get_application("app-1")
            with pytest.raises(DownloadError) as of_file:
                await client.download(make_document(url=f"{url}/slip"), tmp_path / "slip")
    assert caught.value.message == f"get_application(app-1): {text}"
    is_final = text in (REQUIRED, NOT_ACCEPTED)
    assert (caught.value.retryable, caught.value.attempts) == (not is_final, 1 if is_final else 3)
    if kind != "good":
        assert of_file.value.message.endswith(f": {text}")
        assert of_file.value.retryable is not is_final


async def one_call(answer: Answer, **options: Any) -> IncomeClientError:
    """Make a call that fails."""
    async with ScriptedServer(answer) as server:
        settings: dict[str, Any] = {"auth": BASIC, "clock": JumpingClock()} | options
        async with IncomeClient(server.url, **settings) as client:
            with pytest.raises(IncomeClientError) as caught:
                await client.get_application("app-1")
    return caught.value


def encoded(request: Request) -> Reply:
    """Answer in an encoding that could not be decoded if it came, and so is not asked for."""
    asked = request.headers["accept-encoding"]
    coding = next(one for one in ("br", "zstd", "compress") if one not in asked)
    return reply(body=b"\x00\x01", Content_Encoding=coding)


async def test_an_encoding_that_was_not_asked_for_is_named_as_such() -> None:
    """It is HTTP all right."""
    error = await one_call(encoded)
    assert "Content-Encoding that was not asked for" in error.message
    assert error.retryable


@pytest.mark.parametrize("kind", ["application/json", "text/plain"])
async def test_an_unknown_encoding_is_named_as_such(kind: str) -> None:
    """The reply's facts are in the error."""
    out = reply(body=b"\x00\x01", content_type=kind, Content_Encoding="sealed", X_Request_Id="r")
    error = await one_call(in_turn(out))
    assert isinstance(error, UnexpectedResponseError)
    assert error.message == (
        f"get_application(app-1): {kind} with a Content-Encoding that was not asked for, "
        "2 bytes instead of JSON"
    )
    assert (error.status, error.request_id, error.retryable) == (200, "r", True)


async def test_a_token_in_an_unknown_encoding_is_none() -> None:
    """The token request says the same."""
    error = await one_call(in_turn(reply(body=b"\x00", Content_Encoding="sealed")), auth=OAUTH)
    assert isinstance(error, TokenError)
    assert "with a Content-Encoding that was not asked for, 1 bytes instead" in error.message


@pytest.mark.parametrize("body", [b"{}", gzip.compress(b"{}")[:-12] + bytes(12)])
async def test_a_body_that_cannot_be_decompressed_is_told(body: bytes) -> None:
    """It is not in the encoding that it names, or damaged."""
    error = await one_call(in_turn(reply(body=body, Content_Encoding="gzip")))
    assert isinstance(error, ConnectionFailedError)
    assert error.message == "get_application(app-1): the body could not be decompressed"
    assert error.retryable
