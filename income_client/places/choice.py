"""Which place is meant by a destination; of the disk it asks only whether a path is a folder."""

import io
import os
import re
from pathlib import Path
from typing import Final, TypeAlias, TypeGuard

from income_client.disk.partial_files import FoldersSeen
from income_client.downloads.naming import FileFacts, NameTemplate
from income_client.errors import ConfigurationError
from income_client.settings import is_plain_function

from .folder_place import FolderPlace
from .path_place import PathPlace
from .place import Place
from .store_place import StorePlace
from .stores import Store, is_store
from .stream_place import BinaryStream, StreamPlace

FolderOrStore: TypeAlias = str | os.PathLike[str] | Store
"""What a caller may name for many files: a path, or a store of obstore."""
Destination: TypeAlias = FolderOrStore | BinaryStream
"""What a caller may name for one: that, or an object with ``write`` for bytes."""

_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_SEPARATORS: Final = tuple(filter(None, (os.sep, os.altsep)))
_OF_THE_LOOP: Final = ("drain", "get_write_buffer_size")
"""What tells the streams and transports of asyncio, whose ``write`` no thread may call."""


def place_of(
    destination: object,
    template: NameTemplate,
    facts: FileFacts,
    seen: FoldersSeen | None = None,
) -> Place:
    """Return the place for one file.

    Args:
        destination: the path of a folder that exists, or one with a separator at
            its end; the path of a file; an object with ``write`` for bytes; or
            a store of obstore.
        template: how the file is called in a folder or a store.
        facts: what of.
        seen: folders whose parts are known, for a run with many files.

    Raises:
        ConfigurationError: it is none of these, or the template does not fit.
    """
    if isinstance(destination, str | os.PathLike):
        return _on_disk(os.fspath(destination), template, facts, seen)
    if is_store(destination):
        return StorePlace(destination, template, facts)
    if _is_stream(destination):
        return StreamPlace(destination)
    raise ConfigurationError(
        "a destination is a path, an object with write() for bytes, or a store of obstore",
    )


def _on_disk(
    path: object, template: NameTemplate, facts: FileFacts, seen: FoldersSeen | None
) -> Place:
    if not isinstance(path, str) or not path or "\0" in path:
        raise ConfigurationError("a destination's path is a str or an os.PathLike of str")
    if _ADDRESS.match(path):
        raise ConfigurationError(
            "the destination is an address; a store of obstore is one: obstore.store.from_url(...)"
        )
    try:
        os.fsencode(path)
        is_folder = path.endswith(_SEPARATORS) or Path(path).is_dir()
    except (OSError, UnicodeError):
        is_folder = None
    match is_folder:
        case True:
            return FolderPlace(Path(path), template, facts, seen)
        case False:
            return PathPlace(Path(path))
        case None:
            raise ConfigurationError("the destination's path is too long, or cannot be one here")


def _is_stream(candidate: object) -> TypeGuard[BinaryStream]:
    write = getattr(candidate, "write", None)
    if not callable(write):
        return False
    if any(hasattr(candidate, name) for name in _OF_THE_LOOP):
        raise ConfigurationError(
            "the destination belongs to an event loop, and is written to in a thread here;"
            " use io.BytesIO() or a path, and send what is there when it is whole",
        )
    if isinstance(candidate, io.TextIOBase) or hasattr(candidate, "encoding"):
        raise ConfigurationError("the destination is a text file; a document's file is bytes")
    flush = getattr(candidate, "flush", None)
    if not is_plain_function(write) or (callable(flush) and not is_plain_function(flush)):
        raise ConfigurationError(
            "the destination's write() and flush() are called, not awaited: plain functions"
        )
    if getattr(candidate, "closed", False) is True or not _is_writable(candidate):
        raise ConfigurationError("the destination is closed, or cannot be written to")
    return True


def _is_writable(candidate: object) -> bool:
    writable = getattr(candidate, "writable", None)
    return not callable(writable) or bool(writable())
