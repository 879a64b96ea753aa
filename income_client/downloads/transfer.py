"""One file on its way: what to ask for next, and what may be joined to what came before.

Bytes of two replies are joined only if the second one proves that it goes on
with the same object at the right place; in any other case the file starts over.
Knows header fields and counts bytes; refuses to know addresses and disks.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from attrs import frozen

from income_client.errors import DownloadError, IncomeClientError
from income_client.settings import DownloadPolicy

from .storage_replies import Redirect, Refused, read_other, read_part, strong_etag, unusable

_RATE_SECONDS: Final = 30.0
_INTERRUPTIONS: Final = 30
_BYTES_PER_INTERRUPTION: Final = 2**20


@frozen
class Body:
    """The bytes that follow are the file's."""

    starts_over: bool
    """Whether they begin at its first byte, and whatever came before is void."""


@frozen
class Interrupted:
    """A connection that ended early, after it had brought the file further than ever before."""

    error: IncomeClientError
    """How it ended."""


@frozen
class Whole:
    """Every byte is there."""


class Transfer:
    """The state of one file, over as many connections as it takes.

    That is at most 30 that helped, and one more for each MiB; those in between
    that did not help are counted by whoever makes them.

    Args:
        policy: limits of size and rate.
        size: bytes that are there already.
        etag: the strong entity tag of the version that they are of.
        total: the length of that version.

    Attributes:
        received: bytes that are there.
        total: bytes that there will be; None as long as nobody said.
        etag: strong entity tag of the version on its way, None if it has none.
        content_type: media type that the storage told.
    """

    def __init__(
        self,
        policy: DownloadPolicy,
        *,
        size: int = 0,
        etag: str | None = None,
        total: int | None = None,
    ) -> None:
        self._policy = policy
        self.received: int = 0 if etag is None else size
        self.etag = etag
        self.total = total
        self.content_type: str | None = None
        self._asked_from = 0
        self._until: int | None = None
        self._furthest = self.received
        self._interruptions = 0
        self._stretch_began = 0.0
        self._stretch_bytes = 0
        self._is_slow = False

    def ask(self) -> dict[str, str]:
        """Return the header fields of the next request: for the rest of the file, or all of it."""
        if self.etag is None or not self.received:
            self._asked_from = 0
            return {}
        self._asked_from = self.received
        return {"Range": f"bytes={self.received}-", "If-Range": self.etag}

    def head(
        self, status: int, headers: Mapping[str, str], *, is_delimited: bool, now: float
    ) -> Body | Redirect | Refused | DownloadError:
        """Say what a reply is, by its status and header fields.

        Args:
            status: HTTP status.
            headers: header fields, names in lower case.
            is_delimited: whether the end of the body can be told from a cut.
            now: the moment, in seconds.
        """
        self._stretch_began, self._stretch_bytes, self._is_slow = now, 0, False
        if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and self._asked_from:
            return self._void("the storage has no such part of the file")
        if status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
            return read_other(status, headers)
        fault = unusable(headers, is_delimited=is_delimited)
        if fault is not None:
            return DownloadError(fault, status=status)
        body = self._all(headers) if status == HTTPStatus.OK else self._rest(headers)
        if isinstance(body, Body):
            self.etag = strong_etag(headers)
            # The rest of a file need not say again what the file is.
            known = None if body.starts_over else self.content_type
            self.content_type = headers.get("content-type", known)
        return body

    def piece(self, length: int, now: float) -> DownloadError | None:
        """Count bytes that came; return what speaks against going on.

        Args:
            length: how many.
            now: the moment, in seconds.
        """
        self.received += length
        if self.received > self._policy.max_bytes:
            return self._too_long()
        if self._until is not None and self.received > self._until:
            return self._void("the storage gave more than it said")
        self._stretch_bytes += length
        seconds = now - self._stretch_began
        if seconds >= _RATE_SECONDS:
            self._is_slow = self._stretch_bytes < self._policy.minimum_rate * seconds
            self._stretch_began, self._stretch_bytes = now, 0
        return DownloadError("the file comes too slowly", retryable=True) if self._is_slow else None

    def ended(self, error: IncomeClientError | None) -> Whole | Interrupted | IncomeClientError:
        """Say what a connection leaves behind, and whether it helped.

        Args:
            error: how it ended; None if its body came to the end.
        """
        has_helped = self.received > self._furthest and not self._is_slow
        self._furthest = max(self._furthest, self.received)
        if error is None:
            if self.total is None or self.received == self.total:
                return Whole()
            error = DownloadError("the storage gave a part of the file only", retryable=True)
        if not has_helped or not error.retryable:
            return error
        self._interruptions += 1
        allowed = _INTERRUPTIONS + self._furthest // _BYTES_PER_INTERRUPTION
        return Interrupted(error) if self._interruptions <= allowed else error

    def _all(self, headers: Mapping[str, str]) -> Body | DownloadError:
        media_type = headers.get("content-type", "").lower()
        if "content-range" in headers or media_type.startswith("multipart/byteranges"):
            return DownloadError("the storage gave parts and called them all", status=200)
        length = headers.get("content-length")
        is_same = self.etag is not None and strong_etag(headers) == self.etag
        self.received = 0
        self._until = None if length is None else int(length)
        if length is not None or not is_same:
            # Otherwise an earlier reply has told the length of this very version.
            self.total = self._until
        if self.total is not None and self.total > self._policy.max_bytes:
            return self._too_long()
        return Body(starts_over=True)

    def _rest(self, headers: Mapping[str, str]) -> Body | DownloadError:
        if not self._asked_from:
            return DownloadError("the storage gave a part where all was asked for", status=206)
        part = read_part(headers)
        if part is None or part.first != self._asked_from:
            return self._void("the storage gave another part of the file")
        if headers.get("etag") != self.etag or self.total not in (None, part.total):
            return self._void("the file has changed")
        self.total, self._until = part.total, part.until
        if self.total > self._policy.max_bytes:
            return self._too_long()
        return Body(starts_over=False)

    def forget(self) -> None:
        """Start over, whatever came."""
        self.received, self.etag, self.total = 0, None, None

    def _void(self, reason: str) -> DownloadError:
        self.forget()
        return DownloadError(f"{reason}; it starts over", retryable=True)

    def _too_long(self) -> DownloadError:
        return DownloadError(f"the file is longer than {self._policy.max_bytes} bytes")
