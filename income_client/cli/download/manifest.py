"""The list of the files in a folder, as lines of JSON without addresses or names of people."""

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final, Self

from attrs import Attribute, asdict, field, fields, frozen
from attrs.validators import instance_of, optional

from income_client.disk import make_folder, open_file, sync_folder

MANIFEST: Final = "manifest.jsonl"
"""What it is called in its folder."""

FileKey = tuple[str | None, str | None, str, int]
"""Which file: application, type and id of its document, and its number within that."""


def _check_below(_: object, __: "Attribute[str]", path: str) -> None:
    parts = PurePosixPath(path).parts
    if not parts or ".." in parts or path.startswith("/"):
        raise ValueError("this leads out of the folder")


@frozen(kw_only=True)
class ManifestEntry:
    """A file that became complete; its fields are those of a line."""

    application_id: str | None = field(validator=optional(instance_of(str)))
    document_type: str | None = field(validator=optional(instance_of(str)))
    """The service's key of the type: ids may repeat among types."""
    document_id: str = field(validator=instance_of(str))
    file: int = field(validator=instance_of(int))
    """Which of the document's files."""
    path: str = field(validator=[instance_of(str), _check_below])
    """Where it is, relative to the folder, with ``/``."""
    size: int = field(validator=instance_of(int))
    sha256: str = field(validator=instance_of(str))
    """Of the content, in hexadecimal digits."""
    content_type: str | None = field(validator=optional(instance_of(str)), eq=False)
    """Media type that the storage reported; None if it was not asked."""
    time: str = field(validator=instance_of(str), eq=False)
    """When it was listed, in ISO 8601 and UTC, with Z."""

    @property
    def key(self) -> FileKey:
        """Which file it is."""
        return self.application_id, self.document_type, self.document_id, self.file


class Manifest:
    """The list in one folder, open for more; both are made if they are not there.

    It is only ever appended to, and the last line about a file is the one that counts.

    Raises:
        OSError: something else is in its place, or it cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        self._folder = folder
        path = folder / MANIFEST
        self._descriptor = open_file(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            content = self._read_content()
            path.chmod(0o600)
            sync_folder(folder)
        except BaseException:
            os.close(self._descriptor)
            raise
        self._entries = {entry.key: entry for entry in _read_entries(content)}
        # A line that was cut off, by a full disk or a kill, spoils no other.
        self._before = b"" if content.endswith(b"\n") or not content else b"\n"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def find(self, key: FileKey) -> ManifestEntry | None:
        """Return what is listed of a file, whether it is still there or not."""
        return self._entries.get(key)

    def is_there(self, key: FileKey) -> bool:
        """Say whether a file is listed, and has the content that is listed; reads all of it."""
        entry = self._entries.get(key)
        if entry is None:
            return False
        path = self._folder / entry.path
        try:
            if path.resolve(strict=True) != self._folder.resolve() / entry.path:
                return False  # a link on the way leads elsewhere
            with os.fdopen(open_file(path, os.O_RDONLY), "rb", buffering=0) as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode) or found.st_size != entry.size:
                    return False
                return hashlib.file_digest(file, "sha256").hexdigest() == entry.sha256
        except (OSError, ValueError, RuntimeError):
            return False  # the download will find out what is wrong there

    def add(self, entry: ManifestEntry) -> None:
        """Write a line that survives a loss of power."""
        line = json.dumps(asdict(entry), separators=(",", ":")).encode("ascii")
        rest = memoryview(self._before + line + b"\n")
        self._before = b"\n"
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        os.fsync(self._descriptor)
        self._before = b""
        self._entries[entry.key] = entry

    def _read_content(self) -> bytes:
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            raise OSError(0, "it is not a regular file")
        with open(self._descriptor, "rb", closefd=False) as file:
            return file.read()


def _read_entries(content: bytes) -> Iterator[ManifestEntry]:
    """Yield the entries; other lines, and further fields, are passed over."""
    names = [one.name for one in fields(ManifestEntry)]
    for line in content.splitlines():
        try:
            found: Any = json.loads(line)
            yield ManifestEntry(**{name: found[name] for name in names})
        except (ValueError, TypeError, LookupError, RecursionError):
            continue
