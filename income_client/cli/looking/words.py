"""Sentences about an application that every layout says alike; knows no layout."""

from collections.abc import Iterator
from typing import Final

from income_client.cli.output import counted

from .view import RecordView

RESTS_ON_SUSPECTED: Final = "rests on a suspected document"
"""What is said of an amount whose documents do not stand beside it."""


def title_facts(view: RecordView) -> Iterator[str]:
    """Yield what stands below the title."""
    yield f"Reference {view.reference}"
    yield f"applied {view.applied}"
    yield f"updated {view.updated}"


def hidden_note() -> str:
    """Return how to see what is hidden."""
    return "What tells who the borrowers are is hidden; --show-personal-data shows it."


def unit_note() -> str:
    """Return what is known of the currency: the contract names none."""
    return "Amounts as the service gives them, without a currency."


def suspicions(view: RecordView) -> Iterator[str]:
    """Yield a sentence about each document that is suspected to be fraudulent."""
    for document in view.suspected:
        uses = ", ".join(document.supports) or "no amount"
        yield f"{document.label}, {document.document_id}. It supports {uses}."
    for name in view.suspected_elsewhere:
        yield f"{name}, which is not among the documents."


def footnotes(view: RecordView) -> Iterator[str]:
    """Yield what else there is, and where to see it."""
    files = counted(len(view.sources.files), "file")
    inputs = counted(view.sources.structured, "other input")
    yield f"Calculated from {files} and {inputs}."
    if view.further_fields:
        yield f"{counted(view.further_fields, 'further field')}, see --output json."
