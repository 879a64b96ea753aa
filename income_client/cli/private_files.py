"""Files and folders for their owner alone, whole or not at all."""

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from income_client.disk import sync_folder as sync

__all__ = ["make_folder", "put", "sync", "write"]

_PRIVATE: Final = 0o600
_PRIVATE_FOLDER: Final = 0o700


def make_folder(folder: Path) -> None:
    """Make a folder with those above it, unless it is there."""
    # With parents=True those would be made as open as the umask leaves them.
    for one in (*reversed(folder.parents), folder):
        with suppress(FileExistsError):
            if not one.exists():
                one.mkdir(_PRIVATE_FOLDER)


def write(path: Path, content: bytes) -> None:
    """Write a file and bring it to the disk, in place of one that an earlier run left behind."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
    try:
        os.fchmod(descriptor, _PRIVATE)  # the umask may have taken from it
        with open(descriptor, "wb") as file:  # noqa: PTH123 - the file just made
            file.write(content)
            file.flush()
            os.fsync(descriptor)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def put(part: Path, target: Path) -> None:
    """Give a file its place, and never replace anything; the part may keep its name too.

    Raises:
        FileExistsError: something is there.
    """
    try:
        os.link(part, target)  # which, unlike a rename, replaces nothing
    except FileExistsError:
        raise
    except OSError:
        # Some file systems have no second names; there another process could still take the place.
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
        part.rename(target)
