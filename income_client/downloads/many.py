"""Many files at once: which documents are meant, and an iterator over their files."""

from collections import deque
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator
from typing import Final, TypeVar, cast

from attrs import field, frozen

from income_client.concurrency import Finished, Raised, Source, TaskIterator
from income_client.errors import ConfigurationError, IncomeClientError
from income_client.fetching import OnError
from income_client.records.documents import (
    ApplicationDocuments,
    ApplicationRecord,
    Document,
    DocumentEntry,
    DocumentSource,
)
from income_client.records.files import DownloadedFile
from income_client.settings import Secret, check_count

from .downloader import ProgressError
from .naming import FileFacts

Y = TypeVar("Y")

OneDocument = Document | DocumentEntry
"""A document, alone or with its type."""
SomeDocuments = OneDocument | ApplicationDocuments | ApplicationRecord
"""A document, or something that has documents."""
Documents = SomeDocuments | Iterable[SomeDocuments] | AsyncIterable[SomeDocuments]

Get = Callable[["Meant"], Awaitable[DownloadedFile | IncomeClientError]]
"""Downloads the file of one document; returns the error, if any."""

_EXPECTED: Final = (
    "documents are Document, ApplicationDocuments or ApplicationRecord, or an iterable of these"
)


@frozen
class Meant:
    """A document that was named, and what is known of it."""

    facts: FileFacts
    """Which one."""
    address: Secret = field(repr=False)
    """The address of its file, as far as known."""


def meant_by(some: object, file: int = 0) -> tuple[Meant, ...]:
    """Return the documents of a document, a reply or a record; raise for anything else."""
    if type(file) is not int or file != 0:
        raise ConfigurationError("file must be 0: a document has one address, and so one file")
    return tuple(_meant(some))


def _meant(some: object) -> Iterator[Meant]:
    match some:
        case Document():
            yield _of(some, some.source)
        case DocumentEntry(document_type, Document() as document):
            source = document.source
            yield _of(document, source or DocumentSource("", document_type))
        case ApplicationDocuments():
            for document_type, document in some.all():
                yield _of(document, DocumentSource(some.application_id, document_type))
        case ApplicationRecord():
            if some.documents is None:
                raise ConfigurationError("this record was read without its documents")
            yield from _meant(some.documents)
        case _:
            raise ConfigurationError(_EXPECTED)


def _of(document: Document, source: DocumentSource | None) -> Meant:
    references = document.file_reference_ids
    facts = FileFacts(
        application_id=source.application_id or None if source else None,
        document_type=source.document_type if source else None,
        document_id=document.document_id,
        file=0,
        file_reference_id=references[0] if references else None,
    )
    return Meant(facts, Secret(document.url))


@frozen
class DownloadFailure:
    """A document whose file could not be downloaded, in place of the file."""

    document_id: str
    """Which one."""
    application_id: str | None
    """The application that it belongs to; None for a document made by hand."""
    document_type: str | None
    """The service's key of the document's type; None likewise."""
    error: IncomeClientError
    """Why."""


class Downloads(TaskIterator[Meant | None, Y]):
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
        self._concurrency = check_count("concurrency", concurrency)
        if on_error not in ("raise", "yield"):
            raise ConfigurationError('on_error must be "raise" or "yield"')
        several = (documents,) if isinstance(documents, SomeDocuments) else documents
        super().__init__(Source(several, meant_by, _EXPECTED))
        self._get = get
        self._on_error = on_error
        self._waiting: deque[Meant] = deque()
        self._is_pulling = False

    async def aclose(self) -> None:
        """Stop the downloads under way and close the source; again does nothing."""
        self._waiting.clear()
        await super().aclose()

    async def _next(self) -> Y | Raised | None:
        while True:
            self._start()
            if not self._tasks:
                if self._source.error is not None:
                    raise self._source.error
                return None
            outcome = self._taken(await self._tasks.next())
            if isinstance(outcome, DownloadFailure):
                if isinstance(outcome.error, ProgressError):
                    return Raised(outcome.error.raised)
                if self._on_error == "raise":
                    return Raised(outcome.error)
            if outcome is not None:
                return cast("Y", outcome)

    def _start(self) -> None:
        while self._tasks.under_way - self._is_pulling < self._concurrency:
            if self._waiting:
                meant = self._waiting.popleft()
                self._tasks.start(meant, _got(self._get, meant))
            elif self._source.is_exhausted or self._is_pulling:
                return
            elif self._source.is_asynchronous:
                self._is_pulling = True
                self._tasks.start(None, self._source.pull())
            else:
                self._waiting.extend(self._source.take() or ())

    def _taken(self, finished: Finished[Meant | None]) -> DownloadedFile | DownloadFailure | None:
        if finished.error is not None:
            raise finished.error
        if finished.key is None:
            self._is_pulling = False
            self._waiting.extend(finished.result or ())
            return None
        if isinstance(finished.result, IncomeClientError):
            facts = finished.key.facts
            return DownloadFailure(
                facts.document_id, facts.application_id, facts.document_type, finished.result
            )
        outcome: DownloadedFile = finished.result
        return outcome


async def _got(get: Get, meant: Meant) -> DownloadedFile | IncomeClientError:
    return await get(meant)
