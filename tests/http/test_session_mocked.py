"""The session's decisions with the HTTP library mocked; what is about bytes has real sockets."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import ClientConnectionError, ClientResponse
from aioresponses import aioresponses
from yarl import URL

from income_client.errors import AuthenticationError, ConnectionFailedError, NotFoundError
from income_client.http.endpoints import get_application
from income_client.http.session import SessionManager
from income_client.settings import OAuth2ClientCredentials
from income_client.testing import JumpingClock
from tests.support.session import body_of

HOST = "https://income.example"
TOKEN = f"{HOST}/token"
ASKED = get_application("app-1")
API = HOST + ASKED.path


class Reply(ClientResponse):
    """A mocked reply; this aiohttp wants to know what has been written."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("stream_writer", SimpleNamespace(output_size=0))
        super().__init__(*args, **options)


@pytest.fixture
async def session() -> AsyncIterator[SessionManager]:
    """Make a session whose clock jumps."""
    manager = SessionManager(
        HOST,
        auth=OAuth2ClientCredentials("partner", "invented"),
        clock=JumpingClock(),
        chance=lambda: 0.5,
    )
    yield manager
    await manager.aclose()


def sell(mocked: aioresponses, token: str) -> None:
    """Answer one token request with this token."""
    payload = {"access_token": token, "token_type": "Bearer", "expires_in": 3600}
    mocked.post(TOKEN, payload=payload, response_class=Reply)


def authorizations(mocked: aioresponses) -> list[str]:
    """Return the Authorization headers that API calls went out with."""
    calls = mocked.requests[("GET", URL(API))]
    return [call.kwargs["headers"]["Authorization"] for call in calls]


async def test_a_call_goes_out_with_the_token_that_was_requested(session: SessionManager) -> None:
    """One token, one call; the token request carries the credentials and the grant."""
    with aioresponses() as mocked:
        sell(mocked, "one")
        mocked.get(API, body=b"{}", response_class=Reply)
        assert await session.call(ASKED, body_of(ASKED)) == b"{}"
        assert authorizations(mocked) == ["Bearer one"]
        (requested,) = mocked.requests[("POST", URL(TOKEN))]
        assert requested.kwargs["headers"]["Authorization"].startswith("Basic ")
        assert requested.kwargs["data"] == b"grant_type=client_credentials"
        assert requested.kwargs["allow_redirects"] is False


async def test_a_refused_token_is_replaced_once(session: SessionManager) -> None:
    """A first 401 requests a new token, a second one is the answer."""
    with aioresponses() as mocked:
        for token in ("one", "two"):
            sell(mocked, token)
            mocked.get(API, status=401, response_class=Reply)
        with pytest.raises(AuthenticationError):
            await session.call(ASKED, body_of(ASKED))
        assert authorizations(mocked) == ["Bearer one", "Bearer two"]


async def test_a_lost_connection_is_tried_again(session: SessionManager) -> None:
    """Three requests at the most, and the error is the package's own."""
    with aioresponses() as mocked:
        sell(mocked, "one")
        for _ in range(3):
            mocked.get(API, exception=ClientConnectionError("Bearer one"))
        with pytest.raises(ConnectionFailedError) as caught:
            await session.call(ASKED, body_of(ASKED))
        assert caught.value.attempts == 3
        assert "Bearer" not in str(caught.value)
        assert caught.value.__context__ is None


async def test_a_missing_application_is_not_tried_again(session: SessionManager) -> None:
    """404 is an answer."""
    with aioresponses() as mocked:
        sell(mocked, "one")
        mocked.get(API, status=404, headers={"X-Request-Id": "req-1"}, response_class=Reply)
        with pytest.raises(NotFoundError) as caught:
            await session.call(ASKED, body_of(ASKED))
        assert caught.value.request_id == "req-1"
        assert len(authorizations(mocked)) == 1
