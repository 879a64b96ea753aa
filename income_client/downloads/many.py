"""Downloads of many documents: their arguments, the destinations, and the iteration."""

import io
import os
import re
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeGuard, TypeVar, cast, get_args

from attrs import evolve, frozen

from income_client.errors import ConfigurationError, IncomeClientError, InvalidArgumentError
from income_client.records.documents import (
    ApplicationDocuments,
    ApplicationRecord,
    Document,
    DocumentEntry,
    DocumentSource,
)
from income_client.records.files import DownloadedFile, DownloadProgress
from income_client.settings import (
    check_choice,
    check_count,
    check_flag,
    invalid,
    is_plain_function,
)
from income_client.system.concurrency import Source, TaskIterator
from income_client.walk.fetching import OnError

from .destinations import BinaryStream, DiskPlace, Place, StreamPlace
from .naming import FileFacts, NameTemplate

Y = TypeVar("Y")

OneDocument = Document | DocumentEntry
"""Argument for one document: a `Document`, or a `DocumentEntry`, which has its type too."""
SomeDocuments = OneDocument | ApplicationDocuments | ApplicationRecord
"""A document, or something that has documents."""
Documents = SomeDocuments | Iterable[SomeDocuments] | AsyncIterable[SomeDocuments]
Folder: TypeAlias = str | os.PathLike[str]
"""The path of a folder for many files."""
Destination: TypeAlias = str | os.PathLike[str] | BinaryStream
"""Destination of one file: a path, or an object with ``write`` for bytes."""
OnProgress = Callable[[DownloadProgress], object]
Ask = Callable[[str], Awaitable[ApplicationDocuments]]
"""Reads the documents of an application (contract section 4.3)."""
PlaceOf = Callable[[FileFacts], Place]
"""Returns the destination of a file; raises `ConfigurationError` if facts of it are missing."""
Get = Callable[[Document], Coroutine[Any, Any, DownloadedFile]]
"""Downloads the file of one document."""

_EXPECTED: Final = (
    "documents are Document, ApplicationDocuments or ApplicationRecord, or an iterable of these"
)
_SAMPLE: Final = FileFacts(
    application_id="a", document_type="t", document_id="d", file=0, file_reference_id="r"
)
_OBJECT_STORES: Final = "for an object store, see `income-client guide files`"
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_SEPARATORS: Final = tuple(filter(None, (os.sep, os.altsep)))
_OF_THE_LOOP: Final = ("drain", "get_write_buffer_size")
"""Methods of asyncio's streams and transports, which belong to the loop's thread."""


class Job:
    """The arguments that all files of one call share, checked before any request."""

    def __init__(
        self,
        destination: object,
        names: str,
        *,
        overwrite: bool,
        on_progress: OnProgress | None,
        ask: Ask,
    ) -> None:
        self.place_of: PlaceOf = places_in(destination, NameTemplate.read(names))
        self.place_of(_SAMPLE)
        self.overwrite: bool = check_flag("overwrite", overwrite)
        if on_progress is not None and not is_plain_function(on_progress):
            raise InvalidArgumentError(
                "on_progress is called, not awaited: a plain function", argument="on_progress"
            )
        self.on_progress = on_progress
        self.ask = ask


def check_one_document(document: object, file: int) -> Document:
    """Return the `Document` of a single download; raise if ``document`` or ``file`` is wrong."""
    if type(file) is not int or file != 0:
        raise InvalidArgumentError(
            "file must be 0: a document has one address, and so one file", argument="file"
        )
    if not isinstance(document, OneDocument):
        raise invalid("document", "one Document; download_all takes many", document)
    return documents_in(document)[0]


def documents_in(some: object) -> tuple[Document, ...]:
    """Return the documents of a document, a reply or a record; raise for anything else."""
    return tuple(_documents_in(some))


def _documents_in(some: object) -> Iterator[Document]:
    match some:
        case Document():
            yield some
        case DocumentEntry(document_type, Document() as document):
            source = document.source or DocumentSource("", document_type)
            yield evolve(document, source=source)
        case ApplicationDocuments():
            yield from some
        case ApplicationRecord():
            if some.documents is None:
                raise ConfigurationError("this record was read without its documents")
            yield from _documents_in(some.documents)
        case _:
            raise InvalidArgumentError(_EXPECTED, argument="documents")


def facts_of(document: Document) -> FileFacts:
    """Return the facts of a document's file."""
    source = document.source
    return FileFacts(
        application_id=(source.application_id or None) if source else None,
        document_type=source.document_type if source else None,
        document_id=document.document_id,
        file=0,
        file_reference_id=next(iter(document.file_reference_ids), None),
    )


def folder_path(directory: object) -> str | bytes:
    """Return the path of a folder, whether it exists or not, with a separator at its end."""
    if not isinstance(directory, str | os.PathLike):
        raise InvalidArgumentError(
            f"directory must be the path of a folder; {_OBJECT_STORES}", argument="directory"
        )
    path = os.fspath(directory)
    return os.path.join(path, "") if path and isinstance(path, str) else path  # noqa: PTH118 - the slash is the point


def places_in(destination: object, template: NameTemplate) -> PlaceOf:
    """Return the function that finds the destination of each file.

    A path is that of a folder if one exists there, or if a separator is at its end.
    """
    if isinstance(destination, str | os.PathLike):
        return _on_disk(os.fspath(destination), template)
    if _is_stream(destination):
        stream = destination
        return lambda _: StreamPlace(stream)
    raise _destination_error(
        f"a destination must be a path, or an object with write() for bytes; {_OBJECT_STORES}"
    )


def _on_disk(path: object, template: NameTemplate) -> PlaceOf:
    if not isinstance(path, str) or not path or "\0" in path:
        raise _destination_error("a destination's path must be a str or an os.PathLike of str")
    if _ADDRESS.match(path):
        raise _destination_error(f"the destination is a URL, not a path; {_OBJECT_STORES}")
    try:
        os.fsencode(path)
        is_folder = path.endswith(_SEPARATORS) or Path(path).is_dir()
    except PermissionError:
        is_folder = False  # the download says what is refused
    except (OSError, UnicodeError):
        is_folder = None
    if is_folder is None:
        raise _destination_error("the destination's path is too long, or invalid on this system")
    if is_folder:
        return partial(DiskPlace.below, Path(path), template, seen={})
    return lambda _: DiskPlace.at(Path(path))


def _destination_error(message: str) -> ConfigurationError:
    return InvalidArgumentError(message, argument="destination")


def _is_stream(candidate: object) -> TypeGuard[BinaryStream]:
    write = getattr(candidate, "write", None)
    if not callable(write):
        return False
    if any(hasattr(candidate, name) for name in _OF_THE_LOOP):
        raise _destination_error(
            "the destination belongs to an event loop, and is written to in a thread here;"
            " use io.BytesIO() or a path, and send what is there when it is whole",
        )
    if isinstance(candidate, io.TextIOBase) or hasattr(candidate, "encoding"):
        raise _destination_error("the destination is a text file; a document's file is bytes")
    flush = getattr(candidate, "flush", None)
    if not is_plain_function(write) or (callable(flush) and not is_plain_function(flush)):
        raise _destination_error(
            "the destination's write() and flush() are called, not awaited: plain functions"
        )
    writable = getattr(candidate, "writable", None)
    if getattr(candidate, "closed", False) is True or (callable(writable) and not writable()):
        raise _destination_error("the destination is closed, or cannot be written to")
    return True


@frozen
class DownloadFailure:
    """A document whose file could not be downloaded, in place of the file."""

    document_id: str
    """Id of the document."""
    application_id: str | None
    """Id of the document's application; None for a document made by hand."""
    document_type: str | None
    """The service's key of the document's type; None for a document made by hand."""
    error: IncomeClientError
    """Error of the download."""


class Downloads(TaskIterator[Document, Y]):
    """Iterate over files, in the order in which they become complete.

    At most ``concurrency`` are downloaded at a time; further ones start only while the consumer
    waits for the next. Leaving the loop early stops those under way, and nothing of them is left.

    Args:
        documents: what has documents, or an iterable of it; an asynchronous one is
            closed together with this.
        get: downloads the file of one document.
        concurrency: files at a time.
        on_error: whether a failure is raised, or yielded as `DownloadFailure`.

    Raises:
        ConfigurationError: an argument is invalid.
    """

    def __init__(
        self, documents: Documents, get: Get, *, concurrency: int, on_error: OnError
    ) -> None:
        check_count("concurrency", concurrency)
        check_choice("on_error", on_error, get_args(OnError))
        several = (documents,) if isinstance(documents, SomeDocuments) else documents
        super().__init__(Source(several, documents_in, "documents", _EXPECTED), concurrency)
        self._get = get
        self._yields_failures = on_error == "yield"

    async def _next_result(self) -> Y | None:
        finished = await self._next_finished()
        if finished is None:
            return None
        error = finished.error
        if error is None:
            return cast("Y", finished.result)
        if not self._yields_failures or not isinstance(error, IncomeClientError):
            raise error
        facts = facts_of(finished.key)
        return cast(
            "Y",
            DownloadFailure(
                facts.document_id,
                facts.application_id,
                facts.document_type,
                error.with_traceback(None),
            ),
        )

    def _tasks_for(
        self, item: tuple[Document, ...]
    ) -> Iterator[tuple[Document, Coroutine[Any, Any, DownloadedFile]]]:
        get = self._get
        return ((document, get(document)) for document in item)
