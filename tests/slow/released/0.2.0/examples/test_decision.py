# test_decision.py
# pip install pytest
from income_client import Application, IncomeClient
from income_client.testing import IncomeService, LoopRunner, make_record


async def is_doubted(client: IncomeClient, application_id: str) -> bool:  # code of yours
    application: Application = await client.get_application(application_id)
    found = application.income_calculations.values()
    return any(calculation.suspected_fraudulent.document_ids for calculation in found)


def test_a_suspected_pay_slip_is_seen(
    income_service: IncomeService, income_api: IncomeClient, income_run: LoopRunner
) -> None:
    record = income_service.add(make_record(applicants=2, suspected=1))
    income_service.faults.add("get_application: 500, 503 retry-after=2, ok")
    assert income_run(is_doubted(income_api, record.application_id))
    assert income_service.requests.count("get_application") == 3
    assert income_service.requests.count("get_documents") == 0
