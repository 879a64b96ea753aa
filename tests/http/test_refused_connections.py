"""Why a connection or a reply is of no use is said in plain words."""

import contextlib
import gzip
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
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
from tests.support.canaries import CANARY
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
        ("expired", TLS_1_2, NOT_ACCEPTED),
        ("good", TLS_1_3, "503 Service Unavailable"),
    ],
    ids=lambda value: value.name if isinstance(value, ssl.TLSVersion) else None,
)
async def test_a_service_that_wants_a_client_certificate_is_understood(
    kind: str, version: ssl.TLSVersion, text: str, tmp_path: Path
) -> None:
    """Where none is sent, or another one, the message says so, and no attempt is wasted."""
    authority = trustme.CA()
    context = ssl.create_default_context()
    authority.configure_trust(context)
    sent = certificate(kind, authority)
    if sent is not None:
        sent.configure_cert(context)
    policy = DownloadPolicy(allowed_hosts=("127.0.0.1",), allow_private_networks=True, ssl=context)
    options: dict[str, Any] = {"clock": JumpingClock(), "ssl": context, "downloads": policy}
    with demanding(authority, version) as url:
        async with IncomeClient(url, auth=BASIC, **options) as client:
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
    async with ScriptedServer(answer) as server:
        settings: dict[str, Any] = {"auth": BASIC, "clock": JumpingClock()} | options
        async with IncomeClient(server.url, **settings) as client:
            with pytest.raises(IncomeClientError) as caught:
                await client.get_application("app-1")
    return caught.value


@pytest.mark.parametrize(
    ("kind", "coding"), [("application/json", "sealed"), ("text/plain", "compress")]
)
async def test_an_encoding_that_was_not_asked_for_is_named_as_such(kind: str, coding: str) -> None:
    """It is HTTP all right: the reply's facts are in the error."""
    out = reply(body=b"\x00\x01", content_type=kind, Content_Encoding=coding, X_Request_Id="r")
    error = await one_call(in_turn(out))
    assert isinstance(error, UnexpectedResponseError)
    assert error.message == (
        f"get_application(app-1): {kind} with a Content-Encoding that was not asked for, "
        "2 bytes instead of JSON"
    )
    assert (error.status, error.request_id, error.retryable) == (200, "r", True)


async def test_an_encoding_that_cannot_be_decoded_here_is_named_as_such() -> None:
    """One that aiohttp knows, and did not ask for as its library is not installed."""

    def encoded(request: Request) -> Reply:
        asked = request.headers["accept-encoding"]
        coding = next(one for one in ("br", "zstd", "compress") if one not in asked)
        return reply(body=b"\x00\x01", Content_Encoding=coding)

    error = await one_call(encoded)
    assert "Content-Encoding that was not asked for" in error.message
    assert error.retryable


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


# Proxies that refuse


@contextlib.asynccontextmanager
async def refusing(
    status: int, retry_after: str = "", **options: Any
) -> AsyncIterator[tuple[IncomeClient, ScriptedServer, JumpingClock]]:
    """Run a proxy that refuses every connection, and a client that goes through it."""
    clock = JumpingClock()
    async with ScriptedServer(
        in_turn(reply(status, b"", Retry_After=retry_after or None))
    ) as server:
        proxy = f"http://proxy:{CANARY}@127.0.0.1:{server.port}"
        settings: dict[str, Any] = {"auth": BASIC, "proxy": proxy, "clock": clock} | options
        async with IncomeClient("https://service.example", **settings) as client:
            yield client, server, clock


async def refusal(client: IncomeClient) -> ConnectionFailedError:
    with pytest.raises(ConnectionFailedError) as caught:
        await client.get_application("app-1")
    return caught.value


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 407])
async def test_a_proxy_that_wants_something_else_is_asked_once(status: int) -> None:
    """A missing password is missing the next time as well."""
    async with refusing(status) as (client, proxy, _):
        error = await refusal(client)
    text = f"get_application(app-1): proxy refused the connection with status {status}"
    assert error.message == text
    assert (error.status, error.retryable, error.attempts) == (status, False, 1)
    (request,) = proxy.requests
    assert (request.method, request.path) == ("CONNECT", "service.example:443")
    assert "authorization" not in request.headers


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
async def test_a_proxy_that_may_connect_later_is_asked_again(status: int) -> None:
    """As a service is that answers so, after the pause that it asks for."""
    async with refusing(status, "7") as (client, proxy, clock):
        error = await refusal(client)
    assert (error.status, error.retryable, error.attempts) == (status, True, 3)
    assert error.retry_after == 7
    assert (len(proxy.requests), set(clock.slept)) == (3, {7})


async def test_a_proxy_that_asks_for_too_long_a_pause_ends_the_call() -> None:
    """The pause is in the error."""
    async with refusing(503, "86400") as (client, proxy, clock):
        error = await refusal(client)
    assert (error.retry_after, error.attempts, len(proxy.requests)) == (86400, 1, 1)
    assert clock.slept == []


async def test_the_error_of_a_token_request_says_so_as_well() -> None:
    """It is made once, and its secret stays with it."""
    async with refusing(407, auth=OAUTH) as (client, proxy, _):
        error = await refusal(client)
    assert error.message == "token: proxy refused the connection with status 407"
    assert (error.status, error.retryable, error.attempts) == (407, False, 1)
    assert ["authorization" in request.headers for request in proxy.requests] == [False]


@pytest.mark.parametrize(("status", "attempts"), [(407, 1), (502, 3)])
async def test_the_error_of_a_download_says_so_as_well(
    status: int, attempts: int, tmp_path: Path
) -> None:
    """With the same rules."""
    document = make_document(url=f"https://files.amazonaws.com/slip?signature={CANARY}")
    async with refusing(status, "7") as (client, proxy, clock):
        with pytest.raises(DownloadError, match=f"refused .* with status {status}") as caught:
            await client.download(document, tmp_path / "slip")
    error = caught.value
    assert (error.status, error.retryable, error.retry_after) == (status, attempts > 1, 7)
    assert len(proxy.requests) == attempts
    assert clock.slept == [7] * (attempts - 1)
