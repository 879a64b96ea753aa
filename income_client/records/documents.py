"""Documents of an application, and an application together with them, without files."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from attrs import evolve, field, frozen

from income_client._lazy import answers_other_names

from .applications import Application, ApplicationSummary
from .document_types import is_typed
from .fields import BESIDE_THE_JSON, NO_EXTRA, UtcTime, masked
from .paystub import Paystub


def _shown_data(data: object) -> str:
    return repr(data) if is_typed(data) else masked(data)


@frozen
class DocumentSource:
    """The reply in which a document was found.

    Attributes:
        application_id: id of the document's application.
        document_type: the service's key of the document's type, such as ``paystub``.
    """

    application_id: str
    document_type: str


@answers_other_names
@frozen(kw_only=True)
class Document:
    """A document and the data read from it (contract section 2.3).

    Attributes:
        document_id: identifier of the document.
        file_ids: identifiers of the files that the document was built from, as in
            ``ImageFile.file_id``.
        file_reference_ids: the partner's names of the files that the document was built from.
        url: signed URL of the file, valid for a limited time. Anyone who has it can read the file.
        extracted_data: a `Paystub`, an instance of the class registered for the type, or else a
            mapping.
        updated_at: time of the document's last update, in UTC.
        data_action: kind of change to the document record; the contract shows only ``create``.
        pages: the pages block as the JSON of the reply; None unless requested.
        extracted_extra: fields of ``extracted_data`` that a registered class without ``extra``
            cannot take.
        extra: fields that the contract does not name.
        source: application and type under which the document was received; None if it was made by
            hand.
    """

    document_id: str
    file_ids: tuple[str, ...]
    file_reference_ids: tuple[str, ...] = field(repr=masked)
    url: str = field(repr=masked)
    extracted_data: object = field(hash=False, repr=_shown_data)
    updated_at: UtcTime
    data_action: str
    pages: object = field(default=None, hash=False, repr=masked)
    extracted_extra: Mapping[str, Any] = field(
        default=NO_EXTRA, hash=False, repr=False, metadata=BESIDE_THE_JSON
    )
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)
    source: DocumentSource | None = field(
        default=None, eq=False, repr=False, metadata=BESIDE_THE_JSON
    )

    @property
    def document_type(self) -> str | None:
        """The service's key of the type, such as ``paystub``; None without ``source``."""
        return None if self.source is None else self.source.document_type


class DocumentEntry(NamedTuple):
    """A document together with its type."""

    document_type: str
    """The service's key of the type, such as ``paystub``."""
    document: Document
    """The document itself."""


class PaystubEntry(NamedTuple):
    """A paystub: the document, and the data read from it."""

    document: Document
    """The document, with its id and its file."""
    paystub: Paystub
    """The document's ``extracted_data``."""


@answers_other_names
@frozen(kw_only=True)
class ApplicationDocuments:
    """The documents of one application (contract section 2.3).

    Attributes:
        application_id: identifier assigned by the service.
        application_reference_id: the partner's own reference; unique per application.
        documents: documents by type.
        extra: fields that the contract does not name.
    """

    application_id: str
    application_reference_id: str
    documents: Mapping[str, tuple[Document, ...]] = field(hash=False)
    extra: Mapping[str, Any] = field(default=NO_EXTRA, hash=False, repr=False)

    def __iter__(self) -> Iterator[Document]:
        """Iterate over every document, each with its ``document_type``, in the service's order."""
        for document_type, document in self.all():
            source = DocumentSource(self.application_id, document_type)
            yield document if document.source == source else evolve(document, source=source)

    def __len__(self) -> int:
        return sum(map(len, self.documents.values()))

    def __bool__(self) -> bool:
        # None, and not no document, is what ``if record.documents`` is asked for.
        return True

    def all(self) -> Iterator[DocumentEntry]:
        """Iterate over every document after its type, in the service's order."""
        for document_type, documents in self.documents.items():
            for document in documents:
                yield DocumentEntry(document_type, document)

    @property
    def paystubs(self) -> tuple[PaystubEntry, ...]:
        """The paystubs with their data, in the service's order (contract section 2.3)."""
        return tuple(
            PaystubEntry(document, document.extracted_data)
            for _, document in self.all()
            if isinstance(document.extracted_data, Paystub)
        )


@answers_other_names
@frozen(kw_only=True)
class ApplicationRecord:
    """An application with its documents, as fetching and polling deliver it.

    Attributes:
        application: the application with its income calculation.
        documents: documents of the application; None if they were not requested.
    """

    application: Application
    documents: ApplicationDocuments | None

    @property
    def application_id(self) -> str:
        """Identifier assigned by the service."""
        return self.application.application_id

    @property
    def last_updated_at(self) -> datetime:
        """Time of the application's last update, in UTC."""
        return self.application.last_updated_at


ApplicationKey: TypeAlias = (
    str | ApplicationSummary | Application | ApplicationDocuments | ApplicationRecord
)
"""An application's id, or a record that has it."""
