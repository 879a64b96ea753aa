"""Tests that are not asynchronous; they need no plug-in but the test kit's."""

from collections.abc import Mapping
from decimal import Decimal

import pytest

from income_client import IncomeClient
from income_client.testing import IncomeService, LoopRunner, make_application, make_record

from .decisions import Decision, decide
from .nightly import report


@pytest.mark.income_service(applications=0)
def test_the_report_has_every_application(
    income_service: IncomeService, income_environment: Mapping[str, str]
) -> None:
    """The whole of a program runs, as a scheduler starts it."""
    ids = {income_service.add(make_record()).application_id for _ in range(3)}
    assert set(report()) == ids


def test_a_suspected_pay_slip_is_looked_into(
    income_service: IncomeService, income_client: IncomeClient, income_run: LoopRunner
) -> None:
    """Whoever asks for whatever."""
    record = income_service.add(make_record(applicants=2, suspected=1))
    decision = income_run(decide(income_client, record.application_id, Decimal(1)))
    assert decision is Decision.LOOKED_INTO


def test_one_question_is_enough(
    income_service: IncomeService, income_client: IncomeClient, income_run: LoopRunner
) -> None:
    """Documents are not read for a decision."""
    application = income_service.add(make_application()).application
    income_run(decide(income_client, application.application_id, Decimal(1)))
    assert income_service.requests.count("get_application") == 1
    assert income_service.requests.count("get_documents") == 0


@pytest.mark.income_service(applications=7)
def test_a_walk_is_a_list(income_client: IncomeClient, income_run: LoopRunner) -> None:
    """What is iterated over asynchronously comes as a list."""
    assert len(income_run(income_client.list_applications())) == 7
