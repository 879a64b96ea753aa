"""Proxies get credentials only inside TLS, and their refusals say what happened."""

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from income_client import (
    ConfigurationError,
    ConnectionFailedError,
    DownloadError,
    IncomeClient,
)
from income_client.testing import JumpingClock, make_document
from tests.support.clients import BASIC, OAUTH
from tests.support.server import ScriptedServer, in_turn, reply

SERVICE: Final = "https://service.example"
CANARY: Final = "c4n4ry"


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
        async with IncomeClient(SERVICE, **settings) as client:
            yield client, server, clock


async def refusal(client: IncomeClient) -> ConnectionFailedError:
    """Make a call that the proxy refuses, and return its error."""
    with pytest.raises(ConnectionFailedError) as caught:
        await client.get_application("app-1")
    return caught.value


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 407])
async def test_a_proxy_that_wants_something_else_is_asked_once(status: int) -> None:
    """A missing password is missing the next time as well."""
    async with refusing(status) as (client, proxy, _):
        error = await refusal(client)
    assert error.message == (
        f"get_application(app-1): proxy refused the connection with status {status}"
    )
    assert (error.status, error.retryable, error.attempts) == (status, False, 1)
    (request,) = proxy.requests
    assert (request.method, request.path) == ("CONNECT", "service.example:443")
    assert "authorization" not in request.headers


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
async def test_a_proxy_that_may_connect_later_is_asked_again(status: int) -> None:
    """As a service is that answers so."""
    async with refusing(status) as (client, proxy, _):
        error = await refusal(client)
    assert (error.status, error.retryable, error.attempts) == (status, True, 3)
    assert len(proxy.requests) == 3


async def test_a_proxy_is_left_alone_for_as_long_as_it_asks() -> None:
    """Retry-After counts as that of the service does."""
    async with refusing(503, "7") as (client, _, clock):
        error = await refusal(client)
    assert error.retry_after == 7
    assert clock.slept == [7, 7]


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


HERE: Final = ("http://127.0.0.1:8000", "http://localhost", "http://[::1]:8000/prefix")
FAR: Final = (
    "http://proxy.example:3128",
    f"https://u:{CANARY}@10.0.0.1",
    "http://127.0.0.1.example",
)


@pytest.mark.parametrize("proxy", FAR)
@pytest.mark.parametrize("address", HERE)
def test_an_http_address_and_a_proxy_elsewhere_are_refused(
    address: str, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy would get the Authorization header in plain text."""
    monkeypatch.setenv("INCOME_BASE_URL", address)
    monkeypatch.setenv("INCOME_USERNAME", "user")
    monkeypatch.setenv("INCOME_PASSWORD", "invented")
    makers: tuple[tuple[Callable[[], IncomeClient], str], ...] = (
        (lambda: IncomeClient(address, auth=BASIC, proxy=proxy), "base_url"),
        (lambda: IncomeClient(SERVICE, auth=OAUTH, auth_url=address, proxy=proxy), "auth_url"),
        (lambda: IncomeClient.from_env(proxy=proxy), "base_url"),
    )
    for make, name in makers:
        with pytest.raises(ConfigurationError, match=f"{name} is http, and proxy is"):
            make()


@pytest.mark.parametrize(
    ("address", "proxy"),
    [
        *[(here, proxy) for here in HERE for proxy in HERE],
        *[(SERVICE, proxy) for proxy in (*HERE, *FAR)],
    ],
)
async def test_other_addresses_go_with_a_proxy(address: str, proxy: str) -> None:
    """On the same machine nothing leaves it, and inside TLS the proxy sees nothing."""
    async with IncomeClient(address, auth=OAUTH, auth_url=address, proxy=proxy):
        pass
