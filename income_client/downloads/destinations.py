"""Where a file goes: below a folder, to exactly one path, or into an open binary stream."""

import errno
import inspect
import io
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from attrs import frozen

from income_client.concurrency import run_to_the_end
from income_client.errors import ConfigurationError, DownloadError

from .naming import EXTENSIONS, FileFacts, NameTemplate, extension_of
from .part_file import (
    FoldersSeen,
    HashedFile,
    PartFile,
    adopt,
    check_is_regular,
    create,
    disk_fault,
    folder_at,
    has_part,
    hash_file,
    make_private,
)
from .spool import SomeSpool, Spool

T = TypeVar("T")

ANOTHER: Final = "another file is there already; it was left as it is, for want of overwrite=True"
"""Error message for a place that is taken."""

_STOPPED: Final = "the copy was stopped"
_NO_THREAD: Final = "no thread can be started to write to the stream"


@frozen
class Present:
    """A file that is at a place already."""

    path: Path | str
    """Where: a path, or a key in a store."""
    size: int
    """Its length in bytes."""


@frozen
class Published:
    """A file that is at its place, whole."""

    path: Path | str | None
    """Where: a path, or a key in a store; None for a stream."""
    was_there: bool
    """Whether a file with the same content was there before, and was left."""


class Place(Protocol):
    """Where one file goes; every method raises `DownloadError` if that fails."""

    async def present(self) -> tuple[Present, ...]:
        """Return what is there already; several, where the extension is not known yet."""

    async def hash_of(self, present: Present, algorithm: str) -> str:
        """Read a file that is there through the hash of this name, and return it in hex."""

    async def accept(self, present: Present) -> None:
        """Take a file that is there for the download: make it private, remove leftover parts."""

    async def begin(self) -> SomeSpool:
        """Return what the bytes are written to, with what an earlier process has left.

        It is left as a context: what is neither kept nor published is thrown away.
        """

    async def publish(
        self,
        spool: SomeSpool,
        *,
        content_type: str | None = None,
        overwrite: bool = False,
    ) -> Published:
        """Put what was written where it belongs, all of it or nothing.

        Args:
            spool: what `begin` of this place has returned.
            content_type: as the reply named it.
            overwrite: whether to replace a file with other content.
        """


class _DiskPlace:
    """What a folder and a path have in common."""

    def __init__(
        self,
        folder: Path,
        target: str,
        names: Sequence[str],
        *,
        inner: Sequence[str] = (),
        may_make: bool = False,
        seen: FoldersSeen | None = None,
    ) -> None:
        self._folder = folder.absolute()
        self._inner = inner
        self._target = target
        self._names = tuple(names)
        self._may_make = may_make
        self._seen = seen
        self._others: tuple[str, ...] = ()
        self._has_no_part = False

    async def present(self) -> tuple[Present, ...]:
        """See `Place.present`."""
        found = await _on_disk(self._look)
        self._others = tuple(Path(one.path).name for one in found)
        return found

    async def hash_of(self, present: Present, algorithm: str) -> str:
        """See `Place.hash_of`."""
        path = Path(present.path)

        def read() -> str:
            check_is_regular(path)
            return hash_file(path, algorithm)

        return await _on_disk(read)

    async def accept(self, present: Present) -> None:
        """See `Place.accept`."""
        path = Path(present.path)

        def settle() -> None:
            make_private(path)
            left = adopt(path.parent, self._target)
            if left is not None:
                left.discard()

        await _on_disk(settle)

    async def begin(self) -> SomeSpool:
        """See `Place.begin`."""
        if self._has_no_part:
            return Spool(self._create)
        made: list[Spool[PartFile]] = []

        def begin() -> SomeSpool:
            try:
                held = adopt(folder_at(self._folder, self._inner), self._target, self._seen)
            except FileNotFoundError:
                if not self._may_make:
                    raise
                held = None
            made.append(Spool(self._create, held))
            return made[0]

        try:
            return await _on_disk(begin)
        except BaseException:
            for spool in made:  # cancelled meanwhile: nobody else will end it
                await spool.keep()
            raise

    async def publish(
        self,
        spool: SomeSpool,
        *,
        content_type: str | None = None,
        overwrite: bool = False,
    ) -> Published:
        """See `Place.publish`."""
        return await spool.conclude(
            partial(self._publish, content_type=content_type, overwrite=overwrite)
        )

    def _name_of(self, content_type: str | None, head: bytes) -> str:  # noqa: ARG002 - of others
        return self._target

    def _create(self, mark: str | None) -> PartFile:
        folder = folder_at(self._folder, self._inner, make=self._may_make)
        return create(folder, self._target, mark)

    def _look(self) -> tuple[Present, ...]:
        try:
            folder = folder_at(self._folder, self._inner)
        except FileNotFoundError:
            self._has_no_part = self._may_make
            return ()
        self._has_no_part = not has_part(folder, self._target, self._seen)
        beginning = os.path.join(folder, "")  # noqa: PTH118 - paths of many names take their time
        found = []
        for name in self._names:
            facts = check_is_regular(beginning + name)
            if facts is not None:
                found.append(Present(folder / name, facts.st_size))
        return tuple(found)

    def _publish(self, file: PartFile, *, content_type: str | None, overwrite: bool) -> Published:
        """Give a part its final name, unless the same or another file has its place."""
        name, folder = self._name_of(content_type, file.head), file.folder
        paths = [folder / one for one in dict.fromkeys((name, *self._others))]
        for _ in range(2):
            there = [path for path in paths if check_is_regular(path)]
            for path in there:
                if path.stat().st_size == file.size and hash_file(path, "sha256") == file.sha256:
                    make_private(path)
                    file.discard()
                    return Published(path, was_there=True)
            if there and not overwrite:
                break
            try:
                file.publish(name, overwrite=overwrite)
            except FileExistsError:
                continue  # it came meanwhile: look at that
            for path in there:
                if path.name != name:
                    path.unlink(missing_ok=True)
            return Published(folder / name, was_there=False)
        raise DownloadError(ANOTHER)


class FolderPlace(_DiskPlace):
    """A place below a folder, which is made if missing, for its owner alone.

    No symbolic link below the folder is followed. The extension is not known before the file has
    come: a file with any of the known ones counts as being there.

    Raises:
        ConfigurationError: the template needs what is not known of the document.
    """

    def __init__(
        self,
        directory: Path,
        template: NameTemplate,
        facts: FileFacts,
        seen: FoldersSeen | None = None,
    ) -> None:
        name = template.of(facts)
        self._name = name
        names = tuple(dict.fromkeys(map(name.named, EXTENSIONS)))
        super().__init__(directory, name.stem, names, inner=name.folders, may_make=True, seen=seen)

    def _name_of(self, content_type: str | None, head: bytes) -> str:
        return self._name.named(extension_of(content_type, head))


class PathPlace(_DiskPlace):
    """A path as the caller wrote it; its folder must be there.

    Raises:
        ConfigurationError: it does not end with the name of a file.
    """

    def __init__(self, path: Path) -> None:
        if path.name in ("", ".", ".."):
            raise ConfigurationError("the destination does not end with the name of a file")
        super().__init__(path.parent, path.name, (path.name,))


class BinaryStream(Protocol):
    """What a caller gives to be written to."""

    def write(self, data: bytes, /) -> Any:
        """Take bytes, and tell how many if not all.

        None stands for all of them; of an `io.RawIOBase`, for none.
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

    async def present(self) -> tuple[Present, ...]:
        """Return nothing: what is in a stream is not known."""
        return ()

    async def hash_of(self, present: Present, algorithm: str) -> str:
        """See `Place.hash_of`."""
        raise NotImplementedError("nothing is present in a stream")

    async def accept(self, present: Present) -> None:
        """See `Place.accept`."""

    async def begin(self) -> SomeSpool:
        """See `Place.begin`; nothing is ever left for a later process."""
        return Spool(HashedFile.unnamed)

    async def publish(
        self,
        spool: SomeSpool,
        *,
        content_type: str | None = None,  # noqa: ARG002 - a stream has no name
        overwrite: bool = False,  # noqa: ARG002 - nor anything to replace
    ) -> Published:
        """See `Place.publish`; a copy that fails or is cancelled has gone out in part."""
        # In its own thread: streams that nobody reads would hold all threads of the event loop.
        executor = ThreadPoolExecutor(1, "income_client.stream")
        try:
            await spool.conclude(self._copy, self._stop, executor)
        except RuntimeError:
            raise DownloadError(_NO_THREAD) from None
        finally:
            executor.shutdown(wait=False)
        return Published(None, was_there=False)

    def _stop(self) -> None:
        self._is_stopped = True

    def _copy(self, file: HashedFile) -> None:
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


async def _on_disk(work: Callable[[], T]) -> T:
    """Do some work on the disk in a thread, to its end."""
    try:
        return await run_to_the_end(work)
    except OSError as error:
        raise disk_fault(error) from None
