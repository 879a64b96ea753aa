"""What single replies of an object storage say; knows no file's history and no address.

The storage's error bodies are XML from anywhere: they are searched by pattern,
never parsed, and nothing of them is shown but a code that looks like one.
"""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from attrs import field, frozen

from income_client.errors import DownloadError
from income_client.http.endpoints import Response
from income_client.http.replies import facts_of

_PART: Final = re.compile(
    r"bytes (?P<first>[0-9]{1,18})-(?P<last>[0-9]{1,18})/(?P<total>[0-9]{1,18})"
)
_NO_PART: Final = re.compile(r"bytes \*/(?P<total>[0-9]{1,18})")
_LENGTH: Final = re.compile(r"[0-9]{1,18}")
_STRONG_ETAG: Final = re.compile(r'"[!#-~]{1,100}"')
_CODE: Final = re.compile(r"<Code>\s*(?P<code>[A-Za-z][A-Za-z.]{0,47})\s*</Code>")
_MESSAGE: Final = re.compile(r"<Message>(?P<message>[^<]{0,1000})</Message>")
_EXPIRED_CODES: Final = frozenset({"ExpiredToken", "RequestExpired", "TokenRefreshRequired"})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_BUSY: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})
_OUTDATED: Final = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.GONE})

FIRST_BYTE: Final[Mapping[str, str]] = {"Range": "bytes=0-0"}
"""Header fields of a request that is about a file and not for it."""


@frozen
class Redirect:
    """The file is somewhere else."""

    location: str | None = field(repr=False)
    """The Location field as it came."""


@frozen
class Refused:
    """The storage does not give the file; the body may say why."""

    status: int
    """HTTP status, 4xx."""


@frozen
class Outdated:
    """The address is of no use any more; a fresh one may be."""

    has_expired: bool
    """Whether the storage said so, or it is only a possibility."""
    error: DownloadError
    """What the download ends with if there is no fresh one."""


@frozen
class Part:
    """Which bytes of a file a reply holds."""

    first: int
    """Place of the first one, from 0."""
    until: int
    """Place behind the last one."""
    total: int
    """Length of the file."""


@frozen
class Told:
    """What a storage tells of a file."""

    size: int | None
    """Its length in bytes, None if it does not tell."""
    etag: str | None
    """Its strong entity tag, quotes included."""
    content_type: str | None
    """Its media type."""


def read_other(status: int, headers: Mapping[str, str]) -> Redirect | Refused | DownloadError:
    """Say what a reply without any of the file means.

    Args:
        status: HTTP status, neither 200 nor 206.
        headers: header fields, names in lower case.
    """
    if status in _REDIRECTS:
        return Redirect(headers.get("location"))
    if HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _BUSY:
        return Refused(status)
    return _failure(status, headers, retryable=status >= HTTPStatus.BAD_REQUEST)


def read_refusal(status: int, headers: Mapping[str, str], text: str) -> Outdated | DownloadError:
    """Say what a refusal means.

    Args:
        status: HTTP status, 4xx.
        headers: header fields, names in lower case.
        text: the beginning of the body.
    """
    found = _CODE.search(text)
    code = None if found is None else found["code"]
    error = _failure(status, headers, code=code)
    said = _MESSAGE.search(text)
    if code in _EXPIRED_CODES or (said is not None and "expired" in said["message"].lower()):
        return Outdated(has_expired=True, error=error)
    if status in _OUTDATED:
        return Outdated(has_expired=False, error=error)
    return error


def read_told(status: int, headers: Mapping[str, str]) -> Told | None:
    """Return what the reply to a request for the first byte tells of the whole file.

    Args:
        status: HTTP status.
        headers: header fields, names in lower case.
    """
    match status:
        case HTTPStatus.PARTIAL_CONTENT:
            told = _PART.fullmatch(headers.get("content-range", ""))
        case HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            told = _NO_PART.fullmatch(headers.get("content-range", ""))
            if told is None:
                # An empty file has no first byte, and not every storage says so well.
                return Told(None, None, None)
        case HTTPStatus.OK:
            length = headers.get("content-length", "")
            size = int(length) if _LENGTH.fullmatch(length) else None
            return Told(size, strong_etag(headers), headers.get("content-type"))
        case _:
            told = None
    if told is None:
        return None
    return Told(int(told["total"]), strong_etag(headers), headers.get("content-type"))


def read_part(headers: Mapping[str, str]) -> Part | None:
    """Return which bytes a 206 holds; None if it says none, or contradicts itself.

    Args:
        headers: header fields, names in lower case.
    """
    told = _PART.fullmatch(headers.get("content-range", ""))
    if told is None:
        return None
    part = Part(int(told["first"]), int(told["last"]) + 1, int(told["total"]))
    length = headers.get("content-length", str(part.until - part.first))
    is_sane = part.first < part.until <= part.total and length == str(part.until - part.first)
    return part if is_sane else None


def unusable(headers: Mapping[str, str], *, is_delimited: bool) -> str | None:
    """Say why a body cannot be a file's own bytes, whole for certain; None if it can.

    Args:
        headers: header fields, names in lower case.
        is_delimited: whether the end of the body can be told from a cut.
    """
    if headers.get("content-encoding", "").strip().lower() not in ("", "identity"):
        return "the storage encoded the file although it was asked not to"
    length = headers.get("content-length")
    if not is_delimited or (length is not None and _LENGTH.fullmatch(length) is None):
        return "the storage does not say where the file ends"
    return None


def strong_etag(headers: Mapping[str, str]) -> str | None:
    """Return the entity tag that vouches for each byte; None if there is no such.

    Args:
        headers: header fields, names in lower case.
    """
    etag = headers.get("etag", "")
    return etag if _STRONG_ETAG.fullmatch(etag) else None


def _failure(
    status: int, headers: Mapping[str, str], *, retryable: bool = False, code: str | None = None
) -> DownloadError:
    facts = facts_of(Response(status=status, headers=headers, body=b""))
    named = f"{status} {code}" if code else str(status)
    return DownloadError(f"the storage answered {named}", retryable=retryable, code=code, **facts)
