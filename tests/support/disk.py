"""A disk that fails or is full, and store files that are full, damaged or out of reach."""

import errno
import fcntl
import io
import os
import resource
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import define, field

from income_client.checkpoints import SQLiteCheckpointStore
from income_client.testing.store_contract import _make_letter

_CALLS: Final = (
    *("chmod", "close", "fchmod", "fdatasync", "fstat", "fsync", "link", "lstat", "mkdir", "open"),
    *("posix_fadvise", "rename", "replace", "scandir", "stat", "unlink", "write"),
)
"""Functions of `os` that may fail, beside locks and the opening, reading and closing of files."""

_DESCRIPTORS: Final = Path("/proc/self/fd")


def first_free() -> int:
    """Return the number of the next descriptor that this process opens."""
    free = os.dup(0)
    os.close(free)
    return free


@contextmanager
def without_descriptors(spare: int = 0) -> Iterator[None]:
    """Leave this process no more than some file descriptors to open within the block."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (first_free() + spare, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@define
class FailingDisk:
    """Counts the calls about a folder, and fails one of them."""

    folder: Path
    number: int
    """The call that fails, counted from 0."""
    error: int
    """Number of the failure, as in `errno`."""
    calls: list[str] = field(factory=list)

    @property
    def failed(self) -> str | None:
        """The name of the call that failed; None if there were not so many."""
        return self.calls[self.number] if len(self.calls) > self.number else None

    @property
    def opened(self) -> list[Path]:
        paths = [_path_of(int(one.name)) for one in _DESCRIPTORS.iterdir()]
        return [path for path in paths if path is not None and self._holds(path)]

    def reach(self, name: str, place: object) -> None:
        path = _path_of(place) if isinstance(place, int) else Path(str(place))
        if path is not None and self._holds(path):
            self.calls.append(name)
            if len(self.calls) == self.number + 1:
                raise OSError(self.error, os.strerror(self.error), str(path))

    def _holds(self, path: Path) -> bool:
        return path == self.folder or self.folder in path.parents


@contextmanager
def failing_disk(folder: Path, number: int, error: int, *, locks: bool) -> Iterator[FailingDisk]:
    """Fail the call with this number, of those about a folder without a link in its path."""
    disk = FailingDisk(folder, number, error)
    real_flock = fcntl.flock

    class File(io.FileIO):
        def read(self, size: int | None = -1, /) -> Any:
            disk.reach("read", self.fileno())
            return super().read(size)

        def close(self) -> None:
            path = None if self.closed else _path_of(self.fileno())
            super().close()
            disk.reach("close", path)

    def fdopen(descriptor: int, *_: Any, **__: Any) -> File:
        disk.reach("fdopen", descriptor)
        return File(descriptor, "r+b")

    def flock(descriptor: int, operation: int) -> None:
        disk.reach("flock", descriptor)
        if not locks:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        real_flock(descriptor, operation)

    with pytest.MonkeyPatch.context() as patch:
        for name in _CALLS:
            patch.setattr(os, name, _counted(disk, name, getattr(os, name)))
        patch.setattr(os, "fdopen", fdopen)
        patch.setattr(fcntl, "flock", flock)
        yield disk


def _counted(disk: FailingDisk, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def counted(place: Any, *arguments: Any, **options: Any) -> Any:
        if name != "close":
            disk.reach(name, place)
            return call(place, *arguments, **options)
        # Whatever it says, the descriptor is gone.
        path = _path_of(place)
        call(place)
        return disk.reach(name, path)

    return counted


def _path_of(descriptor: int) -> Path | None:
    try:
        target = str((_DESCRIPTORS / str(descriptor)).readlink())
    except FileNotFoundError:
        return None
    return Path(target.removesuffix(" (deleted)"))


@contextmanager
def no_room_above(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond this many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def room_for(files: int, error: int) -> Iterator[None]:
    """Let the disk take so many downloads, and fail all later ones like this, as in `errno`."""
    write, taken = os.write, set[str]()

    def limited(descriptor: int, data: bytes) -> int:
        path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        if path.endswith(".part") and path not in taken:
            if len(taken) == files:
                raise OSError(error, os.strerror(error))
            taken.add(path)
        return write(descriptor, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", limited)
        yield


# Files of a store

letter = _make_letter
NOBODY = 65534


async def filled(path: Path) -> SQLiteCheckpointStore:
    store = SQLiteCheckpointStore(path)
    letters = [letter(number) for number in range(60)]
    await store.save("default", "so far and no further", version=0, dead_letters=letters)
    await store.save("night", "much further" * 400, version=0)
    return store


def run_in(path: Path, *statements: str) -> list[Any]:
    """Change or ask a database from outside, and return what the last statement gives."""
    rows = []
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            rows = connection.execute(statement).fetchall()
    return rows


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return mode and bytes of everything in a folder, by name."""
    return {path.name: (path.stat().st_mode, path.read_bytes()) for path in folder.iterdir()}


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """Keep others from writing until the block ends, or until the connection is rolled back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


@contextmanager
def owned_by_another_user(*paths: Path) -> Iterator[None]:
    """Make the system report another user as the owner of some files or folders."""
    real = Path.stat

    def stat(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        found = real(path, follow_symlinks=follow_symlinks)
        if path not in paths:
            return found
        return os.stat_result([*found[:4], NOBODY, *found[5:10]])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "stat", stat)
        patch.setattr(Path, "lstat", lambda path: stat(path, follow_symlinks=False))
        yield


@contextmanager
def folder_of_ordinary_user() -> Iterator[Path]:
    """Lend a folder and, to a superuser, the rights of an ordinary user."""
    was_root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as name:
        if was_root:
            os.chown(name, NOBODY, -1)
            os.seteuid(NOBODY)
        try:
            yield Path(name)
        finally:
            Path(name).chmod(0o700)
            if was_root:
                os.seteuid(0)
