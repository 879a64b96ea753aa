"""What an export is asked to be, and the span that it is of; values that wait for nothing."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final, Self

from attrs import asdict, fields, frozen

from income_client.cli.options import BEGINNING

_LATE: Final = timedelta(seconds=5)
"""How long the service may take to list an update: so far, spans that follow each other overlap."""


@frozen(kw_only=True)
class Request:
    """The arguments that an export cannot go on without.

    Times are the service's in ISO 8601, or go back from its present when the export began.
    """

    service: str
    """Address of the service."""
    updated_after: str | None
    """Where the span begins; None for the beginning of time."""
    updated_before: str | None
    """Where it ends; None for the service's present when the export began."""
    documents: bool
    """Whether each line holds the documents too."""
    pages: bool
    """Whether each document has its pages block."""
    addresses: bool = False
    """Whether each document has the address of its file."""

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read what `text` has written; earlier versions kept addresses, and did not say so."""
        return cls(**{"addresses": True, **json.loads(text)})

    @property
    def text(self) -> str:
        """All of it, as a text."""
        return json.dumps(asdict(self))

    def differences(self, other: "Request") -> Iterator[str]:
        """Yield in what this one differs from another, as a person would put it."""
        for one in fields(Request):
            mine, theirs = getattr(self, one.name), getattr(other, one.name)
            if mine != theirs:
                yield f"{_shown(one.name, mine)}, and not {_shown(one.name, theirs)}"


def _shown(name: str, value: Any) -> str:
    option = name.replace("_", "-")
    match value:
        case bool():
            return f"--{option}" if value else f"--no-{option}"
        case None:
            return f"no --{option}"
        case _ if name == "service":
            return f"the service {value}"
        case _:
            return f"--{option} {value}"


@frozen
class Span:
    """The span of an export, in the service's time."""

    after: datetime | None
    """Where it begins; None for the beginning of time."""
    before: datetime
    """Where it ends: fixed once, however long the export takes."""

    def done(self, fraction: float, of: "Span") -> float:
        """Return how much of it is done, 0 to 1, if of a longer one with its end so much is.

        Args:
            fraction: share of the longer one that is done, from anywhere in it.
            of: the longer one.
        """
        left = (1 - fraction) * of.seconds
        return min(max(1 - left / self.seconds, 0.0), 1.0) if self.seconds else 0.0

    def since(self, first: datetime) -> "Span":
        """Return the part of it that is not before a time."""
        return Span(min(max(first, self._begins), self.before), self.before)

    @property
    def _begins(self) -> datetime:
        return BEGINNING if self.after is None else self.after

    @property
    def seconds(self) -> float:
        """How long it is."""
        return (self.before - self._begins).total_seconds()

    @property
    def next_after(self) -> datetime:
        """Where the next export is to begin, to miss nothing between them."""
        return self.before - _LATE

    def __str__(self) -> str:
        begins = "the beginning" if self.after is None else self.after.isoformat()
        return f"{begins} to {self.before.isoformat()}"
