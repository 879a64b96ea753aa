"""A file for its owner's eyes, there as a whole or not at all; knows nothing of its content."""

import os
import secrets
from pathlib import Path
from typing import Final

from income_client import ConfigurationError

_PRIVATE: Final = 0o600
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def check_place(path: Path, *, overwrite: bool) -> None:
    """Make sure that a file may be written, before anything is read for it.

    Args:
        path: where it is to be.
        overwrite: whether one may be there already.

    Raises:
        ConfigurationError: it may not, or there is no such folder.
    """
    if path.is_dir():
        raise ConfigurationError(f"{path} is a folder")
    if not path.absolute().parent.is_dir():
        raise ConfigurationError(f"there is no folder {path.absolute().parent}")
    if not overwrite and os.path.lexists(path):
        raise ConfigurationError(_taken(path))


def write_private(path: Path, content: bytes, *, overwrite: bool) -> None:
    """Write a file that only its owner can read.

    Args:
        path: where it is to be.
        content: all of it.
        overwrite: whether one that is there already may be replaced.

    Raises:
        ConfigurationError: it cannot be written, or one is there.
    """
    part = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.part")
    try:
        _write(part, content)
        try:
            _put(part, path, overwrite=overwrite)
        finally:
            part.unlink(missing_ok=True)
        _sync(path.absolute().parent)
    except FileExistsError:
        problem = _taken(path)
    except OSError as error:
        problem = f"cannot write {path}: {os.strerror(error.errno or 0).lower()}"
    else:
        return
    # Raised where nothing of the content is held.
    del content
    raise ConfigurationError(problem)


def _taken(path: Path) -> str:
    return f"{path} is there already; --overwrite replaces it"


def _write(part: Path, content: bytes) -> None:
    descriptor = os.open(part, _NEW, _PRIVATE)
    try:
        os.fchmod(descriptor, _PRIVATE)
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        os.fsync(descriptor)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def _put(part: Path, path: Path, *, overwrite: bool) -> None:
    if overwrite:
        part.replace(path)
    else:
        # Unlike a rename, a link is refused where something stands.
        path.hardlink_to(part)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
