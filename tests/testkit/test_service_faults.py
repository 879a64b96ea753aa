"""Faults of the service in its own thread: what a client comes through, and what it does not."""

import pytest

from income_client import (
    ApplicationRecord,
    ConfigurationError,
    IncomeClient,
    RetryPolicy,
    ServerError,
)
from income_client.emulator import Fault
from income_client.testing import (
    IncomeService,
    JumpingClock,
    cut_body,
    flaky,
    outage,
    slow,
    throttled,
)


@pytest.mark.income_client(retry=RetryPolicy(max_attempts=3))
async def test_a_flaky_service_fails_some_calls_for_good(
    income_service: IncomeService, income_client: IncomeClient
) -> None:
    """Chance falls on attempts, so that who reads much lets failures be yielded."""
    income_service.faults.add(flaky(0.5, call="get_application"))
    records = income_client.fetch_records(income_service.ids, documents=False, on_error="yield")
    came = [isinstance(each, ApplicationRecord) async for each in records]
    assert 0 < came.count(False) < came.count(True)
    assert len(came) == len(income_service.ids)


@pytest.mark.income_service(applications=3)
async def test_troubles_are_played_over_sockets(
    income_service: IncomeService, income_client: IncomeClient, income_clock: JumpingClock
) -> None:
    """A client comes through those that pass, and tells of the one that lasts."""
    (first, *_) = income_service.ids
    income_service.faults.add(throttled(9), cut_body())
    await income_client.get_application(first)
    assert income_service.requests.count("get_application") == 3
    assert max(income_clock.slept) >= 9
    income_service.faults.add(slow(0.0))
    await income_client.get_application(first)
    income_service.faults.add(outage(60))
    with pytest.raises(ServerError):
        await income_client.get_application(first)
    income_service.advance(60)
    await income_client.get_application(first)
    income_service.faults.clear()
    assert len(income_service.faults) == 0


@pytest.mark.income_client(retry=RetryPolicy(max_attempts=1))
async def test_an_outage_lasts_as_long_as_it_says(
    income_service: IncomeService, income_client: IncomeClient, income_clock: JumpingClock
) -> None:
    """To the fraction of a second, though the service's own present is a whole one."""
    (first, *_) = income_service.ids
    income_clock.advance(0.9)
    income_service.faults.add(outage(0.5))
    income_clock.advance(0.2)
    income_service.advance(0.2)
    with pytest.raises(ServerError):
        await income_client.get_application(first)
    income_clock.advance(0.1)
    await income_client.get_application(first)


def test_what_is_no_fault_is_refused(income_service: IncomeService) -> None:
    """Also in the midst of others."""
    with pytest.raises(ConfigurationError, match="a fault is a"):
        income_service.faults.add(Fault("reset"), 500)  # type: ignore[arg-type]
