"""A file on its way: written and hashed in threads as it arrives, then moved to its place.

On the disk it is a hidden file beside its target, locked for as long as a process is at work on it.
What a killed process leaves is not locked, and the next one that looks into the folder removes it.
"""

import asyncio
import errno
import hashlib
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Final, Self, TypeVar

from income_client.errors import DownloadError
from income_client.system.concurrency import run_to_the_end, wait_for_end
from income_client.system.disk import (
    file_of,
    has_locks,
    is_ours,
    lock_descriptor,
    new_file,
    open_file,
    publish_file,
    remove,
    sync_descriptor,
    sync_folder,
)

from .naming import HEAD_BYTES

T = TypeVar("T")

AT_ONCE: Final = 128 * 1024
"""Bytes that are written at once; two such blocks of a file are in memory at most."""
BLOCK: Final = 2**20
"""Bytes that are read at once."""

_AHEAD: Final = 32 * BLOCK
_SUFFIX: Final = ".income-client.part"
_ABANDONED: Final = re.compile(r"\.[0-9a-f]{16}\..+\.part", re.DOTALL)
"""Pattern of the names of temporary files, also of versions 0.1 and 0.2."""
_TRIES: Final = 3
"""Attempts to create a temporary file that no other process removes before it is locked."""
_OF_THE_DISK: Final = frozenset({errno.EDQUOT, errno.EIO, errno.ENOSPC, errno.EROFS})
"""Errors that affect all files on the same disk."""
_CLOSED: Final = "the file is closed"
_NOT_KEPT: Final = "the file cannot be kept"
_NOT_SYNCED: Final = "the file is in its place, but may be lost in a power cut"


class TemporaryFile:
    """A private file, its size and the SHA-256 of its content; used by one thread at a time."""

    def __init__(self, file: IO[bytes], path: Path | None = None) -> None:
        self._file = file
        self._path = path
        self._hash = hashlib.sha256()
        self.size: int = 0
        self.head: bytes = b""
        self._handed_over = 0

    @classmethod
    def create(cls, folder: Path) -> Self:
        """Create an empty file in a folder, and lock it."""
        for _ in range(_TRIES):
            path = folder / f".{secrets.token_hex(8)}{_SUFFIX}"
            descriptor = new_file(path)
            with ExitStack() as stack:
                stack.callback(remove, path)
                file = stack.enter_context(file_of(descriptor, "r+b"))
                # Before its lock, another process may take it for an abandoned one.
                with suppress(BlockingIOError):
                    lock_descriptor(descriptor)
                    if os.path.lexists(path):
                        stack.pop_all()
                        return cls(file, path)
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    @classmethod
    def unnamed(cls) -> Self:
        """Create an empty file that the system removes when it is closed."""
        return cls(tempfile.TemporaryFile(buffering=0))

    @property
    def is_closed(self) -> bool:
        """Whether the file is published or discarded."""
        return self._path is None and self._file.closed

    @property
    def sha256(self) -> str:
        """The SHA-256 of what was written so far, in hex."""
        return self._hash.hexdigest()

    def write(self, block: bytes) -> None:
        """Append a block."""
        rest = memoryview(block)
        while rest:
            rest = rest[os.write(self._file.fileno(), rest) :]
        self._hash.update(block)
        self.size += len(block)
        self.head += block[: HEAD_BYTES - len(self.head)]
        if self.size - self._handed_over >= _AHEAD:
            self._hand_over()

    def clear(self) -> None:
        """Delete the content."""
        self._file.seek(0)
        self._file.truncate()
        self._hash = hashlib.sha256()
        self.size = self._handed_over = 0
        self.head = b""

    def blocks(self) -> Iterator[bytes]:
        """Yield the content in blocks of `BLOCK` bytes."""
        for start in range(0, self.size, BLOCK):
            self._file.seek(start)
            yield self._file.read(min(BLOCK, self.size - start))

    def publish(self, target: Path, *, overwrite: bool) -> None:
        """Write the file to the disk and give it its path; `FileExistsError` if that is taken.

        Raises:
            DownloadError: it is in its place, but the disk may not know that yet.
        """
        source = self._path
        if source is None:
            raise ValueError("a file without a name has no place")
        if not self._file.closed:
            sync_descriptor(self._file.fileno())
            self._close_before_renaming()
        if overwrite:
            source.replace(target)
        else:
            publish_file(source, target)
        # The file is whole at its place. A second name that stays is removed by the next run.
        self.discard()
        try:
            sync_folder(target.parent)
        except OSError as error:
            # A power cut could still take the name from it.
            raise disk_fault(error, _NOT_SYNCED, in_place=True) from None

    def discard(self) -> None:
        """Close the file, and remove its name if the system allows it.

        A second call does nothing.
        """
        path, self._path = self._path, None
        if path is not None:
            with suppress(OSError):
                self._close_before_renaming()
            remove(path)
        with suppress(OSError):
            self._file.close()

    def _close_before_renaming(self) -> None:
        # Windows renames and removes no open file. Elsewhere that would give up the lock.
        if not has_locks():
            self._file.close()

    def _hand_over(self) -> None:
        """Make the system start writing to the disk now, rather than all at once at the end."""
        # Linux starts to write such pages back, and does not wait for it.
        if hasattr(os, "posix_fadvise"):
            descriptor, length = self._file.fileno(), self.size - self._handed_over
            with suppress(OSError):
                os.posix_fadvise(descriptor, self._handed_over, length, os.POSIX_FADV_DONTNEED)
        self._handed_over = self.size


def remove_abandoned(folder: Path, names: Iterable[str]) -> None:
    """Remove temporary files that downloads of killed processes left in a folder.

    Where there are no locks, nobody knows which these are, and all are left.
    """
    for name in filter(_ABANDONED.fullmatch, names):
        # What fails is a link, a folder, gone, another user's, or locked by a process at work.
        with suppress(OSError):
            _remove_unlocked(folder / name)


def _remove_unlocked(path: Path) -> None:
    descriptor = open_file(path, os.O_RDWR)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and is_ours(status) and lock_descriptor(descriptor):
            path.unlink()
    finally:
        os.close(descriptor)


class Spool:
    """A file that is being written; every method raises `DownloadError` if the disk has failed.

    While a block is written and hashed in a thread, the next one is gathered, so that the disk and
    the network work at the same time. ``create`` makes the file, with the first block. Leaving the
    spool as a context discards what is not published.
    """

    def __init__(self, create: Callable[[], TemporaryFile]) -> None:
        self._create = create
        self._file: TemporaryFile | None = None
        self._pieces: list[bytes] = []
        self._gathered = 0
        self._writing: asyncio.Future[TemporaryFile] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def write(self, piece: bytes) -> None:
        """Append a piece; wait only while another block is on its way to the disk."""
        self._pieces.append(piece)
        self._gathered += len(piece)
        if self._gathered >= AT_ONCE:
            await self._wait_for_block()
            block = self._take_block()
            loop = asyncio.get_running_loop()
            self._writing = loop.run_in_executor(None, self._write_block, block)

    async def start_over(self) -> None:
        """Delete the content."""
        await self._wait_for_block()
        self._take_block()
        if self._file is not None:
            await on_disk(self._file.clear)

    async def finish(
        self,
        work: Callable[[TemporaryFile], T],
        on_cancel: Callable[[], None] | None = None,
        executor: Executor | None = None,
    ) -> T:
        """Write the remaining bytes, then run the last work on the file in the same thread."""
        await self._wait_for_block()
        block = self._take_block()
        return await on_disk(lambda: work(self._write_block(block)), on_cancel, executor)

    async def aclose(self) -> None:
        """Discard the file unless it is published; a second call does nothing."""
        cancellation = None
        if self._writing is not None:
            cancellation = await wait_for_end(self._writing)
            write, self._writing = self._writing, None
            write.exception()  # the download has an error or a result already
        if self._file is not None and not self._file.is_closed:
            await run_to_the_end(self._file.discard)
        if cancellation is not None:
            raise cancellation

    def _take_block(self) -> bytes:
        block = b"".join(self._pieces)
        self._pieces = []
        self._gathered = 0
        return block

    async def _wait_for_block(self) -> None:
        """Wait for the block that is being written; a cancelled wait leaves it running."""
        if self._writing is None:
            return
        await asyncio.wait((self._writing,))
        write, self._writing = self._writing, None
        try:
            write.result()
        except OSError as error:
            raise disk_fault(error) from None

    def _write_block(self, block: bytes) -> TemporaryFile:
        """Write a block in a thread; once this has failed, the file is closed."""
        if self._file is None:
            self._file = self._create()
        if self._file.is_closed:
            raise DownloadError(_CLOSED)
        try:
            self._file.write(block)
        except OSError:
            self._file.discard()
            raise
        return self._file


async def on_disk(
    work: Callable[[], T],
    on_cancel: Callable[[], None] | None = None,
    executor: Executor | None = None,
) -> T:
    """Do some work on the disk in a thread, to its end; raise `DownloadError` if it fails."""
    try:
        return await run_to_the_end(work, on_cancel, executor)
    except OSError as error:
        raise disk_fault(error) from None


def disk_fault(error: OSError, what: str = _NOT_KEPT, *, in_place: bool = False) -> DownloadError:
    """Return the download error for one of the operating system; without a path, and final."""
    reason = error.strerror or os.strerror(error.errno or 0)
    return DownloadError(
        f"{what}: {reason[:1].lower()}{reason[1:]}",
        disk_failed=error.errno in _OF_THE_DISK,
        in_place=in_place,
    )
