"""Which place is meant by a destination; of the disk it asks only whether a path is a folder."""

import inspect
import io
import os
from pathlib import Path
from typing import Final, TypeAlias, TypeGuard

from income_client.errors import ConfigurationError
from income_client.protocol.file_names import FileFacts, NameTemplate

from .folder_place import FolderPlace
from .path_place import PathPlace
from .place import Place
from .store_place import StorePlace
from .stores import Store, is_store
from .stream_place import BinaryStream, StreamPlace

Destination: TypeAlias = str | os.PathLike[str] | BinaryStream | Store
"""What a caller may name: a path, an object with ``write`` for bytes, or a store of obstore."""

_SEPARATORS: Final = tuple(filter(None, (os.sep, os.altsep)))


def place_of(destination: object, template: NameTemplate, facts: FileFacts) -> Place:
    """Return the place for one file.

    Args:
        destination: the path of a folder that exists, or one with a separator at
            its end; the path of a file; an object with ``write`` for bytes; or
            a store of obstore.
        template: how the file is called in a folder or a store.
        facts: what of.

    Raises:
        ConfigurationError: it is none of these, or the template does not fit.
    """
    if isinstance(destination, str | os.PathLike):
        return _on_disk(os.fspath(destination), template, facts)
    if is_store(destination):
        return StorePlace(destination, template, facts)
    if _is_stream(destination):
        return StreamPlace(destination)
    raise ConfigurationError(
        "a destination is a path, an object with write() for bytes, or a store of obstore",
    )


def _on_disk(path: object, template: NameTemplate, facts: FileFacts) -> Place:
    if not isinstance(path, str) or not path or "\0" in path:
        raise ConfigurationError("a destination's path is a str or an os.PathLike of str")
    if path.endswith(_SEPARATORS) or Path(path).is_dir():
        return FolderPlace(Path(path), template, facts)
    return PathPlace(Path(path))


def _is_stream(candidate: object) -> TypeGuard[BinaryStream]:
    write = getattr(candidate, "write", None)
    if not callable(write):
        return False
    if isinstance(candidate, io.TextIOBase) or hasattr(candidate, "encoding"):
        raise ConfigurationError("the destination is a text file; a document's file is bytes")
    if inspect.iscoroutinefunction(write):
        raise ConfigurationError("the destination's write() is to be awaited; a plain one is meant")
    if getattr(candidate, "closed", False) is True or not _is_writable(candidate):
        raise ConfigurationError("the destination is closed, or cannot be written to")
    return True


def _is_writable(candidate: object) -> bool:
    writable = getattr(candidate, "writable", None)
    return not callable(writable) or bool(writable())
