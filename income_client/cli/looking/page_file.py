"""A file for its owner's eyes, there as a whole or not at all; knows nothing of its content."""

import os
import secrets
from pathlib import Path

from income_client import ConfigurationError
from income_client.cli.output import reason_of
from income_client.cli.private_files import put, sync, write


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
        write(part, content)
        try:
            if overwrite:
                part.replace(path)
            else:
                put(part, path)
        finally:
            part.unlink(missing_ok=True)
        sync(path.absolute().parent)
    except FileExistsError:
        problem = _taken(path)
    except OSError as error:
        problem = f"cannot write {path}: {reason_of(error)}"
    else:
        return
    # Raised where nothing of the content is held.
    del content
    raise ConfigurationError(problem)


def _taken(path: Path) -> str:
    return f"{path} is there already; --overwrite replaces it"
