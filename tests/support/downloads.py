"""A client and an emulated service between which files go, and what is looked at afterwards."""

import os
import stat
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

from income_client import Document, IncomeClient
from income_client.emulator import Emulator, Fault, RecordedRequest
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
    def ranges(self) -> list[str | None]:
        """The Range fields of the requests for files."""
        return [request.headers.get("range") for request in self.asked]

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
