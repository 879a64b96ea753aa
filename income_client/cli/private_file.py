"""A file that a command writes: only its owner can read it, and it is whole or not there."""

import secrets
from pathlib import Path

from income_client import IncomeClientError
from income_client.disk import publish_file, sync_folder, write_file
from income_client.texts import reason_of


def check_place(path: Path, *, overwrite: bool) -> None:
    """Refuse a place that `write_private` would refuse, before long work for it begins."""
    if path.exists() and not path.is_file() and not path.is_dir():
        # A pipe or a device, in whose place the file would be put.
        raise IncomeClientError(f"{path} is not a regular file")
    if path.is_dir() or (path.exists() and not overwrite):
        raise _is_there(path)
    if not path.absolute().parent.is_dir():
        raise IncomeClientError(f"cannot write {path}: no such file or directory")


def write_private(path: Path, content: bytes, *, overwrite: bool) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    check_place(path, overwrite=overwrite)
    part = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.part")
    try:
        write_file(part, content)
        try:
            if overwrite:
                part.replace(path)
            else:
                publish_file(part, path)
        finally:
            part.unlink(missing_ok=True)
        sync_folder(path.absolute().parent)
    except FileExistsError:
        raise _is_there(path)
    except OSError as error:
        raise IncomeClientError(f"cannot write {path}: {reason_of(error)}")


def _is_there(path: Path) -> IncomeClientError:
    advice = "" if path.is_dir() else "; --overwrite replaces it"
    return IncomeClientError(f"{path} is there already{advice}")
