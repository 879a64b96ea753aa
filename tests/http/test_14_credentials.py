"""Promise 14: credentials go only to the configured origin, and replies match their requests.

That a reply counts only for the request that it answers is in test_unasked_replies.py.
"""

import contextlib
import ssl
from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import trustme
from attrs import evolve

from income_client import (
    ConfigurationError,
    ConnectionFailedError,
    IncomeClient,
    NotFoundError,
    TokenError,
    UnexpectedResponseError,
)
from income_client.testing import JumpingClock, make_document
from tests.support.clients import BASIC, HERE, OAUTH
from tests.support.proxies import tls_pair, tunnelling
from tests.support.server import (
    Reply,
    Request,
    ScriptedServer,
    answer_to,
    in_turn,
    reply,
    token_rules,
    turns,
)

SERVICE: Final = "https://service.example"
BASIC_HEADER: Final = "Basic dXNlcjppbnZlbnRlZA=="
CLIENT_HEADER: Final = "Basic cGFydG5lcjppbnZlbnRlZA=="
LOCAL: Final = ("http://127.0.0.1:8000", "http://localhost", "http://[::1]:8000/prefix")
FAR: Final = (
    "http://proxy.example:3128",
    "https://u:invented@10.0.0.1",
    "http://127.0.0.1.example",
)
REDIRECTS: Final = (300, 301, 302, 303, 305, 306, 307, 308)


def client_of(url: str, **options: Any) -> IncomeClient:
    """Return a client whose pauses take no time."""
    settings: dict[str, Any] = {"auth": BASIC, "clock": JumpingClock()} | options
    return IncomeClient(url, **settings)


# Redirects


@pytest.mark.parametrize("is_borrowed", [False, True])
@pytest.mark.parametrize("status", REDIRECTS)
async def test_a_call_is_not_redirected(status: int, is_borrowed: bool) -> None:
    """Any redirect is an error, of a call or of a token request, and nothing goes elsewhere.

    The ``raise_for_status`` of a borrowed session does not replace our errors either.
    """
    async with (
        ScriptedServer(in_turn(reply())) as other,
        aiohttp.ClientSession(raise_for_status=True) as session,
    ):
        answer = in_turn(reply(status, Location=f"{other.url}/elsewhere"))
        borrowed = session if is_borrowed else None
        for rules, cls in ((token_rules(answer), UnexpectedResponseError), (answer, TokenError)):
            async with (
                ScriptedServer(rules) as server,
                client_of(server.url, auth=OAUTH, session=borrowed) as client,
            ):
                with pytest.raises((UnexpectedResponseError, TokenError)) as caught:
                    await client.get_application("app-1")
            assert type(caught.value) is cls
            assert (caught.value.status, caught.value.retryable) == (status, False)
            made = ["/token", *["/v1/income/applications/app-1"] * (cls is not TokenError)]
            assert [request.path for request in server.requests] == made
        assert other.requests == []


# One origin for calls, one for tokens, none for files


async def test_each_origin_gets_only_its_own_credentials(tmp_path: Path) -> None:
    """Client credentials go to the token endpoint, tokens to the API, and none to files."""
    async with (
        ScriptedServer(answer_to) as api,
        ScriptedServer(answer_to) as login,
        ScriptedServer(in_turn(reply(body=b"a,b", content_type="text/csv"))) as files,
        client_of(api.url, auth=OAUTH, auth_url=login.url, downloads=HERE) as client,
    ):
        await client.get_application("app-1")
        await client.find_application("loan-1")
        document = make_document(url=f"{files.url}/slip?signature=1")
        await client.download(document, tmp_path / "slip")
    assert {request.authorization for request in login.requests} == {CLIENT_HEADER}
    assert {request.path for request in login.requests} == {"/token"}
    assert {request.authorization for request in api.requests} == {"Bearer token-1"}
    assert "/token" not in {request.path for request in api.requests}
    (file,) = files.requests
    assert "authorization" not in file.headers
    assert "Bearer" not in str(file.headers)


ODD_IDS: Final = (
    "//127.0.0.1:1/x", "@127.0.0.1:1", "http://127.0.0.1:1/", "../../../token", "%2e%2e",
    "app?x=1#y", "?limit=1", "a b\\c%2f", "ä ö",
)  # fmt: skip


async def test_an_id_does_not_change_where_a_call_goes() -> None:
    """The id is always a single path segment, whatever characters it contains."""
    async with ScriptedServer(in_turn(reply(404))) as server, client_of(server.url) as client:
        for application_id in ODD_IDS:
            with pytest.raises(NotFoundError):
                await client.get_application(application_id)
            request = server.requests[-1]
            prefix, _, rest = request.path.partition("/v1/income/applications/")
            assert prefix == "", application_id
            assert "/" not in rest, application_id
            assert request.query == "", application_id
        assert len(server.requests) == len(ODD_IDS)


# TLS


EXPOSED: Final = (
    "http://service.example", "http://localhost.example.com", "http://127.0.0.1.example.com",
    "http://127.1", "http://127.0.0.1.", "http://127.0.0.1.:8080", "http://2130706433",
    "http://0x7f000001", "http://0.0.0.0", "http://[::]", "http://[::ffff:127.0.0.1]",
    "http://10.0.0.1", "http://169.254.169.254", "http://localhost@service.example",
    "http://127.0.0.1\\@service.example", "HTTP://service.example", "ftp://service.example",
    "ws://service.example", "//service.example", "service.example",
)  # fmt: skip


@pytest.mark.parametrize(("address", "proxy"), [*product(EXPOSED, [None]), *product(LOCAL, FAR)])
def test_credentials_are_not_sent_in_plain_text(address: str, proxy: str | None) -> None:
    """Neither to another machine nor, where the address is of this one, to a proxy elsewhere."""
    said = "" if proxy is None else " is http, and proxy is"
    with pytest.raises(ConfigurationError, match=f"base_url{said}"):
        client_of(address, proxy=proxy)
    with pytest.raises(ConfigurationError, match=f"auth_url{said}"):
        client_of(SERVICE, auth=OAUTH, auth_url=address, proxy=proxy)


async def test_https_and_this_machine_are_accepted() -> None:
    """A proxy may be set too: on this machine, or outside it with TLS to the service."""
    pairs = [*product(LOCAL, (None, *LOCAL)), *product([SERVICE], (None, *LOCAL, *FAR))]
    for address, proxy in pairs:
        async with client_of(address, auth=OAUTH, auth_url=address, proxy=proxy):
            pass


@pytest.mark.parametrize(("fault", "auth"), [("unknown authority", BASIC), ("another host", OAUTH)])
async def test_an_impostor_gets_nothing(fault: str, auth: Any) -> None:
    """Without a valid certificate nothing is sent, and nothing is retried."""
    authority = trustme.CA()
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    name = "127.0.0.1" if fault == "unknown authority" else "service.example"
    authority.issue_cert(name).configure_cert(server_side)
    client_side = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if fault == "another host":
        authority.configure_trust(client_side)
    async with (
        ScriptedServer(answer_to, server_side) as server,
        client_of(server.url, auth=auth, ssl=client_side) as client,
    ):
        with pytest.raises(ConnectionFailedError, match="certificate not accepted") as caught:
            await client.get_application("app-1")
        assert server.requests == []
    assert not caught.value.retryable


# Proxies


@pytest.mark.parametrize(
    ("auth", "user", "shown"),
    [
        (BASIC, "", None),
        (OAUTH, "proxy:word@", "Basic cHJveHk6d29yZA=="),
        (BASIC, "proxy:%C4%84dam@", "Basic cHJveHk6xIRkYW0="),
        (BASIC, "pr%C3%B6xy:w%FFrd%3A@", "Basic cHLDtnh5Onf/cmQ6"),
        (BASIC, ":word@", "Basic OndvcmQ="),
    ],
    ids=["nobody's", "its own", "in UTF-8", "bytes as they are", "no name"],
)
async def test_a_proxy_sees_a_host_and_a_port(auth: Any, user: str, shown: str | None) -> None:
    """Path, headers, token and body are inside TLS."""
    tls, trust = tls_pair()
    async with (
        ScriptedServer(answer_to, tls) as server,
        tunnelling(server.port) as (proxy, sees),
        client_of(server.url, auth=auth, proxy=f"http://{user}{proxy}", **trust) as client,
    ):
        for name in ("app-1", "app-2"):
            assert (await client.get_application(name)).application_id == name
            # The next call makes a connection of its own.
            for writer in tuple(server.connections.values()):
                writer.transport.abort()
            await turns()
    assert {request.authorization for request in server.requests} <= {
        BASIC_HEADER,
        CLIENT_HEADER,
        "Bearer token-1",
    }
    heads = [piece for piece in sees if piece.startswith(b"CONNECT ")]
    assert heads
    for head in heads:
        first, *fields = head.decode().removesuffix("\r\n\r\n").split("\r\n")
        assert first == f"CONNECT 127.0.0.1:{server.port} HTTP/1.1"
        told = {name.lower(): text for name, text in (line.split(": ") for line in fields)}
        assert told.get("proxy-authorization") == shown
        assert not {"authorization", "cookie"} & set(told)
    whole = b"".join(sees)
    for secret in (b"applications", b"Bearer", b"token", BASIC_HEADER.encode(), b"grant_type"):
        assert secret not in whole
    # Credentials for the proxy stay with the proxy.
    assert not any("proxy-authorization" in request.headers for request in server.requests)


@pytest.mark.parametrize("user", ["a%3Ab:c4n4ry@", "a%3ab@"])
def test_a_name_at_a_proxy_with_a_colon_is_refused(user: str) -> None:
    """HTTP cannot send it, and aiohttp says so only with the first request."""
    with pytest.raises(ConfigurationError, match="proxy holds a user name with a colon") as caught:
        client_of("https://service.example", proxy=f"http://{user}proxy.example")
    assert "c4n4ry" not in repr(caught.value)


# What is around: the environment, cookies, a caller's session


async def test_the_environment_adds_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A netrc file and proxy variables are ignored, for downloads too."""
    (tmp_path / ".netrc").write_text("default login theirs password theirs\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("HOME", str(tmp_path))
    async with ScriptedServer(answer_to) as proxy, ScriptedServer(answer_to) as server:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
            monkeypatch.setenv(name.upper(), proxy.url)
        async with client_of(server.url, auth=OAUTH, downloads=HERE) as client:
            await client.get_application("app-1")
            await client.download(make_document(url=f"{server.url}/slip"), tmp_path / "slip")
        assert proxy.requests == []
    shown = [request.headers.get("authorization") for request in server.requests]
    assert shown == [CLIENT_HEADER, "Bearer token-1", None]
    assert not any("proxy-authorization" in request.headers for request in server.requests)


@contextlib.asynccontextmanager
async def lent(
    proxy: ScriptedServer, other: ScriptedServer
) -> AsyncIterator[tuple[aiohttp.ClientSession, list[str]]]:
    """Return a session with every kind of addition, and a list of middlewares that ran."""
    ran: list[str] = []

    async def middleware(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        ran.append(str(request.url))
        request.headers["Authorization"] = "Bearer theirs"
        return await handler(request)

    jar = aiohttp.CookieJar(unsafe=True)
    jar.update_cookies({"session": "theirs"})
    async with aiohttp.ClientSession(
        base_url=other.url,
        headers={
            "X-Theirs": "theirs",
            "Authorization": "Basic theirs",
            "Accept": "theirs/theirs",
            "User-Agent": "lender/1.0",
        },
        cookie_jar=jar,
        proxy=proxy.url,
        trust_env=True,
        raise_for_status=True,
        middlewares=(middleware,),
    ) as session:
        yield session, ran


@pytest.mark.parametrize(("auth", "requests"), [(BASIC, 1), (OAUTH, 2)], ids=["basic", "oauth2"])
async def test_a_borrowed_session_lends_its_connections_only(auth: Any, requests: int) -> None:
    """And its User-Agent, which is no secret: a proxy that tunnels sees it."""
    async with (
        ScriptedServer(answer_to) as server,
        ScriptedServer(in_turn(reply())) as proxy,
        ScriptedServer(in_turn(reply())) as other,
        lent(proxy, other) as (session, ran),
    ):
        async with client_of(server.url, auth=auth, session=session) as client:
            assert (await client.get_application("app-1")).application_id == "app-1"
        assert not session.closed
        assert len(server.requests) == requests
        assert "theirs" not in str([request.headers for request in server.requests])
        assert {request.headers["user-agent"] for request in server.requests} == {"lender/1.0"}
        assert (proxy.requests, other.requests, ran) == ([], [], [])
        authorizations = {request.authorization for request in server.requests}
        assert authorizations <= {BASIC_HEADER, CLIENT_HEADER, "Bearer token-1"}
        assert not any("cookie" in request.headers for request in server.requests)


@pytest.mark.parametrize("is_borrowed", [False, True])
async def test_cookies_are_not_kept(is_borrowed: bool) -> None:
    """Later requests, of the owner of a session too, carry neither them nor our credentials."""

    def answer(request: Request) -> Reply:
        return evolve(answer_to(request), headers={"Set-Cookie": "session=ours; Path=/"})

    async with (
        ScriptedServer(answer) as server,
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session,
    ):
        # Cookies of bare IP addresses would not be kept anyway.
        url = server.url.replace("127.0.0.1", "localhost")
        options = {"session": session} if is_borrowed else {}
        async with client_of(url, auth=OAUTH, **options) as client:
            for name in ("app-1", "app-2"):
                await client.get_application(name)
        assert not list(session.cookie_jar)
        async with session.get(f"{url}/v1/income/applications/app-3") as answered:
            assert answered.status == 200
    *ours, theirs = server.requests
    assert len(ours) == 3
    assert not any("cookie" in request.headers for request in server.requests)
    assert "authorization" not in theirs.headers
