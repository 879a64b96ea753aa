"""Interpret the replies of a file storage, and decide which bytes may be joined to one file.

Bytes of two replies are joined only if the second proves that it continues the same object at the
right place; in any other case the file starts over. Error bodies are XML from anywhere: they are
searched by pattern, never parsed, and only a code that looks like one is shown.
"""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from attrs import frozen

from income_client.errors import DownloadError, IncomeClientError
from income_client.http.endpoints import Response
from income_client.http.replies import facts_of
from income_client.settings import DownloadPolicy
from income_client.system.http_messages import is_encoded

_CONTENT_RANGE: Final = re.compile(
    r"bytes (?P<first>[0-9]{1,18})-(?P<last>[0-9]{1,18})/(?P<total>[0-9]{1,18})"
)
_UNSATISFIED_RANGE: Final = re.compile(r"bytes \*/(?P<total>[0-9]{1,18})")
_LENGTH: Final = re.compile(r"[0-9]{1,18}")
_STRONG_ETAG: Final = re.compile(r'"[!#-~]{1,100}"')
_CODE: Final = re.compile(r"<Code>\s*(?P<code>[A-Za-z][A-Za-z.]{0,47})\s*</Code>")
_MESSAGE: Final = re.compile(r"<Message>(?P<message>[^<]{0,1000})</Message>")
_EXPIRED_CODES: Final = frozenset({"ExpiredToken", "RequestExpired", "TokenRefreshRequired"})
_BUSY: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})
_OUTDATED: Final = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.GONE})
_RATE_SECONDS: Final = 30.0
_INTERRUPTIONS: Final = 30
_BYTES_PER_INTERRUPTION: Final = 2**20

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
WITH_FILE: Final = frozenset(
    {
        HTTPStatus.OK,
        HTTPStatus.PARTIAL_CONTENT,
        HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
    }
)
"""Statuses of replies that are about the bytes of a file."""
FIRST_BYTE: Final[Mapping[str, str]] = {"Range": "bytes=0-0"}
"""Header fields of a request for the facts of a file, without its content."""


class OutdatedError(Exception):
    """The storage refused the address, and a fresh address may help; never leaves this package."""

    def __init__(self, error: DownloadError, *, has_expired: bool) -> None:
        super().__init__()
        self.error = error
        """Error that ends the download if there is no fresh URL."""
        self.has_expired = has_expired
        """Whether the storage reported that the URL has expired."""


@frozen
class StoredFile:
    """The facts that a storage reports about a file."""

    size: int | None
    """Length of the file in bytes, None if unknown."""
    etag: str | None
    """Strong entity tag of the file, quotes included."""
    content_type: str | None
    """Media type of the file."""


def is_refusal(status: int) -> bool:
    """Return whether the body of a reply may contain the reason of a refusal."""
    return (
        HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _BUSY
    )


def failure_of_reply(
    status: int, headers: Mapping[str, str], text: str = ""
) -> DownloadError | OutdatedError:
    """Return the error for a reply without the file; ``text`` is the beginning of its body.

    Another attempt may help unless the file was refused.
    """
    code_match = _CODE.search(text)
    code = None if code_match is None else code_match["code"]
    error = DownloadError(
        f"the storage answered {status} {code}" if code else f"the storage answered {status}",
        retryable=status >= HTTPStatus.BAD_REQUEST and not is_refusal(status),
        code=code,
        **facts_of(Response(status=status, headers=headers, body=b"")),
    )
    message_match = _MESSAGE.search(text)
    message = "" if message_match is None else message_match["message"]
    if code in _EXPIRED_CODES or "expired" in message.lower():
        return OutdatedError(error, has_expired=True)
    return OutdatedError(error, has_expired=False) if status in _OUTDATED else error


def read_stored_file(status: int, headers: Mapping[str, str]) -> StoredFile:
    """Return the facts of the whole file in the reply to a request for its first byte."""
    etag, media_type = strong_etag(headers), headers.get("content-type")
    if status == HTTPStatus.OK:
        length = headers.get("content-length", "")
        return StoredFile(int(length) if _LENGTH.fullmatch(length) else None, etag, media_type)
    content_range = headers.get("content-range", "")
    is_empty = status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
    match = (_UNSATISFIED_RANGE if is_empty else _CONTENT_RANGE).fullmatch(content_range)
    if match is not None:
        return StoredFile(int(match["total"]), etag, media_type)
    if is_empty:
        # An empty file has no first byte, and not every storage reports that correctly.
        return StoredFile(None, None, None)
    raise failure_of_reply(status, headers)


def strong_etag(headers: Mapping[str, str]) -> str | None:
    """Return the entity tag if it is strong, so that equal tags mean equal bytes; else None."""
    etag = headers.get("etag", "")
    return etag if _STRONG_ETAG.fullmatch(etag) else None


class Transfer:
    """The state of one file's transfer, over any number of connections.

    Until the file is whole, a request is made (`next_request`), the head of its reply taken in
    (`begin_body`), the bytes counted (`count_bytes`), and then how the reply ended: `end_body` or
    `break_off`, which raise where another request must not follow at once.

    At most 30 connections that made progress are followed by another one at once, and one more
    for each MiB. Attempts without progress are counted by the caller's retry policy.
    """

    def __init__(self, policy: DownloadPolicy) -> None:
        self._policy = policy
        self.is_whole: bool = False
        self.received: int = 0
        self.etag: str | None = None
        self.total: int | None = None
        self.content_type: str | None = None
        self._asked_from = 0
        self._body_end: int | None = None
        self._furthest = 0
        self._interruptions = 0
        self._measured_since = 0.0
        self._measured_bytes = 0
        self._is_slow = False

    def start_over(self) -> None:
        """Forget all received bytes."""
        self.received, self.etag, self.total = 0, None, None

    def next_request(self) -> dict[str, str]:
        """Return the header fields of the next request: for the rest of the file, or all of it."""
        if self.etag is None or not self.received:
            self._asked_from = 0
            return {}
        self._asked_from = self.received
        return {"Range": f"bytes={self.received}-", "If-Range": self.etag}

    def begin_body(self, status: int, headers: Mapping[str, str], now: float) -> bool:
        """Process the head of a reply with one of the statuses `WITH_FILE`.

        Return whether its body begins at the first byte of the file; raise if it must not be used.
        """
        self._measured_since, self._measured_bytes, self._is_slow = now, 0, False
        if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            if self._asked_from:
                raise self._start_over_for("the storage has no such part of the file")
            raise failure_of_reply(status, headers)
        _check_usable(headers, status)
        starts_over = status == HTTPStatus.OK
        if starts_over:
            self._begin_file(headers)
        else:
            self._continue_file(headers)
        if self.total is not None and self.total > self._policy.max_bytes:
            raise self._too_long()
        self.etag = strong_etag(headers)
        # The reply with the rest of a file need not repeat its media type.
        earlier_type = None if starts_over else self.content_type
        self.content_type = headers.get("content-type", earlier_type)
        return starts_over

    def count_bytes(self, length: int, now: float) -> None:
        """Count received bytes; raise if the file is too long, or the connection too slow."""
        self.received += length
        if self.received > self._policy.max_bytes:
            raise self._too_long()
        if self._body_end is not None and self.received > self._body_end:
            raise self._start_over_for("the storage gave more than it said")
        self._measured_bytes += length
        seconds = now - self._measured_since
        if seconds >= _RATE_SECONDS:
            self._is_slow = self._measured_bytes < self._policy.minimum_rate * seconds
            self._measured_since, self._measured_bytes = now, 0
        if self._is_slow:
            raise DownloadError("the file comes too slowly", retryable=True)

    def end_body(self) -> None:
        """Process the end of a body: the file is complete, or the rest must be requested."""
        self.is_whole = self.total is None or self.received == self.total
        if not self.is_whole:
            self.break_off(
                DownloadError("the storage gave a part of the file only", retryable=True)
            )

    def break_off(self, error: IncomeClientError) -> None:
        """Process a failed request; raise its error unless it has received bytes of the file.

        It is raised too if there were too many such requests.
        """
        has_helped = error.retryable and self.received > self._furthest and not self._is_slow
        self._furthest = max(self._furthest, self.received)
        self._interruptions += has_helped
        allowed = _INTERRUPTIONS + self._furthest // _BYTES_PER_INTERRUPTION
        if not has_helped or self._interruptions > allowed:
            raise error

    def _begin_file(self, headers: Mapping[str, str]) -> None:
        media_type = headers.get("content-type", "").lower()
        if "content-range" in headers or media_type.startswith("multipart/byteranges"):
            raise DownloadError("the storage gave parts and called them all", status=200)
        length = headers.get("content-length")
        is_same = self.etag is not None and strong_etag(headers) == self.etag
        self.received = 0
        self._body_end = None if length is None else int(length)
        if length is not None or not is_same:
            # Otherwise an earlier reply gave the length of this very version.
            self.total = self._body_end

    def _continue_file(self, headers: Mapping[str, str]) -> None:
        if not self._asked_from:
            raise DownloadError(
                "the storage sent a part where the whole file was requested", status=206
            )
        first, end, total = _read_content_range(headers) or (0, 0, 0)
        if first != self._asked_from:
            raise self._start_over_for("the storage gave another part of the file")
        if headers.get("etag") != self.etag or self.total not in (None, total):
            raise self._start_over_for("the file has changed")
        self.total, self._body_end = total, end

    def _start_over_for(self, reason: str) -> DownloadError:
        self.start_over()
        return DownloadError(f"{reason}; it starts over", retryable=True)

    def _too_long(self) -> DownloadError:
        return DownloadError(f"the file is longer than {self._policy.max_bytes} bytes")


def _check_usable(headers: Mapping[str, str], status: int) -> None:
    """Raise for a body that may not be the file's bytes, or whose end cannot be verified."""
    if is_encoded(headers.get("content-encoding", "")):
        raise DownloadError(
            "the storage encoded the file although it was asked not to", status=status
        )
    # Without blanks of any other kind: aiohttp knows only these, and would read to a cut.
    coding = headers.get("transfer-encoding", "").strip(" \t").lower()
    # Chunks need no length, and a wrong one is wrong beside them as well.
    length = headers.get("content-length", "0" if coding else "")
    if coding not in ("", "chunked") or _LENGTH.fullmatch(length) is None:
        raise DownloadError("the storage does not say where the file ends", status=status)


def _read_content_range(headers: Mapping[str, str]) -> tuple[int, int, int] | None:
    """Return first byte, end and total of a 206; None if it is absent or contradicts itself."""
    match = _CONTENT_RANGE.fullmatch(headers.get("content-range", ""))
    if match is None:
        return None
    first, end, total = int(match["first"]), int(match["last"]) + 1, int(match["total"])
    length = headers.get("content-length", str(end - first))
    is_sane = first < end <= total and length == str(end - first)
    return (first, end, total) if is_sane else None
