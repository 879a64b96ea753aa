"""A file on its way: written and hashed in threads while more of it comes, then put in its place.

On the disk it is a hidden part beside its target. The name of a part identifies a version of a
file, so that a later process can continue what a killed one has left; a lock on it says
whether a process is at work on it.
"""

import asyncio
import errno
import hashlib
import os
import secrets
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import IO, Final, Self, TypeVar

from income_client.concurrency import outlast, run_to_the_end
from income_client.disk import (
    file_of,
    new_file,
    open_file,
    remove,
    size_of_file,
    sync_descriptor,
    sync_folder,
)
from income_client.errors import DownloadError

from .naming import HEAD_BYTES

T = TypeVar("T")

AT_ONCE: Final = 128 * 1024
"""Bytes that are written at once. A process that is killed loses what it has gathered since."""
BLOCK: Final = 2**20
"""Bytes that are read at once."""

_AHEAD: Final = 32 * BLOCK
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_NO_VERSION: Final = "-"
_PART: Final = ".part"
_TRIES: Final = 16
_NO_LINKS: Final = frozenset(
    {errno.EPERM, errno.EACCES, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK},
)
_OF_THE_DISK: Final = frozenset({errno.EDQUOT, errno.EIO, errno.ENOSPC, errno.EROFS})
"""Errors that other files on the same disk meet as well."""
_CLOSED: Final = "the file is closed"
_NOT_KEPT: Final = "the file cannot be kept"
_NOT_SYNCED: Final = "the file is in its place, but may be lost in a power cut"


def digits_of(*texts: object) -> str:
    """Return 16 hex digits that identify these texts."""
    joined = "\n".join(map(str, texts))
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def version_of(subject: str, total: int | None, etag: str | None) -> str | None:
    """Return digits of one version of one file; None if nothing identifies it."""
    # The subject says which file: an entity tag identifies a version of one object only.
    # After a loss of power the tail of a file may be zeros: another boot's is not continued.
    boot = _boot_id()
    return digits_of(subject, total, etag, boot) if total is not None and etag and boot else None


def parts_of(target: str, names: Iterable[str]) -> list[str]:
    """Return those of these names of files that are parts of a target."""
    beginning = f".{digits_of(target)}."
    return [name for name in names if name.startswith(beginning) and name.endswith(_PART)]


class PartFile:
    """A private file, its size and the SHA-256 of its content; used by one thread at a time.

    Without a version, no other process can continue it.
    """

    def __init__(
        self,
        file: IO[bytes],
        path: Path | None = None,
        version: str | None = None,
        *,
        is_locked: bool = False,
    ) -> None:
        self._file = file
        self._path = path
        self.version = version
        self._is_locked = is_locked
        self._hash = hashlib.sha256()
        self.size: int = 0
        self.head: bytes = b""
        self._handed_over = 0

    @classmethod
    def unnamed(cls, version: str | None = None) -> Self:
        """Make an empty one that is gone once it is closed."""
        return cls(tempfile.TemporaryFile(buffering=0), version=version)

    @property
    def is_closed(self) -> bool:
        """Whether it is published, kept or discarded."""
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
        self._count(block)
        if self.size - self._handed_over >= _AHEAD:
            self._hand_over()

    def read_in(self) -> None:
        """Count and hash what was in the file before it was opened."""
        while block := self._file.read(BLOCK):
            self._count(block)

    def blocks(self, size: int = BLOCK) -> Iterator[bytes]:
        """Yield what was written, in blocks of so many bytes."""
        for start in range(0, self.size, size):
            self._file.seek(start)
            yield self._file.read(min(size, self.size - start))

    def publish(self, target: Path, *, overwrite: bool) -> None:
        """Bring it to the disk and put it in its place; `FileExistsError` if that is taken.

        Raises:
            DownloadError: it is in its place, but the disk may not know that yet.
        """
        part = self._path
        if part is None:
            raise ValueError("a file without a name has no place")
        if not self._file.closed:
            sync_descriptor(self._file.fileno())
            self._let_go()
        if overwrite:
            part.replace(target)
        else:
            _name_once(part, target)
        # The file is whole at its place. A second name that stays is removed by the next run.
        self.discard()
        try:
            sync_folder(target.parent)
        except OSError as error:
            # A power cut could still take the name from it.
            raise disk_fault(error, _NOT_SYNCED, in_place=True) from None

    def discard(self) -> None:
        """Close it, and remove its part if the disk lets it; again does nothing."""
        path, self._path = self._path, None
        if path is not None:
            with suppress(OSError):
                self._let_go()
            remove(path)
        with suppress(OSError):
            self.close()

    def keep(self) -> None:
        """Close it, and leave it for the next process if that can continue it."""
        if self.version is None or self.size == 0 or not self._is_locked:
            self.discard()
        self._path = None
        self.close()

    def close(self) -> None:
        """Close it; one without a name is gone then."""
        self._file.close()

    def _count(self, block: bytes) -> None:
        self._hash.update(block)
        self.size += len(block)
        if len(self.head) < HEAD_BYTES:
            self.head += block[: HEAD_BYTES - len(self.head)]

    def _let_go(self) -> None:
        """Close it before it is renamed or removed, if that gives up no lock."""
        # Windows, which has no such locks, renames and removes no open file.
        if not self._is_locked:
            self.close()

    def _hand_over(self) -> None:
        """Have the disk begin with what it would have to do at the end, all at once."""
        # Linux starts to write such pages back, and does not wait for it.
        if hasattr(os, "posix_fadvise"):
            descriptor, length = self._file.fileno(), self.size - self._handed_over
            with suppress(OSError):
                os.posix_fadvise(descriptor, self._handed_over, length, os.POSIX_FADV_DONTNEED)
        self._handed_over = self.size


def create(folder: Path, target: str, version: str | None) -> PartFile:
    """Make an empty part of a target in a folder."""
    beginning = f".{digits_of(target)}.{version or _NO_VERSION}"
    for _ in range(_TRIES):
        path = folder / f"{beginning}.{secrets.token_hex(4)}{_PART}"
        descriptor = new_file(path)
        with ExitStack() as stack:
            stack.callback(remove, path)
            file = stack.enter_context(file_of(descriptor, "r+b"))
            # Meanwhile another process may have taken it for an abandoned one.
            with suppress(BlockingIOError):
                is_locked = _lock(file.fileno())
                if _is_at(path, file.fileno()):
                    stack.pop_all()
                    return PartFile(file, path, version, is_locked=is_locked)
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))


def adopt(folder: Path, names: Iterable[str]) -> PartFile | None:
    """Take over the longest of these parts that a killed process has left; remove the others."""
    left = [part for name in names if (part := _left(folder / name)) is not None]
    left.sort(key=lambda part: part.size)
    adopted = left.pop() if left and left[-1].size else None
    for useless in left:
        with suppress(OSError):
            useless.discard()
    return adopted


def _left(path: Path) -> PartFile | None:
    """Open a part unless a process is at work on it; one that cannot be continued is not read."""
    version = path.name.split(".")[2]
    # What fails is a link, a folder, gone, another user's, or locked by a process at work.
    with suppress(OSError), ExitStack() as stack:
        descriptor = open_file(path, os.O_RDWR)
        file = stack.enter_context(file_of(descriptor, "r+b"))
        facts = os.fstat(descriptor)
        # Where there are no locks, there may be a process at work, and no users either.
        is_free = _lock(descriptor) and _is_at(path, descriptor)
        if is_free and stat.S_ISREG(facts.st_mode) and facts.st_uid == os.geteuid():
            part = PartFile(file, path, version, is_locked=True)
            # With a second link it is a target that was published just before the end.
            if version != _NO_VERSION and facts.st_nlink == 1:
                part.read_in()
            stack.pop_all()
            return part
    return None


@cache
def _boot_id() -> str | None:
    """Return what identifies this boot of the machine; None if unknown."""
    try:
        return _BOOT_ID.read_text("ascii")
    except (OSError, UnicodeError):
        return None


def _name_once(part: Path, final: Path) -> None:
    if not _has_flock():
        # Windows: its rename replaces nothing. A second name could not be removed while another
        # download reads the file by the first.
        part.rename(final)
        return
    try:
        os.link(part, final)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # Without links there is a moment in which two processes find the place free.
        if size_of_file(final) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
        part.replace(final)


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _has_flock() -> bool:
    try:
        import fcntl  # noqa: F401, PLC0415 - not every system has it
    except ModuleNotFoundError:
        return False
    return True


def _lock(descriptor: int) -> bool:
    """Lock a file, or return False where there are no locks; `BlockingIOError` if it is locked."""
    if not _has_flock():
        return False
    import fcntl  # noqa: PLC0415 - not every system has it

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


class Spool:
    """A file that is being written; every method raises `DownloadError` if the disk has failed.

    While a block is written and hashed in a thread, the next one is gathered, so that the disk and
    the network work at the same time. Leaving it as a context discards the file, unless that was
    published, or ``keeps_partial`` is set and the next process can continue it. ``left`` is what
    an earlier process has left, and ``create`` makes an empty file with the first block.
    """

    def __init__(
        self, create: Callable[[str | None], PartFile], left: PartFile | None = None
    ) -> None:
        self._create = create
        self._file = left
        self._is_new = left is None
        self.size: int = 0 if left is None else left.size
        self.version = None if left is None else left.version
        self.keeps_partial: bool = False
        self._pieces: list[bytes] = []
        self._gathered = 0
        self._writing: asyncio.Future[PartFile] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def write(self, piece: bytes) -> None:
        """Append a piece; wait only while another block is on its way to the disk."""
        self._pieces.append(piece)
        self._gathered += len(piece)
        self.size += len(piece)
        if self._gathered >= AT_ONCE:
            await self._written()
            block = self._take_block()
            loop = asyncio.get_running_loop()
            self._writing = loop.run_in_executor(None, self._put, block)

    async def start_over(self, version: str | None) -> None:
        """Forget what was written; without a version, no other process can continue it."""
        await self._written()
        self._take_block()
        self.size = 0
        self.version = version
        self._is_new = True

    async def finish(
        self,
        work: Callable[[PartFile], T],
        on_cancel: Callable[[], None] | None = None,
        executor: Executor | None = None,
    ) -> T:
        """Write what is left, and do the last work on the file in the same thread, to its end."""
        self.keeps_partial = False
        await self._written()
        block = self._take_block()
        return await on_disk(lambda: work(self._put(block)), on_cancel, executor)

    async def aclose(self) -> None:
        """Discard or keep what is not published; again does nothing."""
        cancellation = None
        if self._writing is not None:
            cancellation = await outlast(self._writing)
            done, self._writing = self._writing, None
            done.exception()  # the download has an error or a result already
        is_kept = self.keeps_partial and (self._gathered > 0 or not self._is_new)
        block = self._take_block() if is_kept else b""
        if block or (self._file is not None and not self._file.is_closed):
            await run_to_the_end(lambda: self._ended(block, is_kept=is_kept))
        if cancellation is not None:
            raise cancellation

    def _take_block(self) -> bytes:
        block = b"".join(self._pieces)
        self._pieces = []
        self._gathered = 0
        return block

    async def _written(self) -> None:
        """Wait for the block that is on its way; it stays so if the wait is cancelled."""
        if self._writing is None:
            return
        await asyncio.wait((self._writing,))
        done, self._writing = self._writing, None
        try:
            done.result()
        except OSError as error:
            raise disk_fault(error) from None

    def _put(self, block: bytes) -> PartFile:
        """Write a block in a thread; once this has failed, the file is closed."""
        if self._is_new:
            self._is_new = False
            old, self._file = self._file, None
            if old is not None:
                old.discard()
            self._file = self._create(self.version)
        if self._file is None or self._file.is_closed:
            raise DownloadError(_CLOSED)
        try:
            self._file.write(block)
        except OSError:
            self._file.discard()
            raise
        return self._file

    def _ended(self, block: bytes, *, is_kept: bool) -> None:
        with suppress(OSError, DownloadError):
            if is_kept:
                self._put(block).keep()
            elif self._file is not None:
                self._file.discard()


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
