"""Asynchronous tests that are marked, each kind in an event loop of another scope."""

from decimal import Decimal

import pytest

from income_client import IncomeClient, RateLimitedError
from income_client.testing import IncomeService, JumpingClock

from .decisions import decide


@pytest.mark.asyncio
async def test_a_poor_service_is_asked_again(
    income_service: IncomeService, income_client: IncomeClient, income_clock: JumpingClock
) -> None:
    """A pause that the service asks for is kept, and takes no time."""
    income_service.faults.add("get_application: 503, 503 retry-after=7, ok")
    assert await decide(income_client, income_service.ids[0], Decimal(1)) == "granted"
    assert income_service.requests.count("get_application") == 3
    assert income_clock.slept[-1] >= 7


@pytest.mark.asyncio(loop_scope="module")
async def test_an_expired_token_is_replaced(
    income_service: IncomeService, income_client: IncomeClient
) -> None:
    """Nobody notices."""
    income_service.faults.add("any: expired_token")
    assert await decide(income_client, income_service.ids[0], Decimal(1)) == "granted"
    assert income_service.token_requests == 2


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.income_service(faults="any: 429 retry-after=3600")
async def test_a_long_refusal_is_reported(
    income_service: IncomeService, income_client: IncomeClient
) -> None:
    """A pause of an hour is nobody's to wait for."""
    with pytest.raises(RateLimitedError):
        await decide(income_client, income_service.ids[0], Decimal(1))
