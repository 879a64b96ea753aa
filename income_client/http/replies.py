"""Read replies: make a record of one, or the error that says best what to do next.

Shows nothing of a body, and of the header only what a support desk can use: an id, a pause, a media
type.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from typing import Any, Final, TypedDict, TypeVar

from income_client.errors import (
    AuthenticationError,
    DecodeError,
    IncomeClientError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitedError,
    ResponseError,
    ServerError,
    UnexpectedResponseError,
    name_call,
)
from income_client.records.applications import ApplicationPage
from income_client.system.texts import printable
from income_client.wire.codec import decode, decode_untyped
from income_client.wire.rows import MalformedRow, decode_rows

from .endpoints import Request, Response

T = TypeVar("T")

_OK: Final = HTTPStatus.OK.value
_BY_STATUS: Final[Mapping[int, type[ResponseError]]] = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    429: RateLimitedError,
}
_BY_HUNDRED: Final[Mapping[int, type[ResponseError]]] = {4: InvalidRequestError, 5: ServerError}
_PHRASES: Final[Mapping[int, str]] = {status.value: status.phrase for status in HTTPStatus}

_REQUEST_ID_FIELDS: Final = (
    "x-request-id",
    "x-amzn-requestid",
    "x-amzn-trace-id",
    "request-id",
    "x-correlation-id",
    "x-amz-request-id",
)
_REQUEST_ID: Final = re.compile(r"[!-~]{1,128}")
_SECONDS: Final = re.compile(r"[0-9]{1,64}(\.[0-9]{1,9})?")
_LONGEST_DATE: Final = 64
_PLAUSIBLE_YEARS: Final = range(1971, 9991)
_DECODED: Final = frozenset({"", "identity", "gzip", "deflate", "br", "zstd"})
_MEDIA_TYPE: Final = re.compile(r"[a-z]{1,32}/[a-z0-9.+-]{1,64}")


def read_reply(
    cls: type[T],
    request: Request,
    response: Response,
    on_tree: Callable[[Any], None] | None = None,
) -> T:
    """Read a reply of the API (contract sections 2 and 7).

    One about another application is an error: one borrower's income in the place of another's
    is worse than no reply.
    """
    payload = _decoded(request, response, partial(decode, cls, on_tree=on_tree))
    if request.subject is not None and getattr(payload, "application_id", None) != request.subject:
        # It may be the answer to another request; the next one goes over another connection.
        raise _unexpected_reply(request, response, "the reply is about another application")
    return payload


def read_json(request: Request, response: Response) -> Any:
    """Read a reply that has no record, as `decode_untyped` does."""
    return _decoded(request, response, decode_untyped)


def _decoded(request: Request, response: Response, read: Callable[[bytes], T]) -> T:
    if response.status != _OK:
        raise failure_of(request, response)
    try:
        return read(response.body)
    except DecodeError as error:
        raise _decoding_error(request, response, error) from None


def read_rows(request: Request, response: Response, *, keep_extra: bool = True) -> ApplicationPage:
    """Read a page of the list, with a `MalformedRow` in place of each row that cannot be read.

    ``keep_extra`` is as for `decode_rows`. A page that is malformed itself is an error.
    """
    try:
        return read_reply(ApplicationPage, request, response)
    except IncomeClientError:
        page = None
        if response.status == _OK:
            page = decode_rows(response.body, keep_extra=keep_extra)
        if page is None:
            raise
    for row in page.applications:
        if isinstance(row, MalformedRow):
            _decoding_error(request, response, row.error)
    return page


def read_found(reference: str, request: Request, response: Response) -> ApplicationPage:
    """Parse the reply to a search by reference, as `read_reply` does.

    A list of other applications, or of several with that reference, is an error: it
    is neither an application found nor proof that there is none.
    """
    page = read_reply(ApplicationPage, request, response)
    ids = {
        row.application_id for row in page.applications if row.application_reference_id == reference
    }
    if page.applications and len(ids) != 1:
        several = f"{len(ids)} applications have this reference"
        raise _unexpected_reply(request, response, several if ids else "no row has this reference")
    return page


def failure_of(request: Request, response: Response) -> ResponseError:
    """Return the error of a status that is not 200."""
    status = response.status
    cls = _BY_STATUS.get(status) or _BY_HUNDRED.get(status // 100, UnexpectedResponseError)
    phrase = _PHRASES.get(status)
    message = f"{status} {phrase}" if phrase else str(status)
    if status == HTTPStatus.NOT_FOUND and request.subject is None:
        # No application was asked for that could be missing.
        message += f"; is {request.place} right?"
    retryable = True if status == HTTPStatus.REQUEST_TIMEOUT else None
    return cls(message, retryable=retryable, **call_of(request), **facts_of(response))


def _decoding_error(
    request: Request, response: Response, error: DecodeError
) -> DecodeError | UnexpectedResponseError:
    if error.retryable and (not _is_json(media_type(response)) or _is_encoded(response)):
        return _unexpected_reply(request, response, f"{content_of(response)} instead of JSON")
    name_call(error, request.name, request.subject or error.subject)
    error.status = response.status
    error.request_id = request_id(response)
    error.body = response.kept
    return error


def _unexpected_reply(request: Request, response: Response, fault: str) -> UnexpectedResponseError:
    return UnexpectedResponseError(fault, retryable=True, **call_of(request), **facts_of(response))


def label(request: Request) -> str:
    """Name a call for people: ``get_application(app-1)``."""
    if request.subject is None:
        return request.name
    return printable(f"{request.name}({request.subject})")


class CallFacts(TypedDict):
    """The facts of a failed call that its error carries; see `IncomeClientError`."""

    call: str
    subject: str | None


def call_of(request: Request) -> CallFacts:
    """Return the facts of a call for its errors."""
    return CallFacts(call=request.name, subject=request.subject)


class ReplyFacts(TypedDict, total=False):
    """The facts of a reply that its error carries; see `IncomeClientError`."""

    status: int
    retry_after: float | None
    request_id: str | None
    body: bytes | None


def facts_of(response: Response) -> ReplyFacts:
    """Return the facts of a reply for its error."""
    return ReplyFacts(
        status=response.status,
        retry_after=retry_after(response),
        request_id=request_id(response),
        body=response.kept,
    )


def retry_after(response: Response) -> float | None:
    """Return the seconds that Retry-After asks a client to wait; None without a valid value.

    A date counts from the reply's own Date, since the clocks of client and service may differ.
    """
    text = response.headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    until = _http_date(text)
    now = _http_date(response.headers.get("date", ""))
    if until is None or now is None:
        return None
    seconds = (until - now).total_seconds()
    return seconds if seconds > 0 else None


def _http_date(text: str) -> datetime | None:
    if not text or len(text) > _LONGEST_DATE:
        return None
    try:
        moment = parsedate_to_datetime(text)
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def served_at(response: Response) -> datetime | None:
    """Return the time at which the service says that it answered.

    None where it says none, or one so near the ends of the calendar that to
    convert it to another zone could fail.
    """
    moment = _http_date(response.headers.get("date", ""))
    return moment if moment is not None and moment.year in _PLAUSIBLE_YEARS else None


def request_id(response: Response) -> str | None:
    """Return the service's own id of a request, None where it gives none that can be shown."""
    for name in _REQUEST_ID_FIELDS:
        text = response.headers.get(name)
        if text is not None and _REQUEST_ID.fullmatch(text):
            return text
    return None


def media_type(response: Response) -> str | None:
    """Return the media type in lower case, None where it is absent or unreadable."""
    text = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return text if _MEDIA_TYPE.fullmatch(text) else None


def _is_json(media: str | None) -> bool:
    return media is not None and (media.endswith(("/json", "+json")))


def _is_encoded(response: Response) -> bool:
    """Return whether a body is still encoded, in an encoding that was not requested."""
    return response.headers.get("content-encoding", "").strip().lower() not in _DECODED


def content_of(response: Response) -> str:
    """Describe a body without showing it: ``text/html, 512 bytes``."""
    media = media_type(response) or "content of no known type"
    if _is_encoded(response):
        media += " with a Content-Encoding that was not asked for"
    return f"{media}, {len(response.body)} bytes"
