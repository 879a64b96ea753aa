"""A service and its file host in one, which counts every byte and stops when it is told to.

While it stands still, what was given stays what it is, however long a kill takes.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Iterable
from typing import Final, Self

from attrs import define

from tests.support.files import Paper, paper_service
from tests.support.scripted_server import Answer, ScriptedServer, Seen, reply, serving

_PIECE_BYTES: Final = 32 * 1024
_FILES: Final = "/files/"


@define
class Given:
    """One reply with bytes of a file."""

    document_id: str
    """Whose."""
    life: int
    """How many lives of the client were over."""
    first: int
    """Place of the first byte that was asked for."""
    until: int
    """Place behind the last one."""
    sent: int = 0
    """How many were sent of them."""


class FileHost:
    """What it has given, and when it stops.

    Attributes:
        given: replies with bytes of files, in order.
        reached: set once the bytes were given after which it was to stop.
        life: how many lives of its clients are over.
    """

    _server: ScriptedServer

    def __init__(self, papers: Iterable[Paper]) -> None:
        self.given: list[Given] = []
        self.reached = asyncio.Event()
        self.life = 0
        self._papers = {paper.document_id: paper for paper in papers}
        self._left: int | None = None
        self._is_open = asyncio.Event()
        self._is_open.set()

    @property
    def url(self) -> str:
        """Its address."""
        return self._server.url

    @property
    def sent(self) -> int:
        """Bytes of files that it has given."""
        return sum(one.sent for one in self.given)

    def size_of(self, document_id: str) -> int:
        """Return how long a file is, in bytes."""
        return len(self._papers[document_id].content)

    def stop_after(self, count: int) -> None:
        """Stand still once so many more bytes were given."""
        self._left = count
        self.reached.clear()

    def stop(self) -> None:
        """Stand still."""
        self._is_open.clear()
        self.reached.set()

    def go_on(self) -> None:
        """Forget who was there before, and give to who comes."""
        self.life += 1
        self._left = None
        self._is_open.set()

    @classmethod
    @contextlib.asynccontextmanager
    async def opened(cls, papers: Iterable[Paper]) -> AsyncIterator[Self]:
        """Run one with these papers."""
        host = cls(papers)
        service = paper_service(host._papers.values(), host._address, lambda _: None)
        async with serving(host._beside(service)) as host._server:
            yield host

    def _address(self, paper: Paper) -> str:
        return f"{self.url}{_FILES}{paper.document_id}?X-Signature=invented"

    def _beside(self, service: Answer) -> Answer:
        async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bytes | None:
            if not seen.path.startswith(_FILES):
                return await service(seen, writer)
            if seen.headers["user-agent"] != f"life/{self.life}":
                return None  # who asked was killed meanwhile
            return await self._give(self._papers[seen.path.removeprefix(_FILES)], seen, writer)

        return answer

    async def _give(self, paper: Paper, seen: Seen, writer: asyncio.StreamWriter) -> bytes | None:
        size, etag = len(paper.content), f'"{hashlib.md5(paper.content).hexdigest()}"'
        asked = seen.headers.get("range") if seen.headers.get("if-range", etag) == etag else None
        first, _, last = (asked or "bytes=0-").removeprefix("bytes=").partition("-")
        if asked is not None and int(first) >= size:
            return reply(416, b"", ETag=etag, Content_Range=f"bytes */{size}")
        one = Given(
            paper.document_id, self.life, int(first), min(size, int(last) + 1) if last else size
        )
        lines = [f"Content-Length: {one.until - one.first}", f"ETag: {etag}"]
        if asked is not None:
            lines.append(f"Content-Range: bytes {first}-{one.until - 1}/{size}")
        status = "200 OK" if asked is None else "206 Partial Content"
        writer.write("\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode())
        self.given.append(one)
        return await self._sent(one, paper.content, writer)

    async def _sent(self, one: Given, content: bytes, writer: asyncio.StreamWriter) -> bytes | None:
        while (place := one.first + one.sent) < one.until:
            await self._is_open.wait()
            if one.life != self.life:
                return None  # as above
            most = _PIECE_BYTES if self._left is None else min(_PIECE_BYTES, self._left)
            piece = content[place : min(place + most, one.until)]
            writer.write(piece)
            one.sent += len(piece)
            if self._left is not None:
                self._left -= len(piece)
                if not self._left:
                    self.stop()
            await writer.drain()
        return b""
