"""Replies become records or the error that says best what to do."""

import json
from datetime import timedelta, timezone
from itertools import product
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.errors import (
    AuthenticationError,
    DecodeError,
    IncomeClientError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitedError,
    ServerError,
    UnexpectedResponseError,
)
from income_client.http.endpoints import Response, get_application, list_applications, token_request
from income_client.http.replies import failure_of, read_reply, request_id, retry_after, served_at
from income_client.records.applications import ApplicationSummary
from income_client.wire.times import Rounding, service_second
from tests.support.clients import outcome_of
from tests.support.payloads import row_of_list

ASKED = get_application("app-1")
DATE = "Tue, 30 Jun 2026 12:00:00 GMT"
SUMMARY = json.dumps(row_of_list()).encode()


def answered(status: int = 200, body: bytes = b"", **headers: str) -> Response:
    """Return a reply; underscores in field names stand for dashes."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status=status, headers=fields, body=body)


def read(response: Response) -> ApplicationSummary | IncomeClientError:
    """Read a reply as one summary, or return the error that it stands for."""
    return outcome_of(read_reply, ApplicationSummary, ASKED, response)


STATUSES: Final[dict[tuple[type[IncomeClientError], bool], tuple[int, ...]]] = {
    (InvalidRequestError, False): (400, 418, 422, 499),
    (InvalidRequestError, True): (408,),
    (AuthenticationError, False): (401,),
    (PermissionDeniedError, False): (403,),
    (NotFoundError, False): (404,),
    (RateLimitedError, True): (429,),
    (ServerError, True): (500, 502, 503, 504, 599),
    (UnexpectedResponseError, False): (101, 201, 204, 302, 304, 307, 600, 999),
}


@pytest.mark.parametrize("kind", STATUSES)
def test_each_status_is_one_error(kind: tuple[type[IncomeClientError], bool]) -> None:
    """The class says what to do, and whether to try again."""
    for status in STATUSES[kind]:
        error = read(answered(status, b'{"ssn": "S3CRET"}', x_request_id="r-1"))
        assert isinstance(error, IncomeClientError)
        assert (type(error), error.retryable) == kind, status
        assert (error.status, error.request_id) == (status, "r-1")
        assert "S3CRET" not in repr(error) + str(error)


def test_a_message_names_the_call_and_the_status() -> None:
    """A 404 for what names no application is about where the request went."""
    assert str(failure_of(ASKED, answered(404))) == "get_application(app-1): 404 Not Found"
    assert str(failure_of(list_applications(), answered(999))) == "list_applications: 999"
    listed, token = (
        failure_of(one, answered(404)) for one in (list_applications(), token_request())
    )
    assert str(listed) == "list_applications: 404 Not Found; is base_url right?"
    assert str(token) == "token: 404 Not Found; is auth_url right?"


@pytest.mark.parametrize(
    ("date", "year"),
    [
        (DATE, 2026),
        ("Thu, 31 Dec 1970 23:59:59 GMT", None),
        ("Fri, 01 Jan 1971 00:00:00 GMT", 1971),
        ("Sun, 31 Dec 9990 23:59:59 GMT", 9990),
        ("Fri, 31 Dec 9999 23:59:59 -0500", None),
        ("Mon, 01 Jan 1000 00:00:00 +0500", None),
        ("soon", None),
        ("", None),
    ],
)
def test_a_date_of_no_time_of_ours_is_none(date: str, year: int | None) -> None:
    """Every returned time can be converted to any zone."""
    moment = served_at(answered(date=date))
    assert (moment.year if moment else None) == year


@given(
    st.builds(
        "{}, {} {} {} {}:{}:{} {}".format,
        st.sampled_from(["Mon", "", "x"]),
        st.integers(-1, 32),
        st.sampled_from(["Jan", "Dec", "x"]),
        st.integers(-1, 99_999),
        *[st.integers(-1, 99)] * 3,
        st.sampled_from(["GMT", "-0000", "x", ""])
        | st.integers(-99_999, 99_999).map("{:+05}".format),
    )
)
def test_no_date_breaks_its_reader(date: str) -> None:
    """The reader returns a second of the service's frame, or nothing."""
    moment = served_at(answered(date=date))
    if moment is not None:
        for hours in (-23, 23):
            service_second(moment, timezone(timedelta(hours=hours)), rounding=Rounding.DOWN)


def test_a_login_page_is_unexpected_and_not_shown() -> None:
    """Content that is neither JSON nor labelled so is reported by type and size only."""
    error = read(answered(200, b"<html>S3CRET</html>", content_type="text/html; charset=utf-8"))
    assert isinstance(error, UnexpectedResponseError)
    assert error.retryable
    assert error.message == "get_application(app-1): text/html, 19 bytes instead of JSON"


@pytest.mark.parametrize("content_type", ["application/json", "application/problem+json; a=b"])
def test_a_body_that_is_not_whole_json_can_be_retried(content_type: str) -> None:
    """A body that was cut short is a decoding error; whole JSON will be wrong again."""
    for body in (b"", SUMMARY[:-1], b"\xff\xfe{"):
        error = read(answered(200, body, content_type=content_type, request_id="q"))
        assert isinstance(error, DecodeError), body
        assert error.retryable, body
        assert (error.status, error.request_id) == (200, "q")
    for body, kind in product(
        (b"null", b"[]", b'{"application_id": 12}'), (content_type, "", "text/html")
    ):
        error = read(answered(200, body, content_type=kind))
        assert isinstance(error, DecodeError), (body, kind)
        assert not error.retryable, (body, kind)
        assert error.message.startswith("get_application(app-1): $")


NO_PAUSES: Final = (
    "-1", "+1", "nan", "inf", "1e3", "9" * 65, "\u0661", "Tue, 30 Jun 2026 12:00:30 GMT",
)  # fmt: skip
NO_PAUSES_AT_NOON: Final = (
    "", "soon", DATE, "Tue, 30 Jun 2026 11:59:30 GMT", "Tue, 99 Jun 2026 12:00:30 GMT",
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "date", "seconds"),
    [
        ("2", "", 2.0),
        (" 1.5 ", "", 1.5),
        ("0", "", 0.0),
        ("86400", "", 86400.0),
        ("9" * 12, "", float("9" * 12)),
        ("Tue, 30 Jun 2026 12:00:30 GMT", DATE, 30.0),
        ("Tue, 30 Jun 2026 12:00:30 -0000", DATE, 30.0),
        ("Tue, 30 Jun 2026 12:00:01 GMT", DATE, 1.0),
        *((text, "", None) for text in NO_PAUSES),
        *((text, DATE, None) for text in NO_PAUSES_AT_NOON),
    ],
)
def test_a_pause_is_read_as_seconds_or_relative_to_the_date(
    text: str, date: str, seconds: float | None
) -> None:
    """A pause that cannot be read is as good as none."""
    assert retry_after(answered(429, retry_after=text, date=date)) == seconds


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_header_breaks_the_reading_of_a_pause(text: str, date: str) -> None:
    """For any headers, the pause is a finite number or None."""
    seconds = retry_after(answered(429, retry_after=text, date=date))
    assert seconds is None or 0 <= seconds < float("inf")


def test_the_first_known_id_that_can_be_shown_is_kept() -> None:
    """An id with anything but printable ASCII, or an endless one, is passed over."""
    for name in (
        *("x-request-id", "x-amzn-requestid", "x-amzn-trace-id", "request-id"),
        *("x-correlation-id", "x-amz-request-id"),
    ):
        assert request_id(Response(status=500, headers={name: "r-1"}, body=b"")) == "r-1"
    assert request_id(answered(x_request_id="bad id", request_id="good")) == "good"
    assert request_id(answered(x_correlation_id="c", x_amzn_requestid="a")) == "a"
    assert request_id(answered(x_request_id="a" * 129, x_amzn_trace_id="\x1b[31m")) is None
    assert request_id(answered()) is None
