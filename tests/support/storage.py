"""A service and its file storage on one raw socket; a test decides each byte of a reply.

It tells an address with a signature for each document, and answers honestly, but for
the replies that a test puts in its place.
"""

import asyncio
import json
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from attrs import evolve, field, frozen

from income_client import (
    BasicAuth,
    Document,
    DocumentSource,
    DownloadPolicy,
    IncomeClient,
    from_json,
)
from income_client.testing import JumpingClock
from tests.support.stopping import stop

USER: Final = "invented-user"
PASSWORD: Final = "invented-password"
ENTITY: Final = '"v1"'
"""The entity tag of a file unless it has another one."""

_API: Final = "/v1/income/applications/"
_EXPIRED: Final = b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>"


@frozen
class File:
    """What is stored under a path."""

    content: bytes = field(repr=False)
    """Its bytes."""
    etag: str | None = ENTITY
    """Its entity tag, quotes included."""
    content_type: str = "application/pdf"
    """Its media type."""


@frozen
class Asked:
    """One request, as it came."""

    head: bytes = field(repr=False)
    """Its first line and its header fields."""

    @property
    def target(self) -> str:
        """Path and query."""
        return self.head.split(b" ", 2)[1].decode("ascii")

    @property
    def path(self) -> str:
        """The path."""
        return self.target.partition("?")[0]

    @property
    def headers(self) -> dict[str, str]:
        """The header fields, names in lower case."""
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        pairs = (line.partition(":") for line in lines if line)
        return {name.lower(): value.strip() for name, _, value in pairs}


@frozen(kw_only=True)
class Reply:
    """One reply, and how much of it comes."""

    status: str = "200 OK"
    """Status and reason."""
    fields: Mapping[str, str | None] = field(factory=dict)
    """Header fields; None leaves one out."""
    body: bytes = field(default=b"", repr=False)
    """The body, framed already if it is chunked."""
    cut: int | None = None
    """Bytes of the whole reply, head included, behind which the connection ends."""
    is_reset: bool = False
    """Whether it ends by RST."""
    is_held: bool = False
    """Whether it waits there instead, until the other side leaves, or all continue."""

    def __bytes__(self) -> bytes:
        lines = [f"HTTP/1.1 {self.status}"]
        lines += [f"{name}: {value}" for name, value in self.fields.items() if value is not None]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body


Trick = Callable[[Asked, Reply], Reply]
"""Makes another reply to a request for a file than the honest one."""


class Storage:
    """What there is, what was asked for, and the tricks to be played.

    Attributes:
        files: what is stored, by path.
        tricks: for the next requests for files, in order; then all replies are honest.
        asked: requests for files.
        api_asked: requests for documents.
        documents: what the service says of an application's documents, by type.
        expired: signatures that are of no use any more.
        url: where it is.
        goes_on: set to let replies that stand still come to their end.
    """

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()
        self.files: dict[str, File] = {}
        self.tricks: deque[Trick] = deque()
        self.asked: list[Asked] = []
        self.api_asked: list[Asked] = []
        self.documents: dict[str, list[dict[str, Any]]] = {}
        self.expired: set[str] = set()
        self.url = ""

    @property
    def policy(self) -> DownloadPolicy:
        """A policy that allows this storage and nothing else."""
        host = self.url.removeprefix("http://")
        return DownloadPolicy(
            allowed_hosts=(host,), require_https=False, allow_private_networks=True
        )

    def address(self, path: str, signature: str = "s1") -> str:
        """Return an address of a file."""
        return f"{self.url}{path}?X-Signature={signature}"

    def store(self, path: str, content: bytes, **settings: Any) -> Document:
        """Store a file, and return a document whose it is."""
        self.files[path] = File(content, **settings)
        return document_at(self.address(path), document_id=path.rpartition("/")[2])

    def tell(self, document_id: str, address: str, document_type: str = "unknown_form") -> None:
        """Have the service tell of a document of application ``app-1`` from now on."""
        self.documents.setdefault(document_type, []).append(_payload(document_id, address))

    def honest(self, asked: Asked) -> Reply:
        """Return what a storage answers that does as the standards say."""
        signature = asked.target.partition("X-Signature=")[2]
        file = self.files.get(asked.path)
        if file is None:
            return Reply(status="404 Not Found", fields={"Content-Length": "0"})
        if signature in self.expired:
            return self.refused()
        fields: dict[str, str | None] = {"Content-Type": file.content_type, "ETag": file.etag}
        wanted = asked.headers.get("range")
        if wanted is None or asked.headers.get("if-range", file.etag) != file.etag:
            fields["Content-Length"] = str(len(file.content))
            return Reply(fields=fields, body=file.content)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        total, start = len(file.content), int(first)
        if start >= total:
            fields |= {"Content-Range": f"bytes */{total}", "Content-Length": "0"}
            return Reply(status="416 Range Not Satisfiable", fields=fields)
        part = file.content[start : int(last) + 1 if last else None]
        until = start + len(part) - 1
        fields |= {"Content-Range": f"bytes {start}-{until}/{total}"}
        fields["Content-Length"] = str(len(part))
        return Reply(status="206 Partial Content", fields=fields, body=part)

    def refused(self) -> Reply:
        """Return what a storage answers that finds the address expired."""
        fields = {"Content-Length": str(len(_EXPIRED))}
        return Reply(status="403 Forbidden", fields=fields, body=_EXPIRED)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while True:
                asked = Asked(await reader.readuntil(b"\r\n\r\n"))
                if not await self._answer(asked, reader, writer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(
        self, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        if asked.path.startswith(_API):
            self.api_asked.append(asked)
            reply = _documents_reply(asked.path.split("/")[4], self.documents)
        else:
            self.asked.append(asked)
            reply = self.honest(asked)
            if self.tricks:
                reply = self.tricks.popleft()(asked, reply)
        writer.write(bytes(reply)[: reply.cut])
        await writer.drain()
        if reply.is_held:
            ends = [asyncio.ensure_future(each) for each in (reader.read(), self.goes_on.wait())]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                end.cancel()
        if reply.is_reset:
            option = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, option)
            writer.transport.abort()
        return reply.cut is None and reply.fields.get("Connection") != "close"


def _payload(document_id: str, address: str) -> dict[str, Any]:
    return {
        "document_id": document_id,
        "file_ids": ["file-1"],
        "file_reference_ids": ["slip.pdf"],
        "url": address,
        "extracted_data": {},
        "updated_at": "2026-01-31T10:00:00Z",
        "data_action": "create",
    }


def _documents_reply(application_id: str, documents: Mapping[str, Iterable[Any]]) -> Reply:
    payload = {
        "application_id": application_id,
        "application_reference_id": "loan-1",
        "documents": documents,
    }
    body = json.dumps(payload).encode()
    fields = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Set-Cookie": "session=of-the-service; Path=/",
    }
    return Reply(fields=fields, body=body)


def document_at(address: str, document_id: str = "doc-1") -> Document:
    """Return a document of application ``app-1`` and type ``unknown_form`` with this address."""
    document = from_json(Document, json.dumps(_payload(document_id, address)).encode())
    return evolve(document, source=DocumentSource("app-1", "unknown_form"))


@asynccontextmanager
async def serving() -> AsyncIterator[Storage]:
    """Run a service with its storage."""
    storage = Storage()
    connections: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(storage.serve(reader, writer))
        connections.add(task)
        task.add_done_callback(connections.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    storage.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield storage
    finally:
        await stop(server)
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


@asynccontextmanager
async def storing(**options: Any) -> AsyncIterator[tuple[Storage, IncomeClient]]:
    """Run a service with its storage, and a client that may use both, on a clock that jumps."""
    async with serving() as storage:
        usual: dict[str, Any] = {"downloads": storage.policy, "clock": JumpingClock()}
        auth = BasicAuth(USER, PASSWORD)
        async with IncomeClient(storage.url, auth=auth, **usual | options) as client:
            yield storage, client
