"""The fixture for a client, by a name that leaves the package's own name alone."""

import pytest

import income_client
from income_client.testing import IncomeService

RetryPolicy = income_client.RetryPolicy


async def test_the_package_can_be_used_beside_the_fixture(
    income_service: IncomeService, income_api: income_client.IncomeClient
) -> None:
    """A test that asks for a client still sees the package that it has imported."""
    assert isinstance(income_api, income_client.IncomeClient)
    record = await income_api.get_application(income_service.ids[0])
    assert isinstance(record, income_client.Application)


@pytest.mark.income_client(retry=RetryPolicy(max_attempts=1))
@pytest.mark.income_service(faults="get_application: 503")
async def test_the_marker_gives_its_options(
    income_service: IncomeService, income_api: income_client.IncomeClient
) -> None:
    """It is about the client, whatever the fixture is called."""
    with pytest.raises(income_client.ServerError):
        await income_api.get_application(income_service.ids[0])
    assert income_service.requests.count("get_application") == 1


def test_both_names_mean_one_client(income_api: object, request: pytest.FixtureRequest) -> None:
    """A test may come by the client under either, as fixtures of a project's own may."""
    assert request.getfixturevalue("income_client") is income_api
