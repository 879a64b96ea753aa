"""Files on their way, written and hashed from front to back, beside the place where they go.

The name of a part says what it is a part of, so that a later process can continue what a killed
one has left. A lock says whether a process is at work on it. Everything here is done in threads,
by one at a time.
"""

import base64
import binascii
import errno
import hashlib
import os
import re
import secrets
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from enum import Enum, auto
from functools import lru_cache
from pathlib import Path
from typing import Final, Self

from attrs import frozen

from income_client.disk import sync_descriptor, sync_folder
from income_client.errors import DownloadError

from .naming import HEAD_BYTES

BLOCK: Final = 2**20
"""Bytes that are read at once."""

_AHEAD: Final = 32 * BLOCK
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_FIRST_DIGITS: Final = re.compile(r"[0-9a-f]{8}")
_PRIVATE: Final = 0o600
_PRIVATE_FOLDER: Final = 0o700
_TRIES: Final = 16
_MOST_SEEN: Final = 4096
_DAY_SECONDS: Final = 86_400
_NO_LINKS: Final = frozenset(
    {errno.EPERM, errno.EACCES, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK},
)
# Windows lacks most flags, and needs one that others lack.
_SAFELY: Final = (
    getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)
_NAME: Final = re.compile(
    r"\.(?P<target>[0-9a-f]{16})\.(?P<mark>-|[A-Za-z0-9_=-]{2,136})"
    r"\.(?P<boot>[0-9a-f]{8})\.(?P<chance>[0-9a-f]{8})\.part",
)
_STRONG: Final = re.compile(r'"[!#-~]{1,98}"')
_MARK: Final = re.compile(
    r'"(?P<subject>[0-9a-f]{16})\.(?P<total>0|[1-9][0-9]{0,17})\.(?P<etag>[!#-~]{1,62})"'
)
_NO_MARK: Final = "-"
_NO_BOOT: Final = "00000000"


@frozen
class Mark:
    """One version of one file, as a short text for the name of a part.

    An entity tag tells versions of one object apart, not objects: so it counts only together with
    the document and the address without its signature.
    """

    subject: str
    """Which file, as 16 hex digits."""
    total: int
    """Its length in bytes."""
    etag: str
    """Its strong entity tag, quotes included."""

    def __str__(self) -> str:
        return f'"{self.subject}.{self.total}.{self.etag[1:-1]}"'


def mark_of(subject: str, total: int | None, etag: str | None) -> Mark | None:
    """Return the mark of a version; None if it cannot be told from others."""
    if total is None or etag is None:
        return None
    return read_mark(str(Mark(subject, total, etag)))


def read_mark(text: str | None) -> Mark | None:
    """Read the text of a mark; None if it is invalid."""
    found = _MARK.fullmatch(text or "")
    if found is None:
        return None
    return Mark(found["subject"], int(found["total"]), f'"{found["etag"]}"')


@frozen
class PartName:
    """The name of a part; its text is the file's name."""

    target: str
    """16 hex digits of the SHA-256 of the target's name, its extension aside."""
    mark: str | None
    """The mark of what it is a part of."""
    boot: str
    """8 hex digits of the boot in which it was written; zeros if unknown."""
    chance: str
    """8 random hex digits."""

    @classmethod
    def of(cls, target: str, mark: str | None, boot: str | None, chance: str) -> Self:
        """Make the name of a new part of a target."""
        return cls(_short(target), mark, boot or _NO_BOOT, chance)

    @classmethod
    def read(cls, name: str, target: str) -> Self | None:
        """Read the name of a file; None if it is not a part of the target."""
        found = _NAME.fullmatch(name)
        if found is None or found["target"] != _short(target):
            return None
        return cls(found["target"], _decoded(found["mark"]), found["boot"], found["chance"])

    def __str__(self) -> str:
        mark = _NO_MARK if self.mark is None else _encoded(self.mark)
        return f".{self.target}.{mark}.{self.boot}.{self.chance}.part"

    def is_of(self, boot: str | None) -> bool:
        """Say whether a process of this boot has written it."""
        return self.boot == (boot or _NO_BOOT)

    def can_be_adopted(self, boot: str | None) -> bool:
        """Say whether a process of this boot can rely on its content."""
        # After a loss of power the tail of a file may be zeros: another boot's is not trusted.
        return self.mark is not None and boot is not None and self.boot == boot


def is_strong(mark: str | None) -> bool:
    """Say whether a mark identifies the same bytes, and fits into a name."""
    return mark is not None and _STRONG.fullmatch(mark) is not None


class HashedFile:
    """A temporary file, its size and the SHA-256 of its content; gone once it is closed.

    Attributes:
        size: bytes written.
        head: the first of them, enough to tell the format.
        mark: the mark of the content.
    """

    def __init__(self, descriptor: int, mark: str | None = None) -> None:
        self._file = os.fdopen(descriptor, "r+b", buffering=0)
        self.mark = mark
        self.rewind()

    @classmethod
    def unnamed(cls, mark: str | None) -> "HashedFile":
        """Make an empty one without a name."""
        with tempfile.TemporaryFile(buffering=0) as file:
            return HashedFile(os.dup(file.fileno()), mark)

    @property
    def descriptor(self) -> int:
        """The file descriptor."""
        return self._file.fileno()

    @property
    def sha256(self) -> str:
        """The SHA-256 of what was written so far, in hex."""
        return self._hash.hexdigest()

    def write(self, *pieces: bytes) -> None:
        """Append all of them."""
        block = b"".join(pieces)
        rest = memoryview(block)
        while rest:
            rest = rest[os.write(self.descriptor, rest) :]
        self._count(block)

    def read_in(self) -> None:
        """Count and hash what was in the file before it was opened."""
        self.rewind()
        while block := os.read(self.descriptor, BLOCK):
            self._count(block)

    def rewind(self) -> None:
        """Start again from the front."""
        self._hash = hashlib.sha256()
        self.size: int = 0
        self.head: bytes = b""
        if self._file.seekable():
            self._file.seek(0)

    def blocks(self, size: int = BLOCK) -> Iterator[bytes]:
        """Yield what was written, in blocks of so many bytes."""
        for start in range(0, self.size, size):
            self._file.seek(start)
            yield self._file.read(min(size, self.size - start))

    def close(self) -> None:
        """Close it; a second time does nothing."""
        self._file.close()

    def discard(self) -> None:
        """Throw it away."""
        self.close()

    def keep(self) -> None:
        """Leave it for the next process, if that can find it again."""
        self.close()

    def _count(self, data: bytes) -> None:
        self._hash.update(data)
        self.size += len(data)
        if len(self.head) < HEAD_BYTES:
            self.head += data[: HEAD_BYTES - len(self.head)]


class _Lock(Enum):
    """What came of trying to lock a part."""

    HELD = auto()
    TAKEN = auto()
    UNKNOWN = auto()
    """The file system has no locks: it is unknown whether a process is at work on the part."""


class PartFile(HashedFile):
    """A file that is written beside its target, private and locked.

    Attributes:
        folder: where it is.
    """

    def __init__(self, folder: Path, name: PartName, descriptor: int, *, is_locked: bool) -> None:
        super().__init__(descriptor, name.mark)
        self.folder = folder
        self._name = name
        self._path = folder / str(name)
        self._is_locked = is_locked
        self._is_over = False
        self._handed_over = 0

    def write(self, *pieces: bytes) -> None:
        """Append all of them."""
        super().write(*pieces)
        if self.size - self._handed_over >= _AHEAD:
            self._hand_over()

    def publish(self, final: str, *, overwrite: bool) -> None:
        """Bring it to the disk and give it its final name, whole, or raise.

        Raises:
            FileExistsError: something has the name, and must not be replaced.
            OSError: the disk refuses.
        """
        if not self._file.closed:
            sync_descriptor(self.descriptor)
            if not self._is_there():
                raise OSError(errno.ENOENT, "the part was removed by somebody else")
            self._let_go()
        if overwrite:
            check_is_regular(self.folder / final)
            self._path.replace(self.folder / final)
        else:
            _name_once(self._path, self.folder / final)
        self._is_over = True
        # The file is whole at its place: what fails from here on is its durability.
        try:
            self._path.unlink(missing_ok=True)
            sync_folder(self.folder)
        finally:
            self.close()

    def discard(self) -> None:
        """Remove it; a second time, or once it is published, does nothing."""
        if not self._is_over:
            self._is_over = True
            try:
                # The file with the name may be another process's by now.
                if self._file.closed or self._is_there():
                    self._let_go()
                    self._path.unlink(missing_ok=True)
            finally:
                self.close()

    def keep(self) -> None:
        """Leave it for the next process; what that could not use is removed."""
        is_of_use = self.size > 0 and self._is_locked and self._name.can_be_adopted(boot_id())
        if not is_of_use:
            self.discard()
        elif not self._is_over:
            self._is_over = True
            self.close()

    def _is_there(self) -> bool:
        return _is_at(self._path, self.descriptor)

    def _let_go(self) -> None:
        """Close it before it is renamed or removed, if that gives up no lock."""
        # Windows, which has no such locks, renames and removes no open file.
        if not self._is_locked:
            self.close()

    def _hand_over(self) -> None:
        """Have the disk begin with what it would have to do at the end, all at once."""
        # Linux starts to write such pages back, and does not wait for it.
        if hasattr(os, "posix_fadvise"):
            length = self.size - self._handed_over
            with suppress(OSError):
                os.posix_fadvise(self.descriptor, self._handed_over, length, os.POSIX_FADV_DONTNEED)
        self._handed_over = self.size


def create(folder: Path, target: str, mark: str | None) -> PartFile:
    """Make an empty part of a target, for its owner alone; only a strong mark is remembered."""
    boot = boot_id()
    strong = mark if is_strong(mark) else None
    for _ in range(_TRIES):
        name = PartName.of(target, strong, boot, secrets.token_hex(4))
        path = folder / str(name)
        descriptor = _open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR)
        try:
            _set_private(descriptor)  # the umask may have taken from it
            # Between these two lines another process may have taken it for an abandoned one.
            lock = _lock(descriptor)
            is_ours = lock is not _Lock.TAKEN and _is_at(path, descriptor)
        except BaseException:
            os.close(descriptor)
            path.unlink(missing_ok=True)
            raise
        if is_ours:
            return PartFile(folder, name, descriptor, is_locked=lock is _Lock.HELD)
        os.close(descriptor)
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))


class FoldersSeen:
    """Which parts were in each folder at the first look: one look, however many files go there."""

    def __init__(self) -> None:
        self._parts: dict[Path, tuple[str, ...]] = {}

    def parts_in(self, folder: Path) -> tuple[str, ...]:
        """Return the names of the parts that may be there."""
        known = self._parts.get(folder)
        if known is None:
            with os.scandir(folder) as entries:
                known = tuple(one.name for one in entries if one.name.endswith(".part"))
            if len(self._parts) >= _MOST_SEEN:
                self._parts.clear()
            self._parts[folder] = known
        return known


def has_part(folder: Path, target: str, seen: FoldersSeen | None = None) -> bool:
    """Say whether a part of a target may be in a folder."""
    parts = (seen or FoldersSeen()).parts_in(folder)
    return any(PartName.read(name, target) for name in parts)


def adopt(folder: Path, target: str, seen: FoldersSeen | None = None) -> PartFile | None:
    """Take over the longest part that a killed process has left of a target; remove the others."""
    boot = boot_id()
    found = []
    for text in (seen or FoldersSeen()).parts_in(folder):
        name = PartName.read(text, target)
        facts = None if name is None else find(folder / text)
        if name is not None and facts is not None:
            found.append((facts.st_size, name))
    adopted: PartFile | None = None
    for _, name in sorted(found, key=lambda one: one[0], reverse=True):
        adopted = _take(folder, name, boot, may_adopt=adopted is None) or adopted
    if adopted is not None:
        try:
            adopted.read_in()
        except BaseException:
            adopted.keep()
            raise
    return adopted


def _take(folder: Path, name: PartName, boot: str | None, *, may_adopt: bool) -> PartFile | None:
    """Adopt one part or remove it; leave it if a process is at work on it, or it is not ours."""
    path = folder / str(name)
    try:
        descriptor = _open(path, os.O_RDWR)
    except OSError:  # a link, a folder, gone meanwhile, or another user's
        return None
    is_adopted = False
    try:
        facts = os.fstat(descriptor)
        # Where there are no locks, there may be no users either.
        if not stat.S_ISREG(facts.st_mode) or _lock(descriptor) is not _Lock.HELD:
            return None
        if facts.st_uid != os.geteuid() or not _is_at(path, descriptor):
            return None
        is_private = stat.S_IMODE(facts.st_mode) == _PRIVATE and facts.st_nlink == 1
        is_adopted = may_adopt and is_private and facts.st_size > 0 and name.can_be_adopted(boot)
        if is_adopted:
            return PartFile(folder, name, descriptor, is_locked=True)
        # A second link to it is a target that was published just before the end. What another
        # boot has written may be another machine's on the same network folder, at work.
        is_from_elsewhere = not name.is_of(boot) and time.time() - facts.st_mtime < _DAY_SECONDS
        if not is_from_elsewhere:
            with suppress(OSError):
                path.unlink()
        return None
    finally:
        if not is_adopted:
            os.close(descriptor)


@lru_cache(maxsize=1)
def boot_id() -> str | None:
    """Return 8 hex digits that tell this boot of the machine from others; None if unknown."""
    try:
        text = _BOOT_ID.read_text("ascii")
    except (OSError, UnicodeError):
        return None
    found = _FIRST_DIGITS.match(text)
    return None if found is None else found[0]


def folder_at(path: Path, inner: Sequence[str] = (), *, make: bool = False) -> Path:
    """Return a folder, and make what is missing of it, for its owner alone.

    Args:
        path: the caller's own; links in it are followed.
        inner: names of folders further in, none of which may be a link.
        make: whether to make what is missing.

    Raises:
        OSError: something on the way is not a folder, or cannot be made.
    """
    if make:
        missing = [path, *path.parents]
        while missing and missing[-1].is_dir():
            missing.pop()
        for folder in reversed(missing):
            with suppress(FileExistsError):
                folder.mkdir(_PRIVATE_FOLDER)
    _check_is_folder(path.stat())
    for name in inner:
        outer, path = path, path / name
        if make and find(path) is None:
            with suppress(FileExistsError):
                path.mkdir(_PRIVATE_FOLDER)
                sync_folder(outer)
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode):
            raise OSError(errno.ELOOP, "a symbolic link stands where a folder is to be")
        _check_is_folder(found)
    return path


def find(path: Path | str) -> os.stat_result | None:
    """Return what is there, a link itself rather than its end; None for nothing."""
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def check_is_regular(path: Path | str) -> os.stat_result | None:
    """Return what is where a file is to go, None for nothing; raise if it is not a file."""
    found = find(path)
    if found is None or stat.S_ISREG(found.st_mode):
        return found
    kinds = ((stat.S_ISLNK, "a symbolic link"), (stat.S_ISDIR, "a folder"))
    kind = next((text for is_kind, text in kinds if is_kind(found.st_mode)), "no regular file")
    raise FileExistsError(errno.EEXIST, f"{kind} stands where it is to go")


def make_private(path: Path) -> None:
    """Take from a file what others may do with it, if it is ours."""
    with suppress(OSError):
        descriptor = _open(path, os.O_RDONLY)
        try:
            if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o077:
                _set_private(descriptor)
        finally:
            os.close(descriptor)


def hash_file(path: Path, algorithm: str) -> str:
    """Read a file through the hash of this name, and return it in hex."""
    # Neither hash is there to keep a secret.
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with os.fdopen(_open(path, os.O_RDONLY), "rb", buffering=0) as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def disk_fault(error: OSError) -> DownloadError:
    """Return the download error for one of the operating system; without a path, and final."""
    reason = error.strerror or os.strerror(error.errno or 0)
    return DownloadError(f"the file cannot be kept: {reason[:1].lower()}{reason[1:]}")


def _open(path: Path, flags: int) -> int:
    """Open a file without following a link or waiting for a pipe's other end."""
    return os.open(path, flags | _SAFELY, _PRIVATE)


def _check_is_folder(found: os.stat_result) -> None:
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))


def _set_private(descriptor: int) -> None:
    """Let the owner alone read a file; Windows has no such mode."""
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, _PRIVATE)


def _name_once(part: Path, final: Path) -> None:
    try:
        os.link(part, final)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # Without links there is a moment in which two processes find the place free.
        if find(final) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
        part.replace(final)


def _is_at(path: Path, descriptor: int) -> bool:
    found = find(path)
    return found is not None and os.path.samestat(found, os.fstat(descriptor))


def _lock(descriptor: int) -> _Lock:
    try:
        import fcntl  # noqa: PLC0415 - not every system has it, and the rest goes without
    except ModuleNotFoundError:
        return _Lock.UNKNOWN
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _Lock.TAKEN
    except OSError:
        return _Lock.UNKNOWN
    return _Lock.HELD


def _short(target: str) -> str:
    return hashlib.sha256(target.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _encoded(mark: str) -> str:
    return base64.urlsafe_b64encode(mark.encode("ascii")).decode("ascii")


def _decoded(text: str) -> str | None:
    if text == _NO_MARK:
        return None
    try:
        mark = base64.b64decode(text, altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, UnicodeError):
        return None
    # Only what would be written so again leads back to this name.
    return mark if is_strong(mark) and _encoded(mark) == text else None
