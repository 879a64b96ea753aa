"""The client against aiointercept, a mock server for tests of users."""

import pytest
from aiointercept import aiointercept

from income_client import (
    AuthenticationError,
    IncomeClient,
    OAuth2ClientCredentials,
    ServerError,
    to_json,
)
from income_client.testing import JumpingClock, make_application


async def test_a_server_of_mocks_is_called_like_the_service() -> None:
    """Replies of aiointercept come over a real connection, and so do refusals and failures."""
    token = {"access_token": "token-1", "token_type": "Bearer", "expires_in": 3600}
    application = make_application(application_id="app-1")
    clock = JumpingClock()
    async with aiointercept() as mocked:
        url = mocked.server_url
        call = f"{url}/v1/income/applications/app-1"
        mocked.post(f"{url}/token", payload=token)
        mocked.get(call, status=429, headers={"Retry-After": "7"})
        mocked.get(call, body=to_json(application))
        auth = OAuth2ClientCredentials("an-id", "a-secret")
        async with IncomeClient(url, auth=auth, clock=clock) as client:
            assert await client.get_application("app-1") == application
            assert clock.slept == [7]
            mocked.get(call, status=503, repeat=True)
            with pytest.raises(ServerError):
                await client.get_application("app-1")
        mocked.post(f"{url}/token", status=401)
        async with IncomeClient(url, auth=auth, clock=clock) as client:
            with pytest.raises(AuthenticationError):
                await client.get_application("app-1")
