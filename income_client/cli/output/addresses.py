"""Records without the signed addresses of files, with which anybody can read them."""

from attrs import evolve

from income_client import ApplicationDocuments, ApplicationRecord


def without_addresses(record: ApplicationRecord) -> ApplicationRecord:
    """Return a record that may be kept for longer than an address is valid."""
    if record.documents is None:
        return record
    bare = {
        kind: tuple(evolve(document, url="") for document in documents)
        for kind, documents in record.documents.documents.items()
    }
    documents: ApplicationDocuments = evolve(record.documents, documents=bare)
    return evolve(record, documents=documents)
