"""A folder and files that no other user could have touched; knows nothing of their content."""

import os
import shutil
import stat
from pathlib import Path
from typing import Final

from income_client import ConfigurationError
from income_client.cli.private_files import sync

_PRIVATE: Final = 0o600
_PRIVATE_FOLDER: Final = 0o700
# Windows has neither.
_SAFELY: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL  # follows no link


def claim_folder(folder: Path) -> None:
    """Make a folder for this user alone, or make sure that one is this user's.

    Raises:
        ConfigurationError: it is no folder, or another user's, or cannot be kept from others.
        OSError: it cannot be made.
    """
    is_new = True
    try:
        folder.mkdir(_PRIVATE_FOLDER)
    except FileExistsError:
        is_new = False
    else:
        folder.chmod(_PRIVATE_FOLDER)  # the umask may have taken from it
    facts = folder.lstat()
    if not stat.S_ISDIR(facts.st_mode):
        raise ConfigurationError(f"{folder} is something else than the part of an export")
    if is_new and not _is_private(facts):
        folder.rmdir()
        raise ConfigurationError(
            f"nothing can be kept from other users in {folder.parent}: choose another place"
        )
    if facts.st_uid != os.geteuid():
        raise ConfigurationError(f"{folder} belongs to another user: choose another place")


def check_private(folder: Path) -> None:
    """Make sure that no other user may use a folder.

    Raises:
        ConfigurationError: its mode lets others.
    """
    if not _is_private(folder.lstat()):
        raise ConfigurationError(
            f"other users may have changed what is in {folder}, as its mode lets them use it: "
            "delete it to begin again"
        )


def open_own(path: Path, flags: int) -> int:
    """Open a file that this user alone owns, has no second name, and nobody else may use.

    Args:
        path: where it is.
        flags: how it is opened; it is made if they say so.

    Returns:
        Its descriptor, to be closed.

    Raises:
        ConfigurationError: it is no file, another user's, or has a second name.
        OSError: it cannot be opened.
    """
    descriptor = os.open(path, flags | _SAFELY, _PRIVATE)
    try:
        _check_alone(path, os.fstat(descriptor))
        os.fchmod(descriptor, _PRIVATE)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def part_names(path: Path, copy: Path) -> None:
    """Have a file with a second name become one of its own; the other name keeps what is there.

    Args:
        path: the file; one that is not there, or has no second name, is left as it is.
        copy: a place for the copy until it is whole; what was left there is removed.

    Raises:
        ConfigurationError: it is no file, or another user's.
        OSError: it cannot be copied.
    """
    copy.unlink(missing_ok=True)
    try:
        descriptor = os.open(path, os.O_RDONLY | _SAFELY)
    except FileNotFoundError:
        return
    with os.fdopen(descriptor, "rb") as source:
        facts = os.fstat(descriptor)
        _check_own(path, facts)
        if facts.st_nlink == 1:
            return
        with os.fdopen(os.open(copy, _NEW, _PRIVATE), "wb") as sink:
            shutil.copyfileobj(source, sink)
            sink.flush()
            os.fsync(sink.fileno())
    copy.replace(path)
    sync(path.parent)


def _check_own(path: Path, facts: os.stat_result) -> None:
    if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid():
        raise ConfigurationError(f"{path} is no file of this user's, so it is not used")


def _check_alone(path: Path, facts: os.stat_result) -> None:
    _check_own(path, facts)
    if facts.st_nlink > 1:
        raise ConfigurationError(f"{path} has a second name, so it is not used")


def _is_private(facts: os.stat_result) -> bool:
    return facts.st_uid == os.geteuid() and not facts.st_mode & 0o077
