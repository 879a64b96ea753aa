"""Asynchronous tests that anyio runs."""

from decimal import Decimal

import pytest

from income_client import IncomeClient
from income_client.testing import IncomeService

from .decisions import decide

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """The client is asyncio's."""
    return "asyncio"


async def test_a_good_income_is_enough(
    income_service: IncomeService, income_client: IncomeClient
) -> None:
    """Client and service of the plug-in run in anyio's loop."""
    assert await decide(income_client, income_service.ids[0], Decimal(1)) == "granted"
