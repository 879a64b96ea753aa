"""Where a file goes: to a path on the disk, or into an open binary stream."""

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

from income_client.disk import (
    check_folder,
    file_of,
    make_folder,
    make_private,
    open_file,
    size_of_file,
)
from income_client.errors import ConfigurationError, DownloadError

from .naming import FileFacts, FileName, NameTemplate, extension_of
from .part_file import BLOCK, PartFile, Spool, adopt, create, disk_fault, on_disk, parts_of

ANOTHER: Final = "another file is there already; overwrite=True would replace it"
"""Error message for a place that is taken."""

_MOST_FOLDERS: Final = 4096
_STOPPED: Final = "the copy was stopped"
_UNREADABLE: Final = "what is in the file's place cannot be read"
_BESIDE: Final = "the file is in its place, but the older one beside it cannot be removed"
_NO_THREAD: Final = "no thread can be started to write to the stream"


@frozen
class Published:
    """A file that is at its place, whole."""

    path: Path | str | None
    """Where: a path, or a key in a store; None for a stream."""
    size: int
    """Its length in bytes."""
    sha256: str
    """The hash of its content, in hex."""
    was_there: bool
    """Whether a file with the same content was there before, and was left."""

    @classmethod
    def of(cls, file: PartFile, path: Path | str | None, *, was_there: bool = False) -> Self:
        """Say where a file is now."""
        return cls(path, file.size, file.sha256, was_there)


class Place(Protocol):
    """Where one file goes; every method raises `DownloadError` if that fails."""

    async def present(self) -> tuple[int, ...]:
        """Return the length of what is there; several, where the extension is not known yet."""

    async def take(self, md5: str) -> Published | None:
        """Read what `present` has found, and return the file with this MD5 in hex."""

    async def begin(self) -> Spool:
        """Return what the bytes are written to, with what an earlier process has left.

        It is left as a context.
        """

    async def publish(
        self, spool: Spool, *, content_type: str | None = None, overwrite: bool = False
    ) -> Published:
        """Put what was written where it belongs, all of it or nothing."""


@frozen
class _Folder:
    names: set[str]
    """Names that may be in it."""
    parts: tuple[str, ...]
    """Those of parts."""


FoldersSeen: TypeAlias = dict[Path, _Folder]
"""What was in each folder at the first look: one look, however many files go there."""


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
        self._there: dict[Path, int] = {}

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
            raise ConfigurationError(
                "the destination does not end with the name of a file", argument="destination"
            )
        name = FileName((), path.name, has_extension=False)
        return cls(path.parent, name, None, makes_folders=False)

    async def present(self) -> tuple[int, ...]:
        """See `Place.present`."""
        folder = await self._seen_folder()
        paths = [self._folder / name for name in self._name.all() if name in folder.names]
        self._there = await on_disk(lambda: _sizes_of(paths)) if paths else {}
        return tuple(self._there.values())

    async def take(self, md5: str) -> Published | None:
        """See `Place.take`."""
        parts = parts_of(self._name.stem, (await self._seen_folder()).parts)
        return await on_disk(lambda: self._taken(md5, parts))

    async def begin(self) -> Spool:
        """See `Place.begin`."""
        parts = parts_of(self._name.stem, (await self._seen_folder()).parts)
        if not parts:
            return Spool(self._create)
        spools: list[Spool] = []
        try:
            await on_disk(lambda: spools.append(Spool(self._create, adopt(self._folder, parts))))
        except BaseException:
            for spool in spools:  # cancelled meanwhile: nothing else closes it
                spool.keeps_partial = True
                await spool.aclose()
            raise
        return spools[0]

    async def publish(
        self, spool: Spool, *, content_type: str | None = None, overwrite: bool = False
    ) -> Published:
        """See `Place.publish`."""
        return await spool.finish(
            partial(self._publish, content_type=content_type, overwrite=overwrite)
        )

    async def _seen_folder(self) -> _Folder:
        known = self._seen.get(self._folder)
        return await on_disk(self._look) if known is None else known

    def _look(self) -> _Folder:
        names: set[str] = set()
        try:
            with (
                _looking(),
                os.scandir(check_folder(self._top, self._name.folders)) as entries,
            ):
                names.update(entry.name for entry in entries)
        except FileNotFoundError:
            if not self._makes_folders:
                raise
        if len(self._seen) >= _MOST_FOLDERS:
            self._seen.clear()
        parts = tuple(name for name in names if name.endswith(".part"))
        # Another thread may have looked meanwhile.
        return self._seen.setdefault(self._folder, _Folder(names, parts))

    def _taken(self, md5: str, parts: list[str]) -> Published | None:
        for path in self._there:
            sha256, other = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
            size = _read_through(path, sha256, other)
            if other.hexdigest() == md5:
                make_private(path)
                left = adopt(self._folder, parts)
                if left is not None:
                    left.discard()
                return Published(path, size, sha256.hexdigest(), was_there=True)
        return None

    def _create(self, version: str | None) -> PartFile:
        try:
            return create(self._folder, self._name.stem, version)
        except FileNotFoundError:
            if not self._makes_folders:
                raise
        make_folder(self._top, self._name.folders)
        return create(self._folder, self._name.stem, version)

    def _publish(self, file: PartFile, *, content_type: str | None, overwrite: bool) -> Published:
        """Give a part its final name, unless the same or another file has its place."""
        target = self._folder / self._name.named(extension_of(content_type, file.head))
        for _ in range(2):
            there = _sizes_of((target, *self._there))
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
            known = self._seen.get(self._folder)
            if known is not None:
                known.names.add(target.name)
            return Published.of(file, target)
        raise DownloadError(ANOTHER)


def _sizes_of(paths: Iterable[Path]) -> dict[Path, int]:
    """Return which of these files are there, with their lengths in bytes."""
    with _looking():
        found = ((path, size_of_file(path)) for path in paths)
        return {path: size for path, size in found if size is not None}


def _sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    _read_through(path, digest)
    return digest.hexdigest()


def _read_through(path: Path, *digests: "hashlib._Hash") -> int:
    """Read a file through these hashes, and return its size."""
    size = 0
    with _looking(), file_of(open_file(path, os.O_RDONLY), "rb") as file:
        while block := file.read(BLOCK):
            size += len(block)
            for digest in digests:
                digest.update(block)
    return size


@contextmanager
def _looking() -> Iterator[None]:
    """Raise what fails as an error of reading, unless it shows that no file is there."""
    try:
        yield
    except (FileExistsError, FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        # The file may be there from an earlier run: that it cannot be kept would be untrue.
        raise disk_fault(error, _UNREADABLE) from None


class BinaryStream(Protocol):
    """What a caller gives to be written to."""

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

    async def present(self) -> tuple[int, ...]:
        """Return nothing: what is in a stream is not known."""
        return ()

    async def take(self, md5: str) -> Published | None:  # noqa: ARG002 - nothing is present
        """Return None."""
        return None

    async def begin(self) -> Spool:
        """See `Place.begin`; nothing is ever left for a later process."""
        return Spool(PartFile.unnamed)

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
            return await spool.finish(self._copy, self._stop, executor)
        except RuntimeError:
            raise DownloadError(_NO_THREAD) from None
        finally:
            executor.shutdown(wait=False)

    def _stop(self) -> None:
        self._is_stopped = True

    def _copy(self, file: PartFile) -> Published:
        try:
            for block in file.blocks():
                if not self._is_stopped:
                    self._write(block)
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

    def _write(self, block: bytes) -> None:
        rest = block
        while rest and not self._is_stopped:
            taken = self._stream.write(rest)
            if inspect.isawaitable(taken):
                if inspect.iscoroutine(taken):
                    taken.close()
                raise TypeError("write() returned an awaitable, so it has written nothing")
            # A raw stream may take less; one that does not say took all.
            if taken is None and isinstance(self._stream, io.RawIOBase):
                raise BlockingIOError(errno.EAGAIN, "the stream would block")
            if not isinstance(taken, int):
                return
            if not 0 < taken <= len(rest):
                raise ValueError("a stream takes at least one byte")
            rest = rest[taken:]
