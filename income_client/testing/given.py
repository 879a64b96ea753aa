"""A record that a test gives to the service, as the service holds it; knows no world and no time.

The JSON comes from the record itself, so that it is served as it was given. Only two
things in it belong to the service: the time of an update, and addresses of files
that were never anybody's.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec
from attrs import field, frozen

from income_client import ApplicationDocuments, ApplicationRecord, Document, to_json

_EXACT: Final = msgspec.json.Decoder(float_hook=Decimal)
_DIGITS_KEPT: Final = msgspec.json.Encoder(decimal_format="number")
INVENTED_ADDRESS: Final = "https://invented.s3.amazonaws.com/documents/"
"""Beginning of the addresses that documents made by a factory have."""


@frozen
class GivenFile:
    """What the host of files has to know of a document."""

    document_id: str
    """Its id."""
    file_names: tuple[str, ...]
    """What the partner calls its files."""


@frozen(kw_only=True)
class Given:
    """An application with its documents, ready to be served."""

    record: ApplicationRecord = field(repr=False)
    """As it was given."""
    application: bytes = field(repr=False)
    """The application response (contract section 2.2)."""
    documents: Mapping[str, Any] = field(repr=False)
    """The documents response (contract section 2.3), parsed."""
    files: Mapping[str, GivenFile] = field(repr=False)
    """Documents with a file on the service's own host, by id."""

    @property
    def application_id(self) -> str:
        """Its id."""
        return self.record.application_id

    def application_body(self, last_updated_at: str | None) -> bytes:
        """Return the application response, with another time of update where one is given."""
        if last_updated_at is None:
            return self.application
        return _DIGITS_KEPT.encode(
            {**_EXACT.decode(self.application), "last_updated_at": last_updated_at}
        )


def given(record: ApplicationRecord) -> Given:
    """Write a record down as the service will serve it.

    Raises:
        ConfigurationError: JSON cannot carry it.
    """
    documents = record.documents or _no_documents(record)
    files = {
        document.document_id: _file_of(document)
        for _, document in documents.all()
        if document.url.startswith(INVENTED_ADDRESS)
    }
    return Given(
        record=record,
        application=to_json(record.application),
        documents=_EXACT.decode(to_json(documents)),
        files=files,
    )


def by_type(documents: Iterable[Document]) -> Mapping[str, tuple[Document, ...]]:
    """Return documents by their type, which is that of their source, else a pay slip's."""
    found: dict[str, list[Document]] = {}
    for document in documents:
        kind = document.source.document_type if document.source else "paystub"
        found.setdefault(kind, []).append(document)
    return {kind: tuple(each) for kind, each in found.items()}


def documents_json(given: Given, address: str, *, pages: bool) -> bytes:
    """Write the documents response (contract section 2.3).

    Args:
        given: the record.
        address: stands where the host of files has an address to give.
        pages: whether the pages blocks were asked for.
    """
    written = {
        kind: [_written(given, document, address, pages=pages) for document in documents]
        for kind, documents in given.documents["documents"].items()
    }
    return _DIGITS_KEPT.encode({**given.documents, "documents": written})


def _written(given: Given, document: Mapping[str, Any], address: str, *, pages: bool) -> Any:
    written = dict(document)
    if document["document_id"] in given.files:
        written["url"] = address
    if not pages:
        written.pop("pages", None)
    elif "pages" not in written:
        numbered = enumerate(document["file_ids"], 1)
        items = [{"page_number": number, "file_id": file} for number, file in numbered]
        written["pages"] = {"count": len(items), "items": items}
    return written


def _file_of(document: Document) -> GivenFile:
    names = document.file_reference_ids or (f"{document.document_id}.pdf",)
    return GivenFile(document.document_id, names)


def _no_documents(record: ApplicationRecord) -> ApplicationDocuments:
    return ApplicationDocuments(
        application_id=record.application_id,
        application_reference_id=record.application.application_reference_id,
        documents={},
    )
