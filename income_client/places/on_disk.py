"""Files at their places on disk; knows folders that are held open, not how a name is made."""

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import TypeVar

from attrs import define

from income_client.concurrency import run_to_the_end
from income_client.disk.faults import disk_fault
from income_client.disk.folders import Folder
from income_client.disk.hashed_file import BLOCK
from income_client.disk.partial_files import (
    FoldersSeen,
    PartialFile,
    adopt,
    check_is_regular,
    create,
    make_private,
)
from income_client.disk.spool import SomeSpool, Spool
from income_client.errors import DownloadError

from .place import ANOTHER, Present, Published

T = TypeVar("T")

OpenFolder = Callable[[bool], Folder]
"""Opens the folder of a place; told whether to make what is missing."""


@define
class PartsOf:
    """Where the parts of one target come from."""

    open_folder: OpenFolder
    """Opens the target's folder."""
    target: str
    """What it is called, its extension aside."""
    folder: Folder | None = None
    """It, held open; None as long as there is none."""

    def create(self, mark: str | None) -> PartialFile:
        """Make an empty part, and the folder if need be."""
        if self.folder is None:
            self.folder = self.open_folder(True)  # noqa: FBT003 - to make it
        return create(self.folder, self.target, mark)

    def close(self) -> None:
        """Let go of the folder."""
        if self.folder is not None:
            self.folder.close()


async def begun(
    open_folder: OpenFolder, target: str, *, may_make: bool, seen: FoldersSeen | None = None
) -> SomeSpool | DownloadError:
    """Return a spool for a target, with the part that a killed process has left of it.

    Args:
        open_folder: opens the target's folder.
        target: what it is called, its extension aside.
        may_make: whether the folder may be made, once there is something to put into it.
        seen: folders whose parts are known.
    """
    made: list[Spool[PartialFile]] = []

    def begin() -> SomeSpool:
        parts = PartsOf(open_folder, target)
        try:
            parts.folder = open_folder(False)  # noqa: FBT003 - not to make it
            held = adopt(parts.folder, target, seen)
        except FileNotFoundError:
            if not may_make:
                raise
            held = None
        except BaseException:
            parts.close()
            raise
        made.append(Spool(parts, held))
        return made[0]

    try:
        return await run_to_the_end(partial(tried, begin))
    except BaseException:
        for spool in made:  # cancelled meanwhile: nobody else will end it
            await spool.keep()
        raise


async def found(
    open_folder: OpenFolder, target: str, names: Sequence[str]
) -> tuple[Present, ...] | DownloadError:
    """Return those of these files that are in a folder.

    Args:
        open_folder: opens the target's folder.
        target: what the target is called, its extension aside.
        names: what it may be called, extension included.
    """
    return await run_to_the_end(partial(tried, lambda: _look(open_folder, target, names)))


def publish(
    name: str, others: Sequence[str], file: PartialFile, *, overwrite: bool
) -> Published | DownloadError:
    """Give a part its final name, or tell that the same or another file has its place.

    Args:
        name: the final name.
        others: names that the file might have had as well, and that count as its place.
        file: the part.
        overwrite: whether other files in its place are replaced.

    Raises:
        OSError: the disk refuses.
    """
    folder = file.folder
    for _ in range(2):
        standing = [one for one in dict.fromkeys((name, *others)) if check_is_regular(folder, one)]
        for one in standing:
            if _is_same(folder, one, file):
                make_private(folder, one)
                file.discard()
                return Published(folder.path / one, was_there=True)
        if standing and not overwrite:
            return DownloadError(ANOTHER)
        try:
            file.publish(name, overwrite=overwrite)
        except FileExistsError:
            continue  # it came meanwhile: look at that
        for one in standing:
            if one != name:
                folder.unlink(one)
        return Published(folder.path / name, was_there=False)
    return DownloadError(ANOTHER)


def _is_same(folder: Folder, name: str, file: PartialFile) -> bool:
    standing = check_is_regular(folder, name)
    if standing is None or standing.st_size != file.size:
        return False
    return _hash(folder, name, "sha256") == file.content.sha256


def tried(work: Callable[[], T]) -> T | DownloadError:
    """Return what comes of some work on the disk, its fault included."""
    try:
        return work()
    except OSError as error:
        return disk_fault(error)


def _look(open_folder: OpenFolder, target: str, names: Sequence[str]) -> tuple[Present, ...]:
    try:
        folder = open_folder(False)  # noqa: FBT003 - not to make it
    except FileNotFoundError:
        return ()
    found = []
    with folder:
        for name in names:
            standing = check_is_regular(folder, name)
            if standing is not None:
                hashing = partial(_hash_again, open_folder, name)
                accept = partial(_accepted, open_folder, target, name)
                found.append(Present(folder.path / name, standing.st_size, hashing, accept))
    return tuple(found)


async def _accepted(open_folder: OpenFolder, target: str, name: str) -> None:
    def settle() -> None:
        with open_folder(False) as folder:  # noqa: FBT003 - not to make it
            make_private(folder, name)
            left = adopt(folder, target)
            if left is not None:
                left.discard()

    await run_to_the_end(partial(tried, settle))


async def _hash_again(open_folder: OpenFolder, name: str, algorithm: str) -> str | DownloadError:
    def read() -> str:
        with open_folder(False) as folder:  # noqa: FBT003 - not to make it
            check_is_regular(folder, name)
            return _hash(folder, name, algorithm)

    return await run_to_the_end(partial(tried, read))


def _hash(folder: Folder, name: str, algorithm: str) -> str:
    # Neither is there to keep a secret.
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with closing(os.fdopen(folder.open(name, os.O_RDONLY), "rb", buffering=0)) as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()
