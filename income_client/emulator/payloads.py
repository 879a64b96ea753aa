"""Applications and documents, invented or added, as the service's JSON."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from attrs import field, frozen

from .times import stamp
from .world import Contents

_ADDRESS_MARK: Final = "@download-address@"
# Amounts of applications that were added keep their digits.
_JSON: Final = msgspec.json.Encoder(decimal_format="number")


@frozen
class DocumentFile:
    """What the host of files knows of a document."""

    document_id: str
    file_name: str


@frozen(kw_only=True)
class DocumentsTemplate:
    """A documents response with gaps for the download addresses, which differ each second."""

    pieces: tuple[bytes, ...] = field(repr=False)
    """What comes before, between and after the addresses."""
    files: tuple[DocumentFile, ...] = field(repr=False)
    """The file of each gap, in order."""

    def fill(self, addresses: Iterable[str]) -> bytes:
        """Return the response with these addresses, which need no escaping in JSON."""
        parts = [self.pieces[0]]
        for address, piece in zip(addresses, self.pieces[1:], strict=True):
            parts += (address.encode(), piece)
        return b"".join(parts)


def added_row(added: Contents) -> str:
    """Write the row of the list of an application that was added (contract section 4.1)."""
    names = ("application_id", "application_reference_id", "application_date")
    return _JSON.encode({name: added.application[name] for name in names}).decode()


def application_body(contents: Contents, updated: int | None) -> bytes:
    """Write the application response, updated at a service second if it was (contract 2.2)."""
    if updated is None:
        return _JSON.encode(contents.application)
    return _JSON.encode({**contents.application, "last_updated_at": f"{stamp(updated)}Z"})


def documents_template(contents: Contents, *, pages: bool) -> DocumentsTemplate:
    """Write the documents response, addresses of files here left open (contract section 2.3)."""
    written = {
        kind: [_written(document, pages=pages) for document in documents]
        for kind, documents in contents.documents["documents"].items()
    }
    pieces = _JSON.encode({**contents.documents, "documents": written}).split(
        _ADDRESS_MARK.encode()
    )
    return DocumentsTemplate(pieces=tuple(pieces), files=tuple(files_of(contents)))


def files_of(contents: Contents) -> list[DocumentFile]:
    """Return the files of those documents that have one here."""
    return [
        DocumentFile(
            document["document_id"],
            next(iter(document.get("file_reference_ids", ())), f"{document['document_id']}.pdf"),
        )
        for document in contents.all_documents()
        if not document.get("url")
    ]


def _written(document: Mapping[str, Any], *, pages: bool) -> dict[str, Any]:
    written = {**document, "url": document.get("url") or _ADDRESS_MARK}
    if not pages:
        written.pop("pages", None)
    elif "pages" not in written:
        items = [
            {"page_number": place, "file_id": name}
            for place, name in enumerate(document.get("file_ids", ()), 1)
        ]
        written["pages"] = {"count": len(items), "items": items}
    return written
