"""Files at their places on disk; knows folders that are held open, not how a name is made."""

import hashlib
import os
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from typing import TypeVar

from attrs import frozen

from income_client.disk.faults import disk_fault
from income_client.disk.folders import Folder
from income_client.disk.hashed_file import BLOCK
from income_client.disk.partial_files import PartialFile, adopt, check_is_regular, create
from income_client.disk.spool import SomeSpool, Spool
from income_client.errors import DownloadError
from income_client.threads import run_to_the_end

from .place import ANOTHER, Present, Published

T = TypeVar("T")

OpenFolder = Callable[[bool], Folder]
"""Opens the folder of a place; told whether to make what is missing."""


@frozen
class PartsOf:
    """Where the parts of one target come from."""

    folder: Folder
    """The target's, held open."""
    target: str
    """What it is called, its extension aside."""

    def create(self, etag: str | None) -> PartialFile:
        """Make an empty part."""
        return create(self.folder, self.target, etag)

    def close(self) -> None:
        """Let go of the folder."""
        self.folder.close()


async def begun(open_folder: OpenFolder, target: str) -> SomeSpool | DownloadError:
    """Return a spool for a target, with the part that a killed process has left of it."""
    made: list[Spool[PartialFile]] = []

    def begin() -> SomeSpool:
        folder = open_folder(True)  # noqa: FBT003 - to make it
        try:
            held = adopt(folder, target)
        except BaseException:
            folder.close()
            raise
        made.append(Spool(PartsOf(folder, target), held))
        return made[0]

    try:
        return await run_to_the_end(partial(tried, begin))
    except BaseException:
        for spool in made:  # cancelled meanwhile: nobody else will end it
            await spool.keep()
        raise


async def found(open_folder: OpenFolder, names: Iterable[str]) -> Present | DownloadError | None:
    """Return the first of these files that is in a folder."""
    return await run_to_the_end(partial(tried, lambda: _look(open_folder, names)))


def publish(name: str, file: PartialFile, *, overwrite: bool) -> Published | DownloadError:
    """Give a part its final name, or tell that the same or another file has it.

    Raises:
        OSError: the disk refuses.
    """
    folder = file.folder
    path = folder.path / name
    sha256 = file.content.sha256
    for _ in range(2):
        standing = check_is_regular(folder, name)
        if standing is not None:
            if standing.st_size == file.size and _hash(folder, name, "sha256") == sha256:
                file.discard()
                return Published(path, was_there=True)
            if not overwrite:
                return DownloadError(ANOTHER)
        try:
            file.publish(name, overwrite=overwrite)
        except FileExistsError:
            continue  # it came meanwhile: look at that
        return Published(path, was_there=False)
    return DownloadError(ANOTHER)


def tried(work: Callable[[], T]) -> T | DownloadError:
    """Return what comes of some work on the disk, its fault included."""
    try:
        return work()
    except OSError as error:
        return disk_fault(error)


def _look(open_folder: OpenFolder, names: Iterable[str]) -> Present | None:
    try:
        folder = open_folder(False)  # noqa: FBT003 - not to make it
    except FileNotFoundError:
        return None
    with folder:
        there = set(folder.names())
        for name in filter(there.__contains__, names):
            standing = check_is_regular(folder, name)
            if standing is not None:
                reading = partial(_hash_again, open_folder, name)
                return Present(folder.path / name, standing.st_size, reading)
    return None


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
