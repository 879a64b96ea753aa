"""Files and folders for their owner alone, whole or not at all; knows nothing of their content."""

import errno
import os
from pathlib import Path
from typing import Final

from income_client.disk import sync_folder as _sync_folder

_PRIVATE: Final = 0o600
_PRIVATE_FOLDER: Final = 0o700
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL  # follows no link


def make_folder(folder: Path) -> None:
    """Make a folder with those above it, unless it is there.

    Raises:
        OSError: it cannot be made.
    """
    # With parents=True those would be made as open as the umask leaves them.
    for one in reversed(folder.parents):
        if not one.exists():
            one.mkdir(_PRIVATE_FOLDER, exist_ok=True)
    folder.mkdir(_PRIVATE_FOLDER, exist_ok=True)


def write(path: Path, content: bytes) -> None:
    """Write a file and bring it to the disk, in place of one that was left there half.

    Raises:
        OSError: it cannot be written; nothing is left of it.
    """
    path.unlink(missing_ok=True)
    descriptor = os.open(path, _NEW, _PRIVATE)
    try:
        os.fchmod(descriptor, _PRIVATE)  # the umask may have taken from it
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        os.fsync(descriptor)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def put(part: Path, target: Path) -> None:
    """Give a file its place, and never replace anything; the part may keep its name too.

    Raises:
        FileExistsError: something is there.
        OSError: it cannot be put there.
    """
    try:
        # Unlike a rename, a link is refused where something stands.
        os.link(part, target)
    except FileExistsError:
        raise
    except OSError:
        # Some file systems have no second names. Without them there is a moment in which
        # somebody else may take the place.
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
        part.rename(target)


def sync(folder: Path) -> None:
    """Have the names in a folder survive a loss of power, where the file system can do that.

    Raises:
        OSError: the disk refuses.
    """
    _sync_folder(folder)
