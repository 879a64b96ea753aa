"""Why a connection or a reply is of no use is said in plain words, and a bug comes as itself."""

import contextlib
import errno
import gzip
import socket
import ssl
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import aiohttp
import pytest
import trustme

from income_client import (
    BasicAuth,
    ConnectionFailedError,
    DeadlineExceededError,
    DownloadError,
    DownloadPolicy,
    IncomeClient,
    IncomeClientError,
    OAuth2ClientCredentials,
    TokenError,
    UnexpectedResponseError,
)
from income_client.checkpoints import MemoryCheckpointStore
from income_client.emulator import Emulator
from income_client.http.endpoints import get_application
from income_client.http.faults import fault_of
from income_client.settings import Auth
from income_client.testing import JumpingClock, make_document
from tests.support.canaries import CANARY
from tests.support.clients import BASIC, OAUTH
from tests.support.disk import without_descriptors
from tests.support.server import Answer, Reply, Request, ScriptedServer, in_turn, reply

BROKEN_OFF = (
    "connected, but the other side broke off the TLS handshake; "
    "it may serve no TLS there, or require a client certificate"
)
PLAIN: Any = SimpleNamespace(host="h", port=1, ssl=True, is_ssl=False)
KEY: Any = SimpleNamespace(host="h", port=1, ssl=True, is_ssl=True)

UNTRUSTED: Final = "TLS certificate not accepted"
WANTED: Final = "the other side requires a client certificate"
REFUSED: Final = "the other side did not accept the client certificate"
PERHAPS_WANTED: Final = (
    "TLS handshake refused by the other side, which may require a client certificate"
)
SHORT_PROCESS: Final = "this process has no file descriptor left (ulimit -n)"
SHORT_MACHINE: Final = "this machine has no file descriptor left"
UNSENDABLE: Final = "the request holds characters that cannot be sent"
FINAL: Final = {UNTRUSTED, WANTED, REFUSED, UNSENDABLE}


def alerted(alert: str) -> Exception:
    """Return the error that what the other side says of our certificate becomes."""
    said = ssl.SSLError(1, f"[SSL: {alert}] some words (_ssl.c:1000)")
    return aiohttp.ClientConnectorSSLError(KEY, said)


# fmt: off
KINDS: Final = [
    (aiohttp.ClientConnectorError(KEY, OSError(errno.ECONNREFUSED, "x")), "connection refused"),
    (aiohttp.ClientConnectorDNSError(KEY, OSError(-2, "x")),            "host name not found: h"),
    (aiohttp.ClientProxyConnectionError(KEY, OSError(1, "x")),          "proxy not reachable"),
    (aiohttp.ClientConnectorSSLError(KEY, ssl.SSLError(1, "x")),        "TLS handshake failed"),
    (aiohttp.ClientConnectorError(KEY, ConnectionResetError()),         BROKEN_OFF),
    (aiohttp.ClientConnectorError(KEY, ConnectionResetError(104, "x")), BROKEN_OFF),
    (aiohttp.ClientConnectorError(KEY, ConnectionAbortedError()),       BROKEN_OFF),
    (aiohttp.ClientConnectorError(PLAIN, ConnectionResetError(104, "x")), "connection reset"),
    (aiohttp.ClientOSError(errno.ECONNRESET, "x"),                      "connection reset"),
    (aiohttp.ClientConnectorError(KEY, OSError(errno.EMFILE, "x")),     SHORT_PROCESS),
    (aiohttp.ClientConnectorError(KEY, OSError(errno.ENFILE, "x")),     SHORT_MACHINE),
    (aiohttp.ClientOSError(errno.EPIPE, "x"),                           "connection reset"),
    (aiohttp.ClientOSError(errno.ENETUNREACH, "x"),                     "host not reachable"),
    (aiohttp.ClientOSError(errno.EHOSTUNREACH, "x"),                    "host not reachable"),
    (aiohttp.ClientConnectionResetError("x"),                           "connection reset"),
    (aiohttp.ServerDisconnectedError(),              "connection closed without a reply"),
    (aiohttp.ClientPayloadError("x"),                "body cut short or unreadable"),
    (alerted("TLSV1_ALERT_INTERNAL_ERROR"),          "TLS handshake failed"),
    (alerted("SSLV3_ALERT_HANDSHAKE_FAILURE"),       PERHAPS_WANTED),
    (alerted("TLSV13_ALERT_CERTIFICATE_REQUIRED"),   WANTED),
    *((alerted(name), REFUSED) for name in (
        "SSLV3_ALERT_BAD_CERTIFICATE", "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
        "SSLV3_ALERT_CERTIFICATE_REVOKED", "SSLV3_ALERT_CERTIFICATE_EXPIRED",
        "SSLV3_ALERT_CERTIFICATE_UNKNOWN", "TLSV1_ALERT_UNKNOWN_CA", "TLSV1_ALERT_ACCESS_DENIED",
    )),
    (aiohttp.ClientConnectorCertificateError(KEY, ssl.SSLCertVerificationError(1, "x")), UNTRUSTED),
    (aiohttp.ServerFingerprintMismatch(b"a", b"b", "h", 1), UNTRUSTED),
    (UnicodeEncodeError("latin-1", "c4n4ry\u0104", 6, 7, "no"), UNSENDABLE),
    (ValueError("x"),                                "connection failed with ValueError"),
    (RecursionError("x"),                            "connection failed with RecursionError"),
]
# fmt: on


@pytest.mark.parametrize(("error", "text"), KINDS)
def test_an_error_is_told_by_its_narrowest_class(error: Exception, text: str) -> None:
    """The message is ours, the class a failed connection; a certificate is not tried again."""
    made = fault_of(error).error(get_application("1"))
    assert type(made) is ConnectionFailedError
    assert made.message == f"get_application(1): {text}"
    assert made.retryable is (text not in FINAL)


def test_a_name_that_is_not_found_without_descriptors_is_not_blamed() -> None:
    """The system's resolver opens files, and says only that it has found no name."""
    with without_descriptors():
        fault = fault_of(aiohttp.ClientConnectorDNSError(KEY, OSError(-2, "x")))
    assert fault.text == SHORT_PROCESS


@pytest.mark.parametrize(
    "cls",
    [
        *(TimeoutError, aiohttp.SocketTimeoutError),
        *(aiohttp.ConnectionTimeoutError, aiohttp.ServerTimeoutError),
    ],
)
def test_a_wait_that_was_too_long_is_told_apart(cls: type[Exception]) -> None:
    """Time-outs cost more of the retry budget, so they have a class of their own."""
    assert fault_of(cls()).cls is DeadlineExceededError


# A service that wants a client certificate


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


@pytest.mark.parametrize(
    ("kind", "version", "text"),
    [
        ("none", ssl.TLSVersion.TLSv1_3, WANTED),
        # An older server does not say what is missing.
        ("none", ssl.TLSVersion.TLSv1_2, PERHAPS_WANTED),
        ("of a stranger", ssl.TLSVersion.TLSv1_3, REFUSED),
        ("good", ssl.TLSVersion.TLSv1_3, "503 Service Unavailable"),
    ],
    ids=lambda value: value.name if isinstance(value, ssl.TLSVersion) else None,
)
async def test_a_service_that_wants_a_client_certificate_is_understood(
    kind: str, version: ssl.TLSVersion, text: str, tmp_path: Path
) -> None:
    """The message names the missing or refused certificate, and no attempt is wasted."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    if kind != "none":
        issuer = authority if kind == "good" else trustme.CA()
        issuer.issue_cert("partner").configure_cert(context)
    policy = DownloadPolicy(allowed_hosts=("127.0.0.1",), allow_private_networks=True, ssl=context)
    options: dict[str, Any] = {"clock": JumpingClock(), "ssl": context, "downloads": policy}
    with demanding(authority, version) as url:
        async with IncomeClient(url, auth=BASIC, **options) as client:
            with pytest.raises(IncomeClientError) as caught:
                await client.get_application("app-1")
            with pytest.raises(DownloadError) as of_file:
                await client.download(make_document(url=f"{url}/slip"), tmp_path / "slip")
    assert caught.value.message == f"get_application(app-1): {text}"
    is_final = text in FINAL
    assert (caught.value.retryable, caught.value.attempts) == (not is_final, 1 if is_final else 3)
    if kind != "good":
        assert of_file.value.message.endswith(f": {text}")
        assert of_file.value.retryable is not is_final


# Encodings that nobody asked for


async def one_call(answer: Answer, **options: Any) -> IncomeClientError:
    async with ScriptedServer(answer) as server:
        settings: dict[str, Any] = {"auth": BASIC, "clock": JumpingClock()} | options
        async with IncomeClient(server.url, **settings) as client:
            with pytest.raises(IncomeClientError) as caught:
                await client.get_application("app-1")
    return caught.value


async def test_an_encoding_that_was_not_asked_for_is_named_as_such() -> None:
    """The reply is valid HTTP: the error has its facts. The token request says the same."""

    def encoded(request: Request) -> Reply:
        # One that aiohttp knows, and did not ask for as its library is not installed.
        asked = request.headers["accept-encoding"]
        coding = next(one for one in ("br", "zstd", "compress") if one not in asked)
        return reply(body=b"\x00\x01", Content_Encoding=coding)

    for kind, coding in (("application/json", "sealed"), ("text/plain", "compress")):
        out = reply(body=b"\x00\x01", content_type=kind, Content_Encoding=coding, X_Request_Id="r")
        error = await one_call(in_turn(out))
        assert isinstance(error, UnexpectedResponseError)
        assert error.message == (
            f"get_application(app-1): {kind} with a Content-Encoding that was not asked for, "
            "2 bytes instead of JSON"
        )
        assert (error.status, error.request_id, error.retryable) == (200, "r", True)
    error = await one_call(encoded)
    assert "Content-Encoding that was not asked for" in error.message
    assert error.retryable
    error = await one_call(in_turn(reply(body=b"\x00", Content_Encoding="sealed")), auth=OAUTH)
    assert isinstance(error, TokenError)
    assert "with a Content-Encoding that was not asked for, 1 bytes instead" in error.message


async def test_a_body_that_cannot_be_decompressed_is_told() -> None:
    """The body is damaged, or not in the encoding that its header names."""
    for body in (b"{}", gzip.compress(b"{}")[:-12] + bytes(12)):
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


@pytest.mark.parametrize(
    ("statuses", "retry_after", "attempts"),
    [
        # A missing password is missing the next time as well.
        ((302, 400, 401, 403, 404, 407), "", 1),
        ((408, 429, 500, 502, 503, 504), "7", 3),
        ((503,), "86400", 1),
    ],
    ids=["it wants something else", "it may connect later", "too long a pause"],
)
async def test_a_proxy_that_refuses_is_treated_as_a_service_is(
    statuses: tuple[int, ...], retry_after: str, attempts: int
) -> None:
    """The proxy is asked again after the pause that it asks for, if it may connect later."""
    for status in statuses:
        async with refusing(status, retry_after) as (client, proxy, clock):
            error = await refusal(client)
        text = f"get_application(app-1): proxy refused the connection with status {status}"
        assert error.message == text
        assert (error.status, error.attempts, len(proxy.requests)) == (status, attempts, attempts)
        assert error.retryable is bool(retry_after)
        assert error.retry_after == (float(retry_after) if retry_after else None)
        assert clock.slept == [7] * (attempts - 1)
        asked = proxy.requests[0]
        assert (asked.method, asked.path) == ("CONNECT", "service.example:443")
        assert "authorization" not in asked.headers


async def test_the_errors_of_tokens_and_downloads_say_so_as_well(tmp_path: Path) -> None:
    """The rules are the same; a token request is made once, and its secret stays hidden."""
    async with refusing(407, auth=OAUTH) as (client, proxy, _):
        error = await refusal(client)
    assert error.message == "token: proxy refused the connection with status 407"
    assert (error.status, error.retryable, error.attempts) == (407, False, 1)
    assert ["authorization" in request.headers for request in proxy.requests] == [False]
    document = make_document(url=f"https://files.amazonaws.com/slip?signature={CANARY}")
    for status, attempts in ((407, 1), (502, 3)):
        async with refusing(status, "7") as (client, proxy, clock):
            with pytest.raises(DownloadError, match=f"refused .* with status {status}") as caught:
                await client.download(document, tmp_path / "slip")
        of_file = caught.value
        assert (of_file.status, of_file.retry_after) == (status, 7)
        assert of_file.retryable is (attempts > 1)
        assert len(proxy.requests) == attempts
        assert clock.slept == [7] * (attempts - 1)


# Bugs

PRIVATE: Final = BasicAuth("user", CANARY)


def broken_hook(name: str) -> tuple[aiohttp.TraceConfig, list[None]]:
    """Return a trace hook with a bug, and a list that shows how often it was called."""
    calls: list[None] = []

    async def hook(*_: Any) -> None:
        calls.append(None)
        raise TypeError("a bug")

    trace = aiohttp.TraceConfig()
    getattr(trace, name).append(hook)
    return trace, calls


HOOKS: Final = (
    *("on_request_start", "on_connection_create_start", "on_request_headers_sent"),
    "on_request_end",
)
WORK: Final[dict[str, Callable[[IncomeClient], Any]]] = {
    "call": lambda client: client.get_application("app-1"),
    "walk": lambda client: client.list_applications().__anext__(),
    "fetch": lambda client: client.fetch_records(["app-1", "app-2"]).__anext__(),
    "poll": lambda client: client.poll(MemoryCheckpointStore()).__anext__(),
}


@pytest.mark.parametrize(
    ("work", "hook", "auth"),
    [
        *product(["call"], HOOKS[1:], [PRIVATE]),
        *product(WORK, HOOKS[:1], [PRIVATE]),
        # All that wait for the token get it.
        ("fetch", HOOKS[0], OAuth2ClientCredentials("user", CANARY)),
    ],
)
async def test_a_bug_comes_out_as_itself(work: str, hook: str, auth: Auth) -> None:
    """The error of a bug is not retried, not even by a poller, and shows no variables."""
    trace, calls = broken_hook(hook)
    clock = JumpingClock()
    async with (
        Emulator(3, clock=clock) as service,
        aiohttp.ClientSession(trace_configs=[trace]) as session,
        IncomeClient(service.url, auth=auth, clock=clock, session=session) as client,
    ):
        for _ in range(2):
            with pytest.raises(TypeError, match="a bug") as caught:
                await WORK[work](client)
            names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
            assert "hook" in names
    assert clock.slept == []
    assert 2 <= len(calls) <= 8
