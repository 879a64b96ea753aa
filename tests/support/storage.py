"""A service and its file storage on one scripted server.

It tells an address with a signature for each document, and answers honestly, but for
the replies that a test puts in its place.
"""

import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from attrs import define, evolve, field, frozen

from income_client import BasicAuth, Document, DownloadPolicy, IncomeClient, from_json
from income_client.records import DocumentSource
from income_client.testing import JumpingClock
from tests.support.server import Reply, Request, ScriptedServer, json_reply

USER: Final = "invented-user"
PASSWORD: Final = "invented-password"
EXPIRED: Final = Reply(
    status=403,
    body=b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>",
)
"""What a storage answers that finds an address expired."""
_API: Final = "/v1/income/applications/"


@frozen
class File:
    """What is stored under a path; quotes are part of its tag."""

    content: bytes = field(repr=False)
    etag: str | None = '"v1"'
    content_type: str = "application/pdf"


Trick = Callable[[Request, Reply], Reply]
"""Makes another reply to a request for a file than the honest one."""


@define(eq=False)
class Storage:
    """What there is, what was asked for, and the tricks to be played."""

    server: ScriptedServer = field(init=False)
    files: dict[str, File] = field(factory=dict)
    """What is stored, by path."""
    tricks: deque[Trick] = field(factory=deque)
    """For the next requests for files, in order; then all replies are honest."""
    documents: dict[str, list[dict[str, Any]]] = field(factory=dict)
    """What the service says of an application's documents, by type."""
    expired: set[str] = field(factory=set)
    """Signatures that are of no use any more."""

    @server.default
    def _of_its_own(self) -> ScriptedServer:
        return ScriptedServer(self.answer)

    @property
    def asked(self) -> list[Request]:
        """The requests for files."""
        return [one for one in self.server.requests if not one.path.startswith(_API)]

    @property
    def api_asked(self) -> list[Request]:
        """The requests for documents."""
        return [one for one in self.server.requests if one.path.startswith(_API)]

    @property
    def policy(self) -> DownloadPolicy:
        """A policy that allows this storage and nothing else."""
        host = f"127.0.0.1:{self.server.port}"
        return DownloadPolicy(
            allowed_hosts=(host,), require_https=False, allow_private_networks=True
        )

    def address(self, path: str, signature: str = "s1") -> str:
        """Return an address of a file."""
        return f"{self.server.url}{path}?X-Signature={signature}"

    def store(self, path: str, content: bytes, **settings: Any) -> Document:
        """Store a file, and return a document whose it is."""
        self.files[path] = File(content, **settings)
        return document_at(self.address(path), document_id=path.rpartition("/")[2])

    def tell(self, document_id: str, address: str, document_type: str = "unknown_form") -> None:
        """Have the service tell of a document of application ``app-1`` from now on."""
        self.documents.setdefault(document_type, []).append(document_payload(document_id, address))

    def answer(self, request: Request) -> Reply:
        """Answer a request."""
        if request.path.startswith(_API):
            return self._documents_of(request.path.split("/")[4])
        honest = self.honest(request)
        return self.tricks.popleft()(request, honest) if self.tricks else honest

    def honest(self, request: Request) -> Reply:
        """Answer a request for a file, or for a part of it, as the standards say."""
        file = self.files.get(request.path)
        if file is None:
            return Reply(status=404)
        if request.query.partition("X-Signature=")[2] in self.expired:
            return EXPIRED
        headers = {"Content-Type": file.content_type, "ETag": file.etag}
        wanted = request.headers.get("range")
        if wanted is None or request.headers.get("if-range", file.etag) != file.etag:
            return Reply(headers=headers, body=file.content)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        total, start = len(file.content), int(first)
        if start >= total:
            return Reply(status=416, headers={**headers, "Content-Range": f"bytes */{total}"})
        part = file.content[start : int(last) + 1 if last else None]
        place = f"bytes {start}-{start + len(part) - 1}/{total}"
        return Reply(status=206, headers={**headers, "Content-Range": place}, body=part)

    def _documents_of(self, application_id: str) -> Reply:
        payload = {
            "application_id": application_id,
            "application_reference_id": "loan-1",
            "documents": self.documents,
        }
        return json_reply(payload, Set_Cookie="session=of-the-service; Path=/")


def document_payload(document_id: str, address: str) -> dict[str, Any]:
    """Return what a service says of a document."""
    return {
        "document_id": document_id,
        "file_ids": ["file-1"],
        "file_reference_ids": ["slip.pdf"],
        "url": address,
        "extracted_data": {},
        "updated_at": "2026-01-31T10:00:00Z",
        "data_action": "create",
    }


def document_at(address: str, document_id: str = "doc-1") -> Document:
    """Return a document of application ``app-1`` and type ``unknown_form`` with this address."""
    document = from_json(Document, json.dumps(document_payload(document_id, address)).encode())
    return evolve(document, source=DocumentSource("app-1", "unknown_form"))


@asynccontextmanager
async def serving() -> AsyncIterator[Storage]:
    """Run a service with its storage."""
    storage = Storage()
    async with storage.server:
        yield storage


@asynccontextmanager
async def storing(**options: Any) -> AsyncIterator[tuple[Storage, IncomeClient]]:
    """Run a service with its storage, and a client that may use both, on a clock that jumps."""
    async with serving() as storage:
        usual: dict[str, Any] = {"downloads": storage.policy, "clock": JumpingClock()}
        auth = BasicAuth(USER, PASSWORD)
        async with IncomeClient(storage.server.url, auth=auth, **usual | options) as client:
            yield storage, client
