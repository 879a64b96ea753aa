"""Folders on disk, held open by descriptor; knows nothing of what is put into them.

Whoever can rename a folder could otherwise send a file elsewhere between the
check of a path and its use. Windows cannot hold a folder open: there a folder
is its path.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

_NO_SYNC: Final = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOSYS})
_CAN_HOLD: Final = os.open in os.supports_dir_fd
# Windows lacks most flags, and needs one that others lack.
_NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_SAFELY: Final = _NO_FOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_PRIVATE: Final = 0o700


class Folder:
    """A folder that is held open; every name is one component in it.

    Attributes:
        path: where it was when it was opened.
    """

    def __init__(self, descriptor: int | None, path: Path) -> None:
        self._descriptor = descriptor
        self.path = path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with suppress(OSError):
            self.close()

    def close(self) -> None:
        """Let go of it; a second time does nothing."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, -1
            if descriptor >= 0:
                os.close(descriptor)

    @property
    def identity(self) -> tuple[int, int]:
        """Which one it is, whatever it is called."""
        facts = self.path.stat() if self._descriptor is None else os.fstat(self._descriptor)
        return facts.st_dev, facts.st_ino

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Open a file without following a link or waiting for a pipe's other end."""
        return os.open(self._at(name), flags | _SAFELY, mode, dir_fd=self._descriptor)

    def find(self, name: str) -> os.stat_result | None:
        """Return what stands there, a link itself rather than its end; None for nothing."""
        try:
            return os.stat(self._at(name), dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def names(self) -> Iterator[str]:
        """Yield the names of all that is in it."""
        with os.scandir(self.path if self._descriptor is None else self._descriptor) as entries:
            for entry in entries:
                yield entry.name

    def link(self, name: str, other: str) -> None:
        """Give a file a second name; never replace anything."""
        held = self._descriptor
        if held is None:
            os.link(self._at(name), self._at(other))
        else:
            os.link(name, other, src_dir_fd=held, dst_dir_fd=held, follow_symlinks=False)

    def replace(self, name: str, other: str) -> None:
        """Rename a file, in place of what has the other name."""
        held = self._descriptor
        os.replace(self._at(name), self._at(other), src_dir_fd=held, dst_dir_fd=held)

    def unlink(self, name: str) -> None:
        """Remove a name; that it is gone already is as good."""
        with suppress(FileNotFoundError):
            os.unlink(self._at(name), dir_fd=self._descriptor)

    def sync(self) -> None:
        """Bring its names to the disk, where the file system knows how."""
        if self._descriptor is not None:
            sync_descriptor(self._descriptor)

    def inner(self, name: str, *, make: bool) -> "Folder":
        """Open a folder in this one; a symbolic link is none.

        Args:
            name: one component.
            make: whether to make it where nothing is, for its owner alone.

        Raises:
            OSError: it is no folder, or cannot be had.
        """
        if make and self.find(name) is None:
            with suppress(FileExistsError):
                os.mkdir(self._at(name), _PRIVATE, dir_fd=self._descriptor)
                self.sync()
        found = self.find(name)
        if found is not None and stat.S_ISLNK(found.st_mode):
            raise OSError(errno.ELOOP, "a symbolic link stands where a folder is to be")
        descriptor = _held(self._at(name), _NO_FOLLOW, self._descriptor)
        return Folder(descriptor, self.path / name)

    def _at(self, name: str) -> str | Path:
        return self.path / name if self._descriptor is None else name


def open_folder(path: Path, inner: Sequence[str] = (), *, make: bool = False) -> Folder:
    """Open a folder, and follow no link below it.

    Args:
        path: the caller's own; links in it are followed.
        inner: names of folders further in.
        make: whether to make what is missing, for its owner alone.

    Raises:
        OSError: something on the way is no folder, or cannot be had.
    """
    if make:
        _make(path)
    folder = Folder(_held(path), path)
    for name in inner:
        with folder:
            folder = folder.inner(name, make=make)
    return folder


def sync_descriptor(descriptor: int) -> None:
    """Bring a file or folder to the disk, where the file system knows how."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def _held(path: str | Path, flags: int = 0, within: int | None = None) -> int | None:
    """Hold a folder open; where that cannot be done, make sure that it is one."""
    if _CAN_HOLD:
        return os.open(path, _FOLDER | flags, dir_fd=within)
    if not stat.S_ISDIR(Path(path).stat().st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    return None


def _make(path: Path) -> None:
    missing = [path, *path.parents]
    while missing and missing[-1].is_dir():
        missing.pop()
    for folder in reversed(missing):
        with suppress(FileExistsError):
            folder.mkdir(_PRIVATE)
