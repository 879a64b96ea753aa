"""``check`` at the start of a program, and what a client shows of itself."""

import asyncio
from typing import Any, Final

import pytest

from income_client import (
    AuthenticationError,
    BasicAuth,
    ClientClosedError,
    ConnectionFailedError,
    DecodeError,
    IncomeClient,
    NotFoundError,
    OAuth2ClientCredentials,
    RetryPolicy,
    UnexpectedResponseError,
)
from income_client.emulator import Emulator, Fault
from income_client.testing import JumpingClock
from tests.support.canaries import SECRET
from tests.support.service import served

ONCE: Final = RetryPolicy(max_attempts=1)


async def test_a_service_that_works_is_asked_once_for_one_row() -> None:
    """One token, one call, and nothing comes back."""
    async with served(50) as (service, client):
        await client.check()
        requests = [request for request in service.requests if request.name != "token"]
        assert [request.name for request in requests] == ["list_applications"]
        assert requests[0].query == "limit=1"
        assert service.token_requests == 1


async def test_a_service_without_applications_is_no_fault() -> None:
    """An empty list is a list."""
    async with served(0) as (_, client):
        await client.check()


@pytest.mark.parametrize("kind", ["basic", "oauth2"])
async def test_wrong_credentials_are_found_at_once(kind: str) -> None:
    """As the first call would find them."""
    async with Emulator(1) as service:
        auth: Any = BasicAuth("user", SECRET)
        if kind == "oauth2":
            auth = OAuth2ClientCredentials("client", SECRET)
        async with IncomeClient(service.url, auth=auth) as client:
            with pytest.raises(AuthenticationError):
                await client.check()


async def test_a_wrong_address_is_found_at_once() -> None:
    """A path that is not served, and a port where nobody listens."""
    async with Emulator(1) as service:
        async with IncomeClient(f"{service.url}/api", auth=service.basic) as client:
            with pytest.raises(NotFoundError, match="is base_url right"):
                await client.check()
        url = service.url
    async with IncomeClient(url, auth=service.basic, retry=ONCE) as client:
        with pytest.raises(ConnectionFailedError):
            await client.check()


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"<html>log in</html>", UnexpectedResponseError | DecodeError),
        (b'{"applications": []}', DecodeError),
        (b'{"updated_after": 1, "updated_before": 2, "applications": []}', DecodeError),
    ],
    ids=["a login page", "no time", "a time that is none"],
)
async def test_a_reply_of_another_service_is_found_at_once(body: bytes, error: Any) -> None:
    """The service must also say what time it is: windows are measured by that."""
    async with Emulator(1) as service:
        service.faults.add(Fault("body", path="/v1/*", body=body, times=None))
        clock = JumpingClock()
        async with IncomeClient(service.url, auth=service.basic, clock=clock) as client:
            with pytest.raises((UnexpectedResponseError, DecodeError)) as caught:
                await client.check()
    assert isinstance(caught.value, error)


async def test_a_closed_client_says_so() -> None:
    """As for any call."""
    async with served(1) as (_, client):
        await client.aclose()
        with pytest.raises(ClientClosedError):
            await client.check()


def test_a_client_shows_its_host_and_no_secret() -> None:
    """Host and port, of views and subclasses too; neither credentials nor the rest."""

    class Lender(IncomeClient):
        pass

    oauth2 = OAuth2ClientCredentials("client", SECRET)
    client = Lender("https://income.example:8443/prefix", auth=oauth2)
    assert repr(client) == "<Lender of income.example:8443>"
    assert repr(client.with_options(deadline=5)) == repr(client)
    proxied = IncomeClient(
        "https://income.example", auth=oauth2, proxy=f"http://user:{SECRET}@proxy.example"
    )
    assert repr(proxied) == "<IncomeClient of income.example>"
    asyncio.run(client.aclose())
