"""The session under the mocks that users have: tokens and refusals, told by aioresponses."""

import asyncio
import gc
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

import aiohttp
import pytest
from aioresponses import aioresponses
from yarl import URL

from income_client import (
    AuthenticationError,
    ConnectionFailedError,
    IncomeClient,
    NotFoundError,
    OAuth2ClientCredentials,
    to_json,
)
from income_client.testing import JumpingClock, make_application

API: Final = "https://api.income.example"
AUTH: Final = "https://login.income.example"
CALL: Final = f"{API}/v1/income/applications/app-1"
REFUSED: Final[dict[str, Any]] = {
    "status": 401,
    "headers": {"WWW-Authenticate": 'Bearer error="invalid_token"'},
}


class Reply(aiohttp.ClientResponse):
    """A reply with a ``stream_writer``: aiohttp 3.14 wants one, aioresponses 0.7.9 gives none."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"stream_writer": SimpleNamespace(output_size=0), **options})


class Mocks:
    """Replies of the service and its token endpoint, in the order in which they are added."""

    def __init__(self, mocked: aioresponses) -> None:
        self._mocked = mocked
        self._add = partial(mocked.add, response_class=Reply)

    def token(self, number: int = 0, lifetime: int = 3600, **reply: Any) -> None:
        """Issue a token, or let the request for it fail."""
        token = {"access_token": f"token-{number}", "token_type": "Bearer", "expires_in": lifetime}
        self._add(f"{AUTH}/token", "POST", payload=token, **reply)

    def application(self, size: int = 0, **options: Any) -> None:
        """Serve the application, in so many bytes at least."""
        body = to_json(make_application(application_id="app-1"))
        self._add(CALL, body=body + b" " * (size - len(body)), **options)

    def failure(self, **reply: Any) -> None:
        """Let a call fail."""
        self._add(CALL, **reply)

    @property
    def credentials(self) -> list[tuple[str, str]]:
        """The host and the Authorization header of each request, in order for each host."""
        return [
            (str(url.host), call.kwargs["headers"]["Authorization"].partition(" ")[2])
            for (_, url), calls in self._mocked.requests.items()
            for call in calls
        ]

    @property
    def used(self) -> list[str]:
        """The tokens that came with the calls."""
        return [token for host, token in self.credentials if host == URL(API).host]


@pytest.fixture
def mocks() -> Iterator[Mocks]:
    """Keep aiohttp from sending anything."""
    with aioresponses() as mocked:
        yield Mocks(mocked)
    # It copies what requests are made with: half a copy of an event loop would complain now.
    gc.collect()


@pytest.fixture
def clock() -> JumpingClock:
    return JumpingClock()


@asynccontextmanager
async def client_on(clock: JumpingClock) -> AsyncIterator[IncomeClient]:
    """Lend a client whose token endpoint has a host of its own."""
    auth = OAuth2ClientCredentials("an-id", "a-secret")
    async with IncomeClient(API, auth=auth, auth_url=AUTH, clock=clock) as client:
        yield client


async def test_one_token_serves_many_calls(mocks: Mocks, clock: JumpingClock) -> None:
    """Until it has expired; the secret goes to its own host, and nowhere else."""
    mocks.token(1, lifetime=600)
    mocks.token(2)
    mocks.application(repeat=True)
    async with client_on(clock) as client:
        await asyncio.gather(*(client.get_application("app-1") for _ in range(20)))
        clock.advance(601)
        assert (await client.get_application("app-1")).application_id == "app-1"
    secret = ("login.income.example", b64encode(b"an-id:a-secret").decode())
    calls = [("api.income.example", f"token-{number}") for number in [1] * 20 + [2]]
    assert mocks.credentials == [secret, secret, *calls]


async def test_a_refused_token_is_renewed_once(mocks: Mocks, clock: JumpingClock) -> None:
    """The call is repeated with the new token, and not a second time; a 404 keeps it."""
    mocks.token(1)
    mocks.token(2)
    mocks.failure(**REFUSED)
    mocks.failure(status=404)
    mocks.failure(**REFUSED)
    mocks.failure(**REFUSED)
    async with client_on(clock) as client:
        with pytest.raises(NotFoundError):
            await client.get_application("app-1")
        mocks.token(3)
        with pytest.raises(AuthenticationError):
            await client.get_application("app-1")
    assert mocks.used == ["token-1", "token-2", "token-2", "token-3"]


async def test_refused_credentials_are_not_sent_again_at_once(
    mocks: Mocks, clock: JumpingClock
) -> None:
    mocks.token(status=401)
    async with client_on(clock) as client:
        for _ in range(2):
            with pytest.raises(AuthenticationError):
                await client.get_application("app-1")
    assert len(mocks.credentials) == 1


async def test_what_may_pass_is_retried(mocks: Mocks, clock: JumpingClock) -> None:
    """A 429, an exception of aiohttp, and a timeout; what no mock is for fails in the end."""
    mocks.token(1)
    mocks.failure(status=429, headers={"Retry-After": "7"})
    mocks.application()
    mocks.failure(exception=aiohttp.ServerDisconnectedError())
    mocks.failure(timeout=True)
    mocks.application(size=128 * 1024)  # the most that aioresponses can make
    async with client_on(clock) as client:
        for _ in range(2):
            assert (await client.get_application("app-1")).application_id == "app-1"
        with pytest.raises(ConnectionFailedError):
            await client.get_application("app-1")
    assert clock.slept[0] == 7
