"""A client and an emulated service between which files go, and what is in a folder afterwards."""

import asyncio
import hashlib
import os
import stat
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from attrs import field, frozen

from income_client import Document, DownloadedFile, IncomeClient
from income_client.downloads.destinations import Place
from income_client.downloads.naming import FileFacts, NameTemplate
from income_client.downloads.temporary_file import Spool, TemporaryFile
from income_client.emulator import Emulator, Fault, RecordedRequest
from income_client.errors import DownloadError
from income_client.testing import JumpingClock

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
        """How often documents were asked for."""
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
        """Have requests for files fail."""
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
    """Where a file is that was put to a place, and whether it was there before."""

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
        return error.again()
