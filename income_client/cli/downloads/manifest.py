"""The list of the files in a folder, as lines of JSON; knows no address and nobody's name.

It is only ever appended to. The last line about a file is the one that holds.
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, Final, Self

from attrs import asdict, evolve, fields, frozen

from income_client.cli.private_files import make_folder, sync

MANIFEST: Final = "manifest.jsonl"
"""What it is called in its folder."""

_NEWLINE: Final = b"\n"
_PRIVATE: Final = 0o600
# Nothing that is no file is waited for, and no link leads elsewhere. Windows has neither flag.
_SAFELY: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


@frozen(kw_only=True)
class FileKey:
    """Which file is meant, wherever it lies."""

    application_id: str | None
    """The application that its document belongs to."""
    document_type: str | None
    """The service's key of the document's type: ids may repeat among types."""
    document_id: str
    """The document that it is of."""
    file: int
    """Which of the document's files."""


@frozen(kw_only=True)
class ManifestEntry:
    """A file that became whole; its fields are those of a line."""

    application_id: str | None
    """The application that its document belongs to."""
    document_type: str | None
    """The service's key of the document's type."""
    document_id: str
    """The document that it is of."""
    file: int
    """Which of the document's files."""
    path: str
    """Where it is, relative to the folder, with ``/``."""
    size: int
    """Its length in bytes."""
    sha256: str
    """SHA-256 of its content, 64 hexadecimal digits."""
    content_type: str | None
    """Media type that the storage told, None where it was not asked."""
    time: str
    """When it was noted, in ISO 8601 and UTC, with Z."""

    @property
    def key(self) -> FileKey:
        """Which file it is about."""
        return FileKey(
            application_id=self.application_id,
            document_type=self.document_type,
            document_id=self.document_id,
            file=self.file,
        )

    def says_the_same_as(self, other: "ManifestEntry") -> bool:
        """Say whether both are about the same content in the same place, whenever noted."""
        mine, theirs = (evolve(one, time="", content_type=None) for one in (self, other))
        return mine == theirs


_FIELDS: Final = {one.name: one.type for one in fields(ManifestEntry)}


class Manifest:
    """The list in one folder, read and opened for more; both are made if they are not there.

    Args:
        folder: what it lists the files of.

    Raises:
        OSError: it cannot be had.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        make_folder(folder)
        path = folder / MANIFEST
        is_new = not path.exists()
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | _SAFELY
        self._descriptor = os.open(path, flags, _PRIVATE)
        try:
            os.fchmod(self._descriptor, _PRIVATE)
            if is_new:
                sync(folder)
            content = _content(self._descriptor)
        except BaseException:
            os.close(self._descriptor)
            raise
        self._entries = {entry.key: entry for entry in _entries(content)}
        # A line that was cut off, by a full disk or a kill, spoils no other.
        self._before = b"" if content[-1:] in (b"", _NEWLINE) else _NEWLINE

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.close(self._descriptor)

    def find(self, key: FileKey) -> ManifestEntry | None:
        """Return what is listed of a file, whether it is still there or not."""
        return self._entries.get(key)

    def is_there(self, key: FileKey) -> bool:
        """Say whether a file is listed, and lies there with the very content; reads all of it."""
        entry = self._entries.get(key)
        return entry is not None and _has_content(self._folder, entry)

    def add(self, entry: ManifestEntry) -> None:
        """Write a line that survives a loss of power.

        Raises:
            OSError: it cannot be written.
        """
        line = json.dumps(asdict(entry), separators=(",", ":")).encode("ascii")
        rest = memoryview(self._before + line + _NEWLINE)
        self._before = _NEWLINE
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        os.fsync(self._descriptor)
        self._before = b""
        self._entries[entry.key] = entry


def noted_at(moment: datetime) -> str:
    """Return a time as lines have it, in whole seconds."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S}Z"


def _content(descriptor: int) -> bytes:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(0, f"{MANIFEST} is no regular file")
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read()


def _entries(content: bytes) -> Iterator[ManifestEntry]:
    for line in content.splitlines():
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and _is_one(found):
            yield ManifestEntry(**{name: found[name] for name in _FIELDS})


def _is_one(found: dict[str, Any]) -> bool:
    """Say whether all fields are there and of their types; further ones are passed over."""
    if not all(
        name in found and isinstance(found[name], kind) and not isinstance(found[name], bool)
        for name, kind in _FIELDS.items()
        if kind is not None
    ):
        return False
    path = PurePosixPath(found["path"])
    is_below = not path.is_absolute() and ".." not in path.parts
    return is_below and bool(path.parts)


def _has_content(folder: Path, entry: ManifestEntry) -> bool:
    path = folder / entry.path
    try:
        if path.resolve(strict=True) != folder.resolve() / entry.path:
            return False  # a link on the way leads elsewhere
        descriptor = os.open(path, os.O_RDONLY | _SAFELY)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode) or facts.st_size != entry.size:
                return False
            return hashlib.file_digest(file, "sha256").hexdigest() == entry.sha256
    except (OSError, ValueError, RuntimeError):
        # The library will find out what is wrong there, and say so.
        return False
