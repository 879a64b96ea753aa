"""A storage on a raw socket that says of itself what a test wants: tags, types, lengths, places."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from attrs import define, evolve, field

from income_client import Document, DownloadPolicy
from tests.support.downloads import Scene, scene
from tests.support.scripted_server import Seen, forever, serving

POLICY: Final = DownloadPolicy(
    allowed_hosts=("127.0.0.1",), require_https=False, allow_private_networks=True
)


@define
class Storage:
    """Objects by path, all with the entity tag ``"1"`` unless said otherwise."""

    objects: dict[str, bytes]
    """What there is."""
    etag: str = '"1"'
    """The tag of each."""
    content_type: str = "text/csv"
    """The type of each; not told again with a part."""
    stops_at: Mapping[str, int] = field(factory=dict)
    """Bytes after which the first whole reply for a path stands still."""
    asked: list[tuple[str, str | None]] = field(factory=list)
    """Path and Range of each request."""
    url: str = ""
    """Where it is."""

    async def answer(self, seen: Seen, writer: asyncio.StreamWriter) -> bytes:
        """Answer a request."""
        content, wanted = self.objects[seen.path], seen.headers.get("range")
        self.asked.append((seen.path, wanted))
        if wanted is not None and seen.headers.get("if-range", self.etag) == self.etag:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            part = content[int(first) : int(last) + 1 if last else None]
            until = int(first) + len(part) - 1
            place = f"Content-Range: bytes {first}-{until}/{len(content)}"
            told = [] if "if-range" in seen.headers else [f"Content-Type: {self.content_type}"]
            return self._reply("206 Part", [place, *told], part)
        whole = self._reply("200 OK", [f"Content-Type: {self.content_type}"], content)
        stop = self.stops_at.get(seen.path)
        if stop is not None and self.asked.count((seen.path, None)) == 1:
            writer.write(whole[: len(whole) - len(content) + stop])
            await writer.drain()
            await forever()
        return whole

    def _reply(self, status: str, fields: list[str], body: bytes) -> bytes:
        lines = [f"HTTP/1.1 {status}", f"ETag: {self.etag}", f"Content-Length: {len(body)}"]
        return "\r\n".join([*lines, *fields, "", ""]).encode() + body

    def at(self, document: Document, path: str) -> Document:
        """Return the document with an address here."""
        return evolve(document, url=f"{self.url}{path}")


@asynccontextmanager
async def storing(
    objects: dict[str, bytes], **settings: Any
) -> AsyncIterator[tuple[Scene, Storage]]:
    """Play a service, and a storage beside it that the client may use."""
    storage = Storage(objects, **settings)
    async with scene(downloads=POLICY) as play, serving(storage.answer) as server:
        storage.url = server.url
        yield play, storage
