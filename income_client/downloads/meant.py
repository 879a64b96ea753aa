"""Which documents somebody means who names some: single ones, all of an application, or records.

Knows records only; refuses to know what is done with the documents.
"""

from collections.abc import AsyncIterable, Iterable, Iterator
from typing import Final

from attrs import field, frozen

from income_client.errors import ConfigurationError
from income_client.records.documents import (
    ApplicationDocuments,
    ApplicationRecord,
    Document,
    DocumentEntry,
    DocumentSource,
)
from income_client.settings import Secret

from .naming import FileFacts

OneDocument = Document | DocumentEntry
"""A document, alone or with its type."""
SomeDocuments = OneDocument | ApplicationDocuments | ApplicationRecord
"""A document, or something that has documents."""
Documents = SomeDocuments | Iterable[SomeDocuments] | AsyncIterable[SomeDocuments]

EXPECTED: Final = (
    "documents are Document, ApplicationDocuments or ApplicationRecord, or an iterable of these"
)


@frozen
class Meant:
    """A document that somebody means, with what is known of it."""

    facts: FileFacts
    """Whose it is."""
    address: Secret = field(repr=False)
    """Where its file is, as far as known."""


def meant_by(some: object, file: int = 0) -> tuple[Meant, ...]:
    """Return the documents that are meant.

    Args:
        some: a document, or something that has documents.
        file: which of a document's files; it has one (contract section 2.3).

    Raises:
        ConfigurationError: it is neither, or there is no such file.
    """
    if type(file) is not int or file != 0:
        raise ConfigurationError("file is 0: a document has one address, and so one file")
    return tuple(_meant(some))


def several(documents: Documents) -> Iterable[SomeDocuments] | AsyncIterable[SomeDocuments]:
    """Return an iterable of what is meant, also if it is one thing only."""
    return (documents,) if isinstance(documents, SomeDocuments) else documents


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
            raise ConfigurationError(EXPECTED)


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
