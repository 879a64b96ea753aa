"""What was asked, as tests look at it."""

import pytest

from income_client import ConfigurationError, IncomeClient
from income_client.emulator import RecordedRequest
from income_client.testing import IncomeService, Requests, make_record


@pytest.mark.income_service(applications=0, faults="get_application: 500")
async def test_requests_are_told_apart(
    income_service: IncomeService, income_client: IncomeClient
) -> None:
    """By call, by application, and by what came of them."""
    one, other = (income_service.add(make_record()).application_id for _ in range(2))
    await income_client.get_application(one)
    await income_client.get_documents(other)
    requests = income_service.requests
    assert [each.name for each in requests] == [
        *("token", "get_application", "get_application", "get_documents"),
    ]
    assert requests.count("get_application", one) == 2
    assert requests.count("get_application", other) == 0
    assert len(requests.of("get_documents", other)) == 1
    assert [each.status for each in requests.failed] == [500]
    assert requests[-1].authorized
    assert isinstance(requests[1:], Requests)
    assert repr(requests[:2]) == "<2 requests: token 200, get_application 500>"


async def test_a_signed_address_is_not_shown(
    income_service: IncomeService, income_client: IncomeClient, tmp_path: object
) -> None:
    """Neither by the repr nor by the table; bounds of a walk are."""
    [row async for row in income_client.list_applications(updated_after="2026-06-30")]
    documents = await income_client.get_documents(income_service.ids[0])
    (entry, *_) = documents.all()
    await income_client.download(entry.document, f"{tmp_path}/slip")
    requests = income_service.requests
    shown = repr(requests) + requests.table()
    assert requests.count("file") == 1
    assert "updated_after=2026-06-30" in shown
    assert "Signature" not in shown


def test_a_long_table_has_the_latest() -> None:
    """And says how many are left out."""
    one = RecordedRequest(
        name="token",
        method="POST",
        path="/token",
        query="",
        headers={},
        authorized=True,
        status=200,
        fault=None,
        time=0,
    )
    lines = Requests([one] * 60).table().splitlines()
    assert lines[0] == "(20 earlier ones)"
    assert lines[-1] == "  60  200  POST /token"
    assert Requests().table() == "nothing was asked"


def test_an_unknown_call_is_refused(income_service: IncomeService) -> None:
    """A count of what does not exist is no 0."""
    with pytest.raises(ConfigurationError, match="did you mean get_application"):
        income_service.requests.count("get_aplication")
