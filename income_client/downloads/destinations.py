"""Destinations of files: a path on the disk, or an open binary stream."""

import errno
import hashlib
import inspect
import io
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, Self, TypeAlias

from attrs import frozen

from income_client.errors import DownloadError, InvalidArgumentError
from income_client.system.disk import (
    check_folder,
    file_of,
    make_folder,
    make_private,
    open_file,
    size_of_file,
)

from .naming import FileFacts, FileName, NameTemplate, extension_of
from .temporary_file import (
    BLOCK,
    Spool,
    TemporaryFile,
    disk_fault,
    on_disk,
    remove_abandoned,
)

ANOTHER: Final = (
    "another file is there already: name files so that no two share a name, "
    "or replace an older one with overwrite=True"
)
"""Error message for a place that is taken."""

_MOST_FOLDERS: Final = 4096
_STOPPED: Final = "the copy was stopped"
_UNREADABLE: Final = "what is in the file's place cannot be read"
_BESIDE: Final = "the file is in its place, but the older one beside it cannot be removed"
_NO_THREAD: Final = "no thread can be started to write to the stream"


@frozen
class Published:
    """A complete file at its destination."""

    path: Path | None
    """Path of the file; None for a stream."""
    size: int
    """Length of the file in bytes."""
    sha256: str
    """The hash of its content, in hex."""
    was_there: bool
    """Whether a file with the same content was there before, and was left."""

    @classmethod
    def of(cls, file: TemporaryFile, path: Path | None, *, was_there: bool = False) -> Self:
        """Return a published file at a path."""
        return cls(path, file.size, file.sha256, was_there)


@frozen
class Existing:
    """A file that was at the destination before the download."""

    path: Path
    """Path of the file."""
    size: int
    """Length of the file in bytes."""


class Place(Protocol):
    """The destination of one file; asynchronous methods raise `DownloadError` if they fail."""

    async def find_existing(self) -> tuple[Existing, ...]:
        """Return the existing files; there may be several while the extension is unknown."""

    async def match_existing(self, existing: Existing, md5: str) -> Published | None:
        """Read the existing files, and return the one whose content has an MD5, in hex."""

    def create(self) -> TemporaryFile:
        """Make the file that the bytes are written to, in the thread that writes them."""

    async def publish(
        self, spool: Spool, *, content_type: str | None = None, overwrite: bool = False
    ) -> Published:
        """Move the written file to its destination, atomically."""


FoldersSeen: TypeAlias = dict[Path, set[str]]
"""Names in each folder at the first look: one look, however many files go there."""


class DiskPlace:
    """A place on the disk.

    No symbolic link below the folder is followed. Where the name is open to an extension, a file
    with any of the known ones counts as being there.
    """

    def __init__(
        self, folder: Path, name: FileName, seen: FoldersSeen | None, *, makes_folders: bool
    ) -> None:
        self._top = folder.absolute()
        self._folder = self._top.joinpath(*name.folders)
        self._name = name
        self._makes_folders = makes_folders
        self._seen: FoldersSeen = {} if seen is None else seen

    @classmethod
    def below(
        cls,
        folder: Path,
        template: NameTemplate,
        facts: FileFacts,
        seen: FoldersSeen | None = None,
    ) -> Self:
        """Return the place below a folder, which is made if missing, for its owner alone."""
        return cls(folder, template.of(facts), seen, makes_folders=True)

    @classmethod
    def at(cls, path: Path) -> Self:
        """Return the place at a path as the caller wrote it; its folder must be there."""
        if path.name in ("", ".", ".."):
            raise InvalidArgumentError(
                "the destination does not end with the name of a file", argument="destination"
            )
        name = FileName((), path.name, has_extension=False)
        return cls(path.parent, name, None, makes_folders=False)

    async def find_existing(self) -> tuple[Existing, ...]:
        """See `Place.find_existing`."""
        cached_names = self._seen.get(self._folder)
        names = await on_disk(self._look_into_folder) if cached_names is None else cached_names
        paths = self._paths_among(names)
        return await on_disk(lambda: _existing_at(paths)) if paths else ()

    async def match_existing(self, existing: Existing, md5: str) -> Published | None:
        """See `Place.match_existing`."""
        return await on_disk(lambda: _match_file(existing.path, md5))

    def create(self) -> TemporaryFile:
        """See `Place.create`."""
        try:
            return TemporaryFile.create(self._folder)
        except FileNotFoundError:
            if not self._makes_folders:
                raise
        make_folder(self._top, self._name.folders)
        return TemporaryFile.create(self._folder)

    async def publish(
        self, spool: Spool, *, content_type: str | None = None, overwrite: bool = False
    ) -> Published:
        """See `Place.publish`."""
        return await spool.finish(
            partial(self._publish_file, content_type=content_type, overwrite=overwrite)
        )

    def _look_into_folder(self) -> set[str]:
        """Remember and return the folder's names; remove files of killed processes."""
        names: set[str] = set()
        try:
            with (
                _reading_place(),
                os.scandir(check_folder(self._top, self._name.folders)) as entries,
            ):
                names.update(entry.name for entry in entries)
        except FileNotFoundError:
            if not self._makes_folders:
                raise
        remove_abandoned(self._folder, names)
        if len(self._seen) >= _MOST_FOLDERS:
            self._seen.clear()
        # Another thread may have looked meanwhile.
        return self._seen.setdefault(self._folder, names)

    def _paths_among(self, names: set[str]) -> list[Path]:
        """Return the possible paths of the file among the names in the folder."""
        return [self._folder / name for name in self._name.candidates() if name in names]

    def _publish_file(
        self, file: TemporaryFile, *, content_type: str | None, overwrite: bool
    ) -> Published:
        """Give a file its final name, unless the same or another file has its place."""
        target = self._folder / self._name.with_extension(extension_of(content_type, file.head))
        names = self._seen.get(self._folder)
        if names is None:
            names = self._look_into_folder()
        for _ in range(2):
            there = _sizes_of((target, *self._paths_among(names)))
            for path, size in there.items():
                if size == file.size and _sha256_of(path) == file.sha256:
                    make_private(path)
                    file.discard()
                    return Published.of(file, path, was_there=True)
            if there and not overwrite:
                break
            try:
                file.publish(target, overwrite=overwrite)
            except FileExistsError:
                continue  # it came meanwhile: look at that
            try:
                for path in there:
                    if path != target:
                        path.unlink(missing_ok=True)
            except OSError as error:
                raise disk_fault(error, _BESIDE, in_place=True) from None
            names.add(target.name)
            return Published.of(file, target)
        raise DownloadError(ANOTHER)


def _existing_at(paths: Iterable[Path]) -> tuple[Existing, ...]:
    return tuple(Existing(path, size) for path, size in _sizes_of(paths).items())


def _match_file(path: Path, md5: str) -> Published | None:
    sha256, other = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
    size = _read_through(path, sha256, other)
    if other.hexdigest() != md5:
        return None
    make_private(path)
    return Published(path, size, sha256.hexdigest(), was_there=True)


def _sizes_of(paths: Iterable[Path]) -> dict[Path, int]:
    """Return the lengths in bytes of the files that exist."""
    with _reading_place():
        sizes = ((path, size_of_file(path)) for path in paths)
        return {path: size for path, size in sizes if size is not None}


def _sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    _read_through(path, digest)
    return digest.hexdigest()


def _read_through(path: Path, *digests: "hashlib._Hash") -> int:
    """Read a file through hashes, and return its size."""
    size = 0
    with _reading_place(), file_of(open_file(path, os.O_RDONLY), "rb") as file:
        while block := file.read(BLOCK):
            size += len(block)
            for digest in digests:
                digest.update(block)
    return size


@contextmanager
def _reading_place() -> Iterator[None]:
    """Raise a failure to read the destination as an error of the disk; let a missing file pass."""
    try:
        yield
    except (FileExistsError, FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        # The file may be there from an earlier run: that it cannot be kept would be untrue.
        raise disk_fault(error, _UNREADABLE) from None


class BinaryStream(Protocol):
    """A stream of the caller's that takes the bytes of a file."""

    def write(self, data: bytes, /) -> Any:
        """Take bytes, and return how many if not all.

        None means all of them; of an `io.RawIOBase`, none.
        """


class StreamPlace:
    """A stream of the caller's, written to in a thread, flushed and never closed.

    What has begun to go out cannot be taken back, so the file is on this machine, whole, before
    its first byte goes. A stream may keep its writer waiting for as long as its reader likes.
    Cancelling waits too, for the ``write`` or ``flush`` that is under way; no other follows it.
    """

    def __init__(self, stream: BinaryStream) -> None:
        self._stream = stream
        self._is_stopped = False

    async def find_existing(self) -> tuple[Existing, ...]:
        """Return nothing, since the content of a stream is unknown."""
        return ()

    async def match_existing(
        self,
        existing: Existing,  # noqa: ARG002 - there is none
        md5: str,  # noqa: ARG002
    ) -> Published | None:
        """Return None."""
        return None

    def create(self) -> TemporaryFile:
        """See `Place.create`."""
        return TemporaryFile.unnamed()

    async def publish(
        self,
        spool: Spool,
        *,
        content_type: str | None = None,  # noqa: ARG002 - a stream has no name
        overwrite: bool = False,  # noqa: ARG002 - nor anything to replace
    ) -> Published:
        """See `Place.publish`; a copy that fails or is cancelled has gone out in part."""
        # In its own thread: streams without a reader would hold all threads of the event loop.
        executor = ThreadPoolExecutor(1, "income_client.stream")
        try:
            return await spool.finish(self._copy_file, self._stop_copying, executor)
        except RuntimeError:
            raise DownloadError(_NO_THREAD) from None
        finally:
            executor.shutdown(wait=False)

    def _stop_copying(self) -> None:
        self._is_stopped = True

    def _copy_file(self, file: TemporaryFile) -> Published:
        try:
            for block in file.blocks():
                if not self._is_stopped:
                    self._write_block(block)
            flush = getattr(self._stream, "flush", None)
            if callable(flush) and not self._is_stopped:
                flush()
        except OSError:
            raise  # reported like one of the disk
        except Exception as error:  # noqa: BLE001 - the stream is the caller's
            raise DownloadError(
                f"the stream does not take the file: {type(error).__name__}"
            ) from None
        if self._is_stopped:
            raise DownloadError(_STOPPED)
        file.discard()
        return Published.of(file, None)

    def _write_block(self, block: bytes) -> None:
        rest = block
        while rest and not self._is_stopped:
            written = self._stream.write(rest)
            if inspect.isawaitable(written):
                if inspect.iscoroutine(written):
                    written.close()
                raise TypeError("write() returned an awaitable, so it has written nothing")
            # A raw stream may take less; one that does not say took all.
            if written is None and isinstance(self._stream, io.RawIOBase):
                raise BlockingIOError(errno.EAGAIN, "the stream would block")
            if not isinstance(written, int):
                return
            if not 0 < written <= len(rest):
                raise ValueError("a stream takes at least one byte")
            rest = rest[written:]
