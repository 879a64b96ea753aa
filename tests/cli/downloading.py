"""``income-client download`` against an emulated service in the test's own process."""

import hashlib
import json
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from income_client.emulator import Emulator
from tests.cli.polling import served
from tests.cli.running import ServiceCommand

HERE: Final = ("--allow-host", "127.0.0.1")
FILES: Final = "/documents/*"
"""The paths of the host of files."""


@frozen
class Command(ServiceCommand):
    """The command on one service and one folder."""

    folder: Path
    """Where the files go."""
    hosts: tuple[str, ...] = HERE
    """What is said about where they may come from."""

    def line(self, *arguments: str) -> tuple[str, ...]:
        """Return the command line: of every application unless some are named."""
        ids = () if any(one.startswith("app-") for one in arguments) else self.service.world.ids
        return ("download", "--to", str(self.folder), *self.hosts, *arguments, *ids)

    @property
    def listed(self) -> list[Any]:
        """The lines of the manifest."""
        text = (self.folder / "manifest.jsonl").read_text("utf-8")
        return [json.loads(line) for line in text.splitlines()]

    @property
    def parts(self) -> list[Path]:
        """The files that are not whole yet."""
        return list(self.folder.rglob(".*.part"))

    def is_whole(self, document_id: str) -> bool:
        """Say whether the file of a document lies there, byte for byte."""
        (path,) = self.folder.rglob(f"{document_id}-0.*")
        return path.read_bytes() == self.service.content_of(document_id)


def documents_of(service: Emulator, document_type: str | None = None) -> dict[str, str]:
    """Return the ids of documents, each with its application's."""
    return {
        document["document_id"]: application_id
        for application_id in service.world.ids
        for kind, documents in served(service, application_id, "/documents")["documents"].items()
        for document in documents
        if document_type in (None, kind)
    }


def asked(service: Emulator) -> int:
    """Return how often the host of files was asked."""
    return sum(request.path.startswith("/documents/") for request in service.requests)


def sha256_of(content: bytes) -> str:
    """Return the SHA-256 of some bytes, in hex."""
    return hashlib.sha256(content).hexdigest()
