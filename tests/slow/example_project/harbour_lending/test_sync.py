"""Tests that are not asynchronous; they need no plug-in but the test kit's."""

import asyncio
from collections.abc import Mapping
from decimal import Decimal

import pytest

from income_client import IncomeClient
from income_client.testing import IncomeService, LoopRunner, make_record

from .decisions import decide


def test_one_question_is_enough(
    income_service: IncomeService, income_client: IncomeClient, income_run: LoopRunner
) -> None:
    """A suspected pay slip is looked into, without its documents."""
    record = income_service.add(make_record(applicants=2, suspected=1))
    assert income_run(decide(income_client, record.application_id, Decimal(1))) == "looked into"
    assert income_service.requests.count("get_application") == 1
    assert income_service.requests.count("get_documents") == 0


@pytest.mark.income_service(applications=7)
def test_a_walk_is_a_list(income_client: IncomeClient, income_run: LoopRunner) -> None:
    """An asynchronous iterator of the client becomes a list."""
    assert len(income_run(income_client.list_applications())) == 7


def test_a_whole_program_runs(
    income_service: IncomeService, income_environment: Mapping[str, str]
) -> None:
    """With a client and a loop of its own, as a scheduler starts it."""

    async def main() -> str:
        async with IncomeClient.from_env() as client:
            return await decide(client, income_service.ids[0], Decimal(1))

    assert "INCOME_BASE_URL" in income_environment
    assert asyncio.run(main()) == "granted"
