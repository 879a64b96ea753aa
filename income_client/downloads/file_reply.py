"""A reply whose body is a file, read piece by piece; opens no connection.

Nothing of aiohttp leaves it, and failures are values, as in `file_transport`.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Final, TypeAlias, cast

import aiohttp
from attrs import field, frozen

from income_client.errors import ClientClosedError, IncomeClientError
from income_client.http.transport import FAILURES, ConnectionFault, fault_of

_SINGLE_FIELDS: Final = frozenset(
    {
        "content-encoding",
        "content-length",
        "content-range",
        "etag",
        "location",
        "transfer-encoding",
    }
)

Outcome: TypeAlias = "FileReply | IncomeClientError"
"""A reply, or the error that stands for having none."""


class FileRequest:
    """A request for a file, as a context manager; made by `FilePool.get`."""

    def __init__(self, send: Callable[[], Coroutine[None, None, Outcome]]) -> None:
        self._send = send
        self._reply: FileReply | None = None

    async def __aenter__(self) -> Outcome:
        try:
            outcome = await self._send()
        except asyncio.CancelledError as cancelled:
            # The frames it came through hold the address.
            raise cancelled.with_traceback(None) from None
        if isinstance(outcome, FileReply):
            self._reply = outcome
        return outcome

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._reply is not None:
            self._reply.leave()


class FileReply:
    """The reply to a request for a file, its body still to be read.

    Attributes:
        status: HTTP status.
        headers: header fields; names in lower case.
    """

    def __init__(
        self,
        reply: aiohttp.ClientResponse,
        headers: Mapping[str, str],
        opened: "OpenReplies",
        seconds: float,
    ) -> None:
        self._reply = reply
        self._opened = opened
        self._seconds = seconds
        self.status: int = reply.status
        self.headers = headers

    def __repr__(self) -> str:
        return f"<FileReply {self.status}>"

    @property
    def is_delimited(self) -> bool:
        """Whether the end of the body can be told from a cut."""
        # Without blanks of any other kind: aiohttp knows only these, and would read to a cut.
        coding = self.headers.get("transfer-encoding", "").strip(" \t").lower()
        return coding == "chunked" if coding else "content-length" in self.headers

    async def read(self) -> bytes | IncomeClientError:
        """Return the next bytes as they were received, none at the end of the body.

        What came before a cut is given out before the error is.

        Returns:
            At most some hundred KiB, or the error that ended the body early.
            Raises only cancellation, and bugs.
        """
        content = self._reply.content
        fault: ConnectionFault | None = None
        try:
            # What is no content, such as a chunk's extension, counts as nothing.
            async with asyncio.timeout(self._seconds):
                piece = await content.readany()
                while not piece and not content.at_eof():
                    piece = await content.readany()
        except FAILURES as error:
            fault = fault_of(error)
            piece = _left_in(content)
        if piece or fault is None:
            return piece
        return self._opened.refusal() or fault.download_error()

    async def error_text(self, limit: int = 64 * 1024, seconds: float = 1.0) -> str:
        """Return the beginning of an error's body, as far as it comes.

        Args:
            limit: longest text, in bytes.
            seconds: how long to wait for it.
        """
        start = bytearray()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while len(start) < limit:
                    piece = await self.read()
                    if not piece or isinstance(piece, IncomeClientError):
                        break
                    start += piece
        return start[:limit].decode(errors="replace")

    def leave(self) -> None:
        """Give the connection back if the body was read to its end, else close it."""
        self._opened.replies.discard(self)
        if self._reply.content.at_eof():
            self._reply.release()
        else:
            self._reply.close()


def _left_in(content: aiohttp.StreamReader) -> bytes:
    """Take what a broken connection had brought and nobody has read; it may be much."""
    error = content.exception()
    if error is None:
        return b""
    # A stream that has an exception gives nothing else; they are the file's bytes all the same.
    content.set_exception(cast("BaseException", None))
    try:
        return content.read_nowait()
    finally:
        content.set_exception(error)


@frozen
class OpenReplies:
    """The replies of one pool whose connections are in use.

    aiohttp forgets who waits for a body when its session is closed, and drops
    the time limit as well, so they are ended by hand.
    """

    refusal: Callable[[], ClientClosedError | None]
    """What stands against requests from now on, if anything does."""
    replies: set[FileReply] = field(factory=set)
    """Those that were not left yet."""

    def close(self) -> None:
        """End whoever waits for a body."""
        for reply in tuple(self.replies):
            reply.leave()


def received(reply: aiohttp.ClientResponse, opened: OpenReplies, *, seconds: float) -> Outcome:
    """Return what a reply of aiohttp says, or the error if it contradicts itself.

    Args:
        reply: the reply, its body unread.
        opened: where it is kept as long as it is in use.
        seconds: longest time between two pieces of its body.
    """
    headers: dict[str, str] = {}
    for spelling, value in reply.headers.items():
        name = spelling.lower()
        if name in headers and name in _SINGLE_FIELDS:
            reply.close()
            return ConnectionFault(f"the header field {name} came twice").download_error()
        headers[name] = value
    found = FileReply(reply, headers, opened, seconds)
    opened.replies.add(found)
    return found
