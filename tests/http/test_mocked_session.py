"""The session under the mocks that users have: tokens and refusals, told by aioresponses."""

import asyncio
import gc
from base64 import b64encode
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, Final

import aiohttp
import pytest
from aioresponses import aioresponses
from attrs import frozen
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
CREDENTIALS: Final = OAuth2ClientCredentials("an-id", "a-secret")
CALL: Final = f"{API}/v1/income/applications/app-1"
REFUSED: Final[dict[str, Any]] = {
    "status": 401,
    "headers": {"WWW-Authenticate": 'Bearer error="invalid_token"'},
}


class Reply(aiohttp.ClientResponse):
    """A reply with a ``stream_writer``: aiohttp 3.14 wants one, aioresponses 0.7.9 gives none."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"stream_writer": SimpleNamespace(output_size=0), **options})


@frozen
class Mocks:
    """Replies of the service and its token endpoint, in the order in which they are added."""

    mocked: aioresponses
    client: IncomeClient
    clock: JumpingClock

    def token(self, number: int = 0, lifetime: int = 3600, **reply: Any) -> None:
        """Issue a token, or let the request for it fail."""
        token = {"access_token": f"token-{number}", "token_type": "Bearer", "expires_in": lifetime}
        self.mocked.add(f"{AUTH}/token", "POST", payload=token, response_class=Reply, **reply)

    def reply(self, size: int = 0, **reply: Any) -> None:
        """Serve the application, in so many bytes at least, or let the call fail."""
        body = to_json(make_application(application_id="app-1"))
        usual: dict[str, Any] = {"body": body + b" " * (size - len(body)), "response_class": Reply}
        self.mocked.add(CALL, **usual | reply)

    async def call(self) -> None:
        assert (await self.client.get_application("app-1")).application_id == "app-1"

    @property
    def credentials(self) -> list[tuple[str, str]]:
        """The host and the Authorization header of each request, in order for each host."""
        return [
            (str(url.host), call.kwargs["headers"]["Authorization"].partition(" ")[2])
            for (_, url), calls in self.mocked.requests.items()
            for call in calls
        ]


@pytest.fixture
async def mocks() -> AsyncIterator[Mocks]:
    """A client whose token endpoint has a host of its own, and which sends nothing."""
    clock = JumpingClock()
    with aioresponses() as mocked:
        async with IncomeClient(API, auth=CREDENTIALS, auth_url=AUTH, clock=clock) as client:
            yield Mocks(mocked, client, clock)
    # It copies what requests are made with: half a copy of an event loop would complain now.
    gc.collect()


async def test_one_token_serves_many_calls(mocks: Mocks) -> None:
    """Until it has expired; the secret goes to its own host, and nowhere else."""
    mocks.token(1, lifetime=600)
    mocks.token(2)
    mocks.reply(repeat=True)
    await asyncio.gather(*(mocks.call() for _ in range(5)))
    mocks.clock.advance(601)
    await mocks.call()
    secret = ("login.income.example", b64encode(b"an-id:a-secret").decode())
    calls = [("api.income.example", f"token-{number}") for number in [1] * 5 + [2]]
    assert mocks.credentials == [secret, secret, *calls]


async def test_a_refused_token_is_renewed_once(mocks: Mocks) -> None:
    """The call is repeated with the new token, and not a second time; a 404 keeps it.

    Refused credentials are not sent again at once.
    """
    for number in (1, 2, 3):
        mocks.token(number)
    mocks.token(status=401)
    for failure in (REFUSED, {"status": 404}, REFUSED, REFUSED, REFUSED):
        mocks.reply(**failure)
    for error in (NotFoundError, *[AuthenticationError] * 3):
        with pytest.raises(error):
            await mocks.call()
    used = [token for host, token in mocks.credentials if host == URL(API).host]
    assert used == ["token-1", "token-2", "token-2", "token-3", "token-3"]
    assert len(mocks.credentials) == 4 + len(used)


async def test_what_may_pass_is_retried(mocks: Mocks) -> None:
    """A 429, an exception of aiohttp, and a timeout; what no mock is for fails in the end."""
    mocks.token(1)
    mocks.reply(status=429, headers={"Retry-After": "7"})
    mocks.reply()
    mocks.reply(exception=aiohttp.ServerDisconnectedError())
    mocks.reply(timeout=True)
    mocks.reply(size=128 * 1024)  # the most that aioresponses can make
    await mocks.call()
    await mocks.call()
    with pytest.raises(ConnectionFailedError):
        await mocks.call()
    assert mocks.clock.slept[0] == 7
