"""The types of documents that a command is asked for, and which of them were found."""

from collections.abc import Iterable
from typing import Annotated, Final

from cyclopts import Parameter

from income_client import ApplicationDocuments, DocumentEntry

TypesOption = Annotated[tuple[str, ...], Parameter(name="--type", negative=(), show_default=False)]
_OF_THE_CONTRACT: Final = "paystub"


class DocumentTypes:
    """Chooses documents by type.

    Args:
        wanted: the types to choose; every one where this is empty.
    """

    def __init__(self, wanted: Iterable[str] = ()) -> None:
        self._wanted = frozenset(wanted)
        self._found: set[str] | None = None

    def chosen(self, documents: ApplicationDocuments) -> list[DocumentEntry]:
        """Return an application's documents of these types."""
        self._found = (self._found or set()) | documents.documents.keys()
        return [
            entry
            for entry in documents.all()
            if not self._wanted or entry.document_type in self._wanted
        ]

    @property
    def missing(self) -> str | None:
        """The types that no document had, in words; None if there are none."""
        missing = ", ".join(sorted(self._wanted - (self._found or set())))
        there = ", ".join(sorted(self._found or ())) or "none"
        return f"no document of type {missing}; there are {there}" if missing else None

    @property
    def are_known(self) -> bool:
        """Whether each type was found, or is one that the service is known to have.

        Any other may be misspelt. It cannot be known where no application was read.
        """
        if self._found is None:
            return True
        return self._wanted <= self._found | {_OF_THE_CONTRACT}
