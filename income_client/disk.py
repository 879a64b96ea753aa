"""Bringing files and folders to the disk, where the file system knows how."""

import errno
import os
from pathlib import Path
from typing import Final

_NO_SYNC: Final = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOSYS})
_CAN_OPEN_FOLDERS: Final = hasattr(os, "O_DIRECTORY")
"""Windows cannot, and needs no sync of a folder."""


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
        os.close(descriptor)
