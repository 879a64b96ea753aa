"""Private files and folders: open them without following links, create, lock and sync them."""

import errno
import os
import shlex
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

_NO_SYNC: Final = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOSYS})
_CAN_OPEN_FOLDERS: Final = hasattr(os, "O_DIRECTORY")
"""False on Windows, which cannot open a folder and need not sync it."""
_PRIVATE: Final = 0o600
_PRIVATE_FOLDER: Final = 0o700
_ROOT: Final = 0
_ADVICE: Final = "choose another one, or give it to this user by chown"
_OTHERS: Final = 0o077
"""Permission bits of a mode that allow access to anybody but the owner."""
# Windows lacks most flags, and needs one that others lack.
_SAFELY: Final = (
    getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)


def sync_descriptor(descriptor: int) -> None:
    """Flush an open file or folder to the disk."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def sync_folder(path: Path) -> None:
    """Flush the names in a folder to the disk."""
    if not _CAN_OPEN_FOLDERS:
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync_descriptor(descriptor)
    finally:
        with suppress(OSError):  # nothing was written through it
            os.close(descriptor)


def has_locks() -> bool:
    """Return whether open files can be locked, renamed and removed; False on Windows."""
    try:
        import fcntl  # noqa: F401, PLC0415 - not every system has it
    except ImportError:
        return False
    return True


def lock_descriptor(descriptor: int, *, is_shared: bool = False) -> bool:
    """Lock an open file or folder; return False if the file system has no locks.

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
    """Hold the lock of a folder within a ``with`` block; raise `BlockingIOError` if it is locked.

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
    """Open a file without following a link, and without waiting for the writer of a named pipe."""
    return os.open(path, flags | _SAFELY, _PRIVATE)


def new_file(path: Path) -> int:
    """Create a file for reading and writing with mode 0600, whatever the umask is."""
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
    """Return the file object of a descriptor, which is closed if that fails."""
    try:
        return os.fdopen(descriptor, mode, buffering=0)
    except BaseException:
        os.close(descriptor)
        raise


def remove(path: Path) -> None:
    """Remove a file; leave it if the system refuses."""
    with suppress(OSError):
        path.unlink(missing_ok=True)


def write_file(path: Path, content: bytes) -> None:
    """Write a private file atomically, in place of a file that an earlier run left."""
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
    """Link a file to its final path without replacing another; it may keep its own name too.

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


def is_ours(status: os.stat_result) -> bool:
    """Return whether this user owns a file or folder; True on systems without owners."""
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()


def is_foreign(status: os.stat_result) -> bool:
    """Return whether the owner of a file or folder is neither this user nor root."""
    return not is_ours(status) and status.st_uid != _ROOT


def is_writable_by_others(status: os.stat_result) -> bool:
    """Return whether users may write a file who are not in one of this user's groups."""
    if not hasattr(os, "geteuid"):
        return False
    is_own_group = status.st_gid in {os.getegid(), *os.getgroups()}
    return bool(status.st_mode & (stat.S_IWOTH if is_own_group else stat.S_IWOTH | stat.S_IWGRP))


def chown_command(path: Path) -> str:
    """Return the command that gives a file or folder to this user."""
    return f"chown {os.geteuid()} {shlex.quote(str(path))}"


def is_open_to_others(status: os.stat_result) -> bool:
    """Return whether other users may access a file or folder; False on Windows."""
    return hasattr(os, "geteuid") and bool(status.st_mode & _OTHERS)


def make_private(path: Path) -> None:
    """Remove the permissions of other users from a file that this user owns."""
    with suppress(OSError):
        if is_open_to_others(path.lstat()):
            path.chmod(_PRIVATE)


def is_missing(path: Path) -> bool:
    """Return whether nothing is at a path; False where a folder above may not be entered."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def is_folder(path: Path) -> bool:
    """Return whether a folder is at a path; False where a folder above may not be entered."""
    return os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises for that before Python 3.14


def size_of_file(path: Path) -> int | None:
    """Return the size of the file at a path, None if the path is free.

    Raise if it is not a file.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISREG(status.st_mode):
        return status.st_size
    kinds = ((stat.S_ISLNK, "a symbolic link"), (stat.S_ISDIR, "a folder"))
    kind = next((text for is_kind, text in kinds if is_kind(status.st_mode)), "no regular file")
    raise FileExistsError(errno.EEXIST, f"{kind} is in its place")


def check_folder(path: Path, inner: Sequence[str] = ()) -> Path:
    """Return the path of nested folders; raise if one is a link, missing or of another user.

    The owner of a folder can replace what is in it at any time.
    """
    _check_is_folder(path.stat())
    for name in inner:
        path = path / name
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            raise OSError(errno.ELOOP, "a symbolic link is in the place of a folder")
        _check_is_folder(status)
    return path


def make_folder(path: Path, inner: Sequence[str] = ()) -> Path:
    """Create the missing parts of nested folders with mode 0700, and return the path."""
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


def _check_is_folder(status: os.stat_result) -> None:
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if is_foreign(status):
        # The system has refused nothing, so that there is no number of its error.
        raise OSError(0, f"its folder belongs to another user: {_ADVICE} {os.geteuid()}")
