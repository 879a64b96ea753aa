"""Private files and folders on the disk: opened without following links, made, locked, synced."""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

_NO_SYNC: Final = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOSYS})
_CAN_OPEN_FOLDERS: Final = hasattr(os, "O_DIRECTORY")
"""Windows cannot, and needs no sync of a folder."""
_PRIVATE: Final = 0o600
_PRIVATE_FOLDER: Final = 0o700
_OTHERS: Final = 0o077
"""What a mode allows to anybody but the owner."""
# Windows lacks most flags, and needs one that others lack.
_SAFELY: Final = (
    getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)


def sync_descriptor(descriptor: int) -> None:
    """Bring an open file or folder to the disk."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def sync_folder(path: Path) -> None:
    """Bring the names in a folder to the disk."""
    if not _CAN_OPEN_FOLDERS:
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync_descriptor(descriptor)
    finally:
        with suppress(OSError):  # nothing was written through it
            os.close(descriptor)


def has_locks() -> bool:
    """Say whether open files can be locked, and renamed and removed too; not so on Windows."""
    try:
        import fcntl  # noqa: F401, PLC0415 - not every system has it
    except ImportError:
        return False
    return True


def lock_descriptor(descriptor: int, *, is_shared: bool = False) -> bool:
    """Lock an open file or folder; return False if the system or file system has no locks.

    The lock ends once the descriptor is closed, by the end of the process too.

    Raises:
        BlockingIOError: it is locked already.
    """
    if not has_locks():
        return False
    import fcntl  # noqa: PLC0415 - as above

    try:
        fcntl.flock(descriptor, fcntl.LOCK_NB | (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX))
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


@contextmanager
def locked_folder(path: Path) -> Iterator[None]:
    """Keep others that lock a folder out of it; `BlockingIOError` if one of them has it.

    Where there are no such locks, nothing is kept out.
    """
    if not _CAN_OPEN_FOLDERS:
        yield
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        lock_descriptor(descriptor)
        yield
    finally:
        os.close(descriptor)


def open_file(path: Path, flags: int) -> int:
    """Open a file without following a link or waiting for a pipe's other end."""
    return os.open(path, flags | _SAFELY, _PRIVATE)


def new_file(path: Path) -> int:
    """Make a file for reading and writing, for its owner alone whatever the umask is."""
    descriptor = open_file(path, os.O_CREAT | os.O_EXCL | os.O_RDWR)
    try:
        # Windows has no such mode.
        if hasattr(os, "fchmod"):
            os.fchmod(descriptor, _PRIVATE)
    except BaseException:
        with suppress(OSError):
            os.close(descriptor)
        remove(path)
        raise
    return descriptor


def file_of(descriptor: int, mode: str) -> IO[bytes]:
    """Return the file of a descriptor, which is closed if that fails."""
    try:
        return os.fdopen(descriptor, mode, buffering=0)
    except BaseException:
        os.close(descriptor)
        raise


def remove(path: Path) -> None:
    """Remove a file of no use; one that the disk does not remove is left."""
    with suppress(OSError):
        path.unlink(missing_ok=True)


def write_file(path: Path, content: bytes) -> None:
    """Write a private file, whole or not at all, in place of one that an earlier run left."""
    path.unlink(missing_ok=True)
    descriptor = new_file(path)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            sync_descriptor(descriptor)
    except BaseException:
        remove(path)
        raise


def publish_file(source: Path, place: Path) -> None:
    """Give a file its place, and replace nothing; it may keep its own name too.

    Raises:
        FileExistsError: something is there.
    """
    if not has_locks():
        # Windows: its rename replaces nothing, and a second name could not be removed while
        # another process reads the file by the first.
        source.rename(place)
        return
    try:
        # Unlike a rename, a link is refused where something is.
        os.link(source, place)
    except FileExistsError:
        raise
    except OSError:
        # Some file systems have no second names; there another process may still take the place.
        if os.path.lexists(place):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
        source.rename(place)


def is_ours(found: os.stat_result) -> bool:
    """Say whether a file or folder belongs to this user; where there are no owners, it does."""
    return not hasattr(os, "geteuid") or found.st_uid == os.geteuid()


def is_open_to_others(found: os.stat_result) -> bool:
    """Say whether others than its owner may use a file or folder; Windows has no such modes."""
    return hasattr(os, "geteuid") and bool(found.st_mode & _OTHERS)


def make_private(path: Path) -> None:
    """Take from a file what others may do with it, if it is ours."""
    with suppress(OSError):
        if is_open_to_others(path.lstat()):
            path.chmod(_PRIVATE)


def size_of_file(path: Path) -> int | None:
    """Return the size of the file at a path, None for nothing; raise if it is not a file."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISREG(found.st_mode):
        return found.st_size
    kinds = ((stat.S_ISLNK, "a symbolic link"), (stat.S_ISDIR, "a folder"))
    kind = next((text for is_kind, text in kinds if is_kind(found.st_mode)), "no regular file")
    raise FileExistsError(errno.EEXIST, f"{kind} is in its place")


def check_folder(path: Path, inner: Sequence[str] = ()) -> Path:
    """Return the folder at the end of these names; raise if one of them is a link or missing."""
    _check_is_folder(path.stat())
    for name in inner:
        path = path / name
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode):
            raise OSError(errno.ELOOP, "a symbolic link is in the place of a folder")
        _check_is_folder(found)
    return path


def make_folder(path: Path, inner: Sequence[str] = ()) -> Path:
    """Make what is missing of a folder, for its owner alone, and return it as `check_folder`."""
    missing = [path, *path.parents]
    while missing and missing[-1].is_dir():
        missing.pop()
    for folder in reversed(missing):
        with suppress(FileExistsError):
            folder.mkdir(_PRIVATE_FOLDER)
    for name in inner:
        outer, path = path, path / name
        with suppress(FileExistsError):
            path.mkdir(_PRIVATE_FOLDER)
            sync_folder(outer)
        check_folder(outer, (name,))
    return path


def _check_is_folder(found: os.stat_result) -> None:
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
