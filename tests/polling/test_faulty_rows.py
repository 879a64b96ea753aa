"""Good rows of a page survive bad ones, and no error shows the content of a bad row."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.errors import DecodeError, IncomeClientError, ServerError
from income_client.http.endpoints import Response, list_applications
from income_client.http.replies import read_reply
from income_client.polling.reading import ids_on, nameless_on, read_page
from income_client.records.applications import ApplicationPage
from tests.support.clients import outcome_of
from tests.support.payloads import BOUNDS, row_of_list, text_of
from tests.support.strategies import pages

ASKED = list_applications()
CANARY = "c4n4ry"
GOOD = row_of_list()
DEEP: Any = CANARY
for _ in range(150):
    DEEP = [DEEP]
FAULTS: list[dict[str, Any]] = [
    *({"application_reference_id": value} for value in (7, None, [CANARY])),
    *({"application_date": value} for value in (CANARY, "2024-02-30T00:00:00", None)),
    {"new": DEEP},
]
NAMELESS: list[Any] = [GOOD | {"application_id": value} for value in (None, 7, [CANARY])]


def reply(body: Any, status: int = 200) -> Response:
    data = body if isinstance(body, bytes) else text_of(body)
    return Response(status=status, headers={"content-type": "application/json"}, body=data)


def page_of(body: Any) -> ApplicationPage:
    return read_page(ASKED, reply(body))


def error_of(body: Any, status: int = 200) -> IncomeClientError:
    """Read an error, which shows nothing of the page."""
    error = outcome_of(read_page, ASKED, reply(body, status))
    assert isinstance(error, IncomeClientError)
    assert CANARY not in repr(error) + str(error) + repr(error.__dict__)
    assert error.__cause__ is error.__context__ is None
    assert error.__traceback__ is None
    return error


@given(pages())
def test_a_page_of_the_contract_is_read_as_ever(payload: dict[str, Any]) -> None:
    """The ids alone are read of a page only if a row is not what the contract says."""
    response = reply(payload)
    assert read_page(ASKED, response) == read_reply(ApplicationPage, ASKED, response)


@given(st.lists(st.none() | st.sampled_from(FAULTS), min_size=1, max_size=20))
def test_good_rows_survive_bad_ones(faults: list[dict[str, Any] | None]) -> None:
    """All are there, in order and whole in number, also one that stands twice: a full page is."""
    rows = [GOOD | {"application_id": f"app-{n}"} | (fault or {}) for n, fault in enumerate(faults)]
    page = page_of({**BOUNDS, "applications": [*rows, rows[0]]})
    found = [row.application_id for row in page.applications]
    assert found == [f"app-{n}" for n in [*range(len(faults)), 0]]


def test_a_page_whose_own_extra_is_refused_keeps_its_rows() -> None:
    """What nobody knows on the page is no reason to wait."""
    page = page_of({**BOUNDS, "applications": [GOOD], "next": DEEP})
    assert [row.application_id for row in page.applications] == ["app-1"]
    assert page.updated_after.isoformat() == BOUNDS["updated_after"]


@pytest.mark.parametrize("row", [None, 7, CANARY, [], {}, *NAMELESS])
def test_a_row_without_an_id_hides_no_other(row: Any) -> None:
    """It counts as a row of the page, gives no id, and its error shows nothing of it."""
    page = page_of({**BOUNDS, "applications": [row, GOOD]})
    assert len(page.applications) == 2
    assert ids_on(page) == ("app-1",)
    (nameless,) = nameless_on(page)
    assert nameless.error.message.startswith("list_applications: $.applications[0]")
    assert CANARY not in repr(nameless.error) + repr(nameless.error.__dict__)


def test_a_reply_that_is_not_a_page_is_an_error() -> None:
    """JSON of another shape, or with unreadable bounds, is an error that no retry mends."""
    rows = [GOOD | {"application_date": None}]
    wrong = (None, 7, CANARY, "2024-01-01", "2024-01-01T00:00:00Z")
    bodies: list[Any] = [
        *({**BOUNDS, "applications": rows, name: value} for name in BOUNDS for value in wrong),
        *(None, [], {}, BOUNDS, {"applications": [GOOD]}),
        *({**BOUNDS, "applications": rows} for rows in (None, {"0": GOOD}, CANARY)),
    ]
    for body in bodies:
        error = error_of(body)
        assert isinstance(error, DecodeError)
        assert not error.retryable


def test_what_a_retry_may_mend_can_be_asked_for_again() -> None:
    """Nothing is salvaged from half a page, nor from one in the body of a failure."""
    for body in (b"", b'{"applications":[', b"\xff", b"[" + b"{" * 9):
        assert error_of(body).retryable
    assert isinstance(error_of({**BOUNDS, "applications": [GOOD]}, status=503), ServerError)
