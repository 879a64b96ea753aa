# pyright: strict
"""A lender's tests with the test kit; type checkers read them, nobody runs them."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import assert_type

from income_client import (
    Applicant,
    Application,
    ApplicationRecord,
    ApplicationSummary,
    Document,
    IncomeClient,
    MemoryCheckpointStore,
    Paystub,
)
from income_client.emulator import Fault, RecordedRequest
from income_client.testing import (
    IncomeService,
    JumpingClock,
    LoopRunner,
    Requests,
    ServiceFaults,
    check_checkpoint_store,
    cut_body,
    expired_token,
    flaky,
    make_applicant,
    make_application,
    make_document,
    make_paystub,
    make_record,
    outage,
    script,
    slow,
    throttled,
)


def plays(income_service: IncomeService, income_clock: JumpingClock) -> None:
    """What the fixtures give has types."""
    assert_type(income_service.url, str)
    assert_type(income_service.environment, Mapping[str, str])
    assert_type(income_service.ids, tuple[str, ...])
    assert_type(income_service.now, datetime)
    assert_type(income_service.faults, ServiceFaults)
    income_service.faults.add("get_application: 500, ok", *outage(30), Fault("reset"))
    income_service.faults.add(throttled(5), expired_token(), cut_body(keep=3), flaky(0.1), slow())
    assert_type(script("token: 500 x2"), tuple[Fault, ...])
    income_service.advance(60)
    income_service.touch(income_service.ids[0])
    assert_type(income_clock.slept, list[float])
    requests = income_service.requests
    assert_type(requests, Requests)
    assert_type(requests[0], RecordedRequest)
    assert_type(requests.of("get_application").failed, Requests)
    assert_type(requests.table(), str)
    assert requests.count("token") == 1


def makes() -> ApplicationRecord:
    """Factories take the fields of what they make, by name."""
    borrower = make_applicant(first_name="Ada", number=3)
    assert_type(borrower, Applicant)
    slip = make_paystub(applicant=borrower, hours_worked=Decimal(80))
    assert_type(slip, Paystub)
    document = make_document("paystub", extracted_data=slip)
    assert_type(document, Document)
    application = make_application(applicants=[borrower], documents=[document], suspected=["d-1"])
    assert_type(application, Application)
    record = make_record(applicants=2, paystubs=3, suspected=1, application_id="app-1")
    assert_type(record, ApplicationRecord)
    return record


def runs(
    income_service: IncomeService, income_client: IncomeClient, income_run: LoopRunner
) -> None:
    """A test that is not asynchronous gets results and lists."""
    added = income_service.add(makes(), now=True)
    assert_type(added, ApplicationRecord)
    found = income_run(income_client.get_application(added.application_id))
    assert_type(found, Application)
    assert_type(income_run(income_client.list_applications()), list[ApplicationSummary])


async def keeps_checkpoints() -> None:
    """A store of the lender's own keeps the package's rules."""
    assert_type(await check_checkpoint_store(MemoryCheckpointStore), None)
