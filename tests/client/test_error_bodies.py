"""``keep_error_bodies=True``: what a service says about a failure, for those who ask for it."""

import copy
import pickle
from typing import Any, Final

import pytest

from income_client import (
    AuthenticationError,
    DecodeError,
    IncomeClient,
    IncomeClientError,
    NotFoundError,
    RetryPolicy,
    ServerError,
    TokenError,
)
from income_client.emulator import Emulator, Fault

ONCE: Final = RetryPolicy(max_attempts=1)
CANARY: Final = b"canary-of-the-body"


async def failure(
    *faults: Fault, basic: bool = False, call: str = "check", **options: Any
) -> IncomeClientError:
    """Make a call that fails, and return its error."""
    async with Emulator(2) as service:
        service.faults.add(*faults)
        auth = service.basic if basic else service.oauth2
        usual: dict[str, Any] = {"auth": auth, "retry": ONCE}
        async with IncomeClient(service.url, **usual | options) as client:
            with pytest.raises(IncomeClientError) as caught:
                await (client.check() if call == "check" else client.get_application("app-none"))
    return caught.value


@pytest.mark.parametrize("status", [400, 403, 404, 429, 500, 503])
async def test_a_failure_keeps_what_the_service_says(status: int) -> None:
    """As bytes, and in no text."""
    fault = Fault("body", path="/v1/*", status=status, body=CANARY, times=None)
    error = await failure(fault, keep_error_bodies=True)
    assert (error.status, error.body) == (status, CANARY)
    assert CANARY.decode() not in f"{error} {error!r} {error.args}"


@pytest.mark.parametrize("options", [{}, {"keep_error_bodies": False}])
async def test_nothing_is_kept_unless_asked_for(options: dict[str, Any]) -> None:
    """The default: a body may hold a borrower's data."""
    for status, body in ((500, CANARY), (200, b'{"applications": "' + CANARY + b'"}')):
        error = await failure(
            Fault("body", path="/v1/*", status=status, body=body, times=None), **options
        )
        assert error.body is None
        assert CANARY.decode() not in str(vars(error))


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 70_000, 500_000])
async def test_four_kilobytes_are_kept_at_most(size: int) -> None:
    """The first ones, however long the body is; None if there is none."""
    body = bytes(range(1, 251)) * (size // 250 + 1)
    for status in (500, 200):
        fault = Fault("body", path="/v1/*", status=status, body=body[:size], times=None)
        error = await failure(fault, keep_error_bodies=True)
        assert (error.body or b"") == body[: min(size, 4096)]


async def test_a_retry_is_not_disturbed() -> None:
    """A long body of the first attempts is left behind, and the next one succeeds."""
    async with Emulator(2) as service:
        service.faults.add(Fault("body", path="/v1/*", status=503, body=CANARY * 1000, times=2))
        async with IncomeClient(service.url, auth=service.basic, keep_error_bodies=True) as client:
            await client.check()
            await client.check()


async def test_a_reply_that_cannot_be_decoded_is_kept() -> None:
    """A login page of some proxy, a wrong type."""
    page = await failure(
        Fault("body", path="/v1/*", body=b"<html>" + CANARY, times=None), keep_error_bodies=True
    )
    assert page.body == b"<html>" + CANARY
    wrong = b'{"applications": "' + CANARY + b'"}'
    fault = Fault("body", path="/v1/*", body=wrong, times=None)
    error = await failure(fault, keep_error_bodies=True)
    assert isinstance(error, DecodeError)
    assert error.body == wrong
    assert CANARY.decode() not in f"{error} {error!r}"


async def test_what_is_not_found_keeps_its_body() -> None:
    """A record that is not there."""
    error = await failure(call="get", keep_error_bodies=True)
    assert isinstance(error, NotFoundError)
    assert error.body


async def test_refusals_of_the_token_endpoint_are_kept() -> None:
    """They say what is wrong with the credentials."""
    for status, cls in ((401, AuthenticationError), (500, TokenError)):
        fault = Fault("body", path="/token", status=status, body=CANARY, times=None)
        error = await failure(fault, keep_error_bodies=True)
        assert isinstance(error, cls | ServerError)
        assert error.body == CANARY


async def test_a_token_is_never_kept() -> None:
    """A reply of the token endpoint that cannot be used may hold one all the same."""
    body = b'{"access_token": "' + CANARY + b'", "token_type": 5}'
    fault = Fault("body", path="/token", body=body, times=None)
    error = await failure(fault, keep_error_bodies=True)
    assert isinstance(error, TokenError)
    assert error.body is None


async def test_copies_keep_it() -> None:
    """An error that is pickled, copied or raised again is the same."""
    fault = Fault("body", path="/v1/*", status=500, body=CANARY, times=None)
    error = await failure(fault, keep_error_bodies=True)
    for copied in (copy.copy(error), pickle.loads(pickle.dumps(error)), error.again()):
        assert copied.body == CANARY
