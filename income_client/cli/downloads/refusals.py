"""Refused addresses, each kind told once however many files it is about; decides none of them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from income_client import LinkRefusal, UnsafeLinkError
from income_client.cli.output import counted

_HINTS: Final[Mapping[LinkRefusal, str]] = {
    LinkRefusal.PLAIN_HTTP: "plain http is only for this machine, if --allow-host names it",
    LinkRefusal.HOST: "files may also come from a host that you trust and name with --allow-host",
    LinkRefusal.PRIVATE_NETWORK: "files come from private networks with --allow-private-networks",
    LinkRefusal.THIS_MACHINE: (
        "files come from this machine if --allow-host names it, as 127.0.0.1 or so"
    ),
}
"""What to do about a refused address; elsewhere nothing."""


class Refusals:
    """Refused addresses by what is said of them, which names the host."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._reasons: dict[LinkRefusal, None] = {}

    def is_new(self, error: UnsafeLinkError, document_id: str) -> bool:
        """Count a refusal, and say whether it is the first of its kind.

        Args:
            error: the refusal.
            document_id: whose file it is about.
        """
        kind = _kind(error, document_id)
        self._counts[kind] += 1
        self._reasons[error.reason] = None
        return self._counts[kind] == 1

    def rest(self) -> Iterator[str]:
        """Yield how many more there were of each kind, and what to do about them."""
        for kind, count in self._counts.items():
            if count > 1:
                yield f"the same of {counted(count - 1, 'more file')}: {kind}"
        for reason in self._reasons:
            if reason in _HINTS:
                yield _HINTS[reason]


def _kind(error: UnsafeLinkError, document_id: str) -> str:
    """Return what a refusal says without the call and the document that it begins with."""
    _, found, rest = error.message.partition(f"({document_id}): ")
    return rest if found else error.message
