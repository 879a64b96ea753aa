"""The pytest plug-in: its fixtures, and the options that markers and fixtures give them."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

import income_client
from income_client import RetryPolicy, ServerError
from income_client.emulator import Order
from income_client.testing import IncomeService, JumpingClock


def test_the_markers_help_shows_what_can_be_written(pytestconfig: pytest.Config) -> None:
    """The policy in it is valid."""
    (shown,) = (
        found
        for line in pytestconfig.getini("markers")
        for found in re.findall(r"RetryPolicy\((\w+)=1\)", line)
    )
    options: dict[str, Any] = {shown: 1}
    assert RetryPolicy(**options).max_attempts == 1


class TestOptions:
    """The fixture's options come first, then those of markers, the closest last."""

    pytestmark = pytest.mark.income_service(applications=5, order="shuffled")

    @pytest.fixture
    def income_service_options(self) -> Mapping[str, Any]:
        """What the whole class begins with."""
        return {"applications": 9, "seed": 3}

    @pytest.mark.income_service(applications=2)
    def test_the_closest_marker_counts(self, income_service: IncomeService) -> None:
        """The order is the class's, the seed the fixture's."""
        assert len(income_service.ids) == 2
        assert income_service.rules.order is Order.SHUFFLED
        assert "secret-3" in income_service.oauth2.client_secret.reveal()


@pytest.mark.income_client(retry=RetryPolicy(max_attempts=1))
@pytest.mark.income_service(faults="get_application: 503")
async def test_the_client_has_options_too(
    income_service: IncomeService,
    income_api: income_client.IncomeClient,
    income_clock: JumpingClock,
    request: pytest.FixtureRequest,
) -> None:
    """And two names, of which one leaves the package's own name alone in a module."""
    assert request.getfixturevalue("income_client") is income_api
    with pytest.raises(ServerError, match="503"):
        await income_api.get_application(income_service.ids[0])
    assert income_service.requests.count("get_application") == 1
    assert income_clock.slept == []


async def test_client_and_service_have_one_clock(
    income_service: IncomeService, income_clock: JumpingClock
) -> None:
    """What moves the one moves the other."""
    before = income_service.now
    income_clock.advance(60)
    assert (income_service.now - before).total_seconds() == 60
    income_service.advance(30)
    assert (income_service.now - before).total_seconds() == 90
