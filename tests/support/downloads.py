"""A service and a file storage between which files go, and what is in a folder afterwards."""

import asyncio
import hashlib
import json
import os
import stat
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from attrs import define, evolve, field, frozen

from income_client import (
    BasicAuth,
    Document,
    DownloadedFile,
    DownloadPolicy,
    IncomeClient,
    from_json,
)
from income_client.downloads.destinations import Place
from income_client.downloads.naming import FileFacts, NameTemplate
from income_client.downloads.temporary_file import Spool, TemporaryFile
from income_client.emulator import Emulator, Fault, RecordedRequest
from income_client.errors import DownloadError, copy_without_traceback
from income_client.records import DocumentSource
from income_client.testing import JumpingClock
from tests.support.payloads import DOCUMENTS
from tests.support.server import Reply, Request, ScriptedServer, json_reply

FILES: Final = "/documents/*"
"""Path pattern of the file host."""


@frozen
class Scene:
    """A service, a client on it, and a clock that jumps."""

    service: Emulator
    client: IncomeClient
    clock: JumpingClock = field(repr=False)

    @property
    def asked(self) -> list[RecordedRequest]:
        """Requests for files so far."""
        return [request for request in self.service.requests if request.name == "file"]

    @property
    def renewals(self) -> int:
        """Number of requests for documents."""
        return sum(request.name == "get_documents" for request in self.service.requests)

    async def documents(self, count: int = 1) -> list[Document]:
        """Return some documents, and forget that they were asked for."""
        found = await documents_of(self.client, self.service.world.ids[:count])
        self.service.requests.clear()
        assert len(found) >= count
        return found[:count]

    async def document(self) -> Document:
        """Return a document."""
        return (await self.documents())[0]

    def fail(self, kind: str, **settings: Any) -> None:
        """Make requests for files fail."""
        self.service.faults.add(Fault(kind, path=FILES, **settings))

    def content(self, document: Document) -> bytes:
        """Return what a document's file is."""
        return self.service.content_of(document.document_id)


@asynccontextmanager
async def scene(knobs: Mapping[str, Any] | None = None, **options: Any) -> AsyncIterator[Scene]:
    """Play a service, with knobs of the emulator, and a client with these options."""
    clock = JumpingClock()
    async with Emulator(12, clock=clock, **(knobs or {})) as service:
        settings: dict[str, Any] = {"downloads": service.download_policy, "clock": clock}
        settings |= options
        async with IncomeClient(service.url, auth=service.oauth2, **settings) as client:
            yield Scene(service, client, clock)


async def documents_of(client: IncomeClient, application_ids: Iterable[str]) -> list[Document]:
    """Read the documents of applications, one after the other."""
    found: list[Document] = []
    for application_id in application_ids:
        documents = await client.get_documents(application_id)
        found += [document for _, document in documents.all()]
    return found


def files_below(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder, hidden ones included, by its relative path."""
    paths = (Path(root, name) for root, _, names in os.walk(folder) for name in names)
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def mode_of(path: Path) -> int:
    """Return the permission bits of a file."""
    return stat.S_IMODE(path.stat().st_mode)


# What is in a folder: whole and private files, or hidden parts


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    """Lend a folder; in memory where the system has that, since each file is synced."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


def check_private(folder: Path) -> None:
    """Check that nobody else may read what is in a folder, parts included."""
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            assert mode_of(path) & 0o077 == 0


def left_in(folder: Path) -> dict[str, bytes]:
    """Return what is in a folder, all of it private."""
    check_private(folder)
    return files_below(folder)


def left(folder: Path, content: bytes, name: str | None = None) -> Path:
    """Leave a temporary file behind as a killed process does, and return where it is."""
    before = set(folder.iterdir())
    file = TemporaryFile.create(folder)
    file.write(content)
    file._file.close()
    (made,) = set(folder.iterdir()) - before
    return made if name is None else made.rename(folder / name)


@asynccontextmanager
async def watched(path: Path, contents: frozenset[bytes]) -> AsyncIterator[None]:
    """Look at a path with every turn of the loop: what is there is whole and private."""

    def look() -> None:
        with suppress(FileNotFoundError):
            assert path.read_bytes() in contents
            assert mode_of(path) == 0o600
        check_private(path.parent)

    async def watch() -> None:
        while True:
            look()
            await asyncio.sleep(0)

    task = asyncio.ensure_future(watch())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def check_file(file: DownloadedFile, path: Path, contents: frozenset[bytes]) -> None:
    """Check that a file is what is said of it, and one of these contents."""
    content = path.read_bytes()
    assert content in contents
    assert (file.path, file.size) == (path, len(content))
    assert file.sha256 == hashlib.sha256(content).hexdigest()
    assert mode_of(path) == 0o600


# A file that goes to a place, as a download does it


FACTS: Final = FileFacts(
    application_id="app-1",
    document_type="paystub",
    document_id="doc-1",
    file=0,
    file_reference_id=None,
)
SORTED: Final = NameTemplate.read("{application_id}/{document_type}/{document_id}-{file}.{ext}")
FLAT: Final = NameTemplate.read("{document_id}.{ext}")

PDF: Final = b"%PDF-1.7\n" + b"x" * 1000
LONG: Final = b"%PDF-1.7\n" + bytes(range(256)) * 10_000


@frozen
class Landed:
    """Path of a stored file, and whether the file existed before."""

    path: Path | None
    was_there: bool


async def put(
    place: Place,
    content: bytes,
    *,
    content_type: str | None = None,
    overwrite: bool = False,
) -> Landed | DownloadError:
    """Write a file in pieces, and publish it."""
    try:
        async with Spool(place.create) as spool:
            for start in range(0, len(content), 300_000):
                await spool.write(content[start : start + 300_000])
            published = await place.publish(spool, content_type=content_type, overwrite=overwrite)
            assert published.size == len(content)
            assert published.sha256 == hashlib.sha256(content).hexdigest()
            return Landed(published.path, published.was_there)
    except DownloadError as error:
        return copy_without_traceback(error)


# A scripted service and its storage: it answers honestly, but for the replies of a test

USER: Final = "invented-user"
PASSWORD: Final = "invented-password"
EXPIRED: Final = Reply(
    status=403,
    body=b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>",
)
"""Reply of a storage to an expired address."""
_API: Final = "/v1/income/applications/"


@frozen
class File:
    """A file of the storage; its tag includes the quotes."""

    content: bytes = field(repr=False)
    etag: str | None = '"v1"'
    content_type: str = "application/pdf"


Trick = Callable[[Request, Reply], Reply]
"""Makes another reply to a request for a file than the honest one."""


@define(eq=False)
class Storage:
    """A storage: its files, the requests that came, and its faults."""

    server: ScriptedServer = field(init=False)
    files: dict[str, File] = field(factory=dict)
    """Files by path."""
    tricks: deque[Trick] = field(factory=deque)
    """Faults of the next requests for files, in order; all later replies are honest."""
    documents: dict[str, list[dict[str, Any]]] = field(factory=dict)
    """The service's documents of an application, by type."""
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
        """Add a document to the service's application ``app-1``."""
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
        payload = DOCUMENTS | {"application_id": application_id, "documents": self.documents}
        return json_reply(payload, Set_Cookie="session=of-the-service; Path=/")


def document_payload(document_id: str, address: str) -> dict[str, Any]:
    """Return what a service says of a document."""
    document: dict[str, Any] = DOCUMENTS["documents"]["unknown_form"][0]
    return document | {
        "document_id": document_id,
        "file_reference_ids": ["slip.pdf"],
        "url": address,
        "extracted_data": {},
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
