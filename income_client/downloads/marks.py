"""What the bytes of a part are of, as a short text that can stand in its name; knows no disk.

An entity tag tells versions of one object apart, not objects: so it counts only
together with the document and the address, its signature aside.
"""

import re
from typing import Final

from attrs import frozen

_MARK: Final = re.compile(
    r'"(?P<subject>[0-9a-f]{16})\.(?P<total>0|[1-9][0-9]{0,17})\.(?P<etag>[!#-~]{1,62})"'
)


@frozen
class Mark:
    """One version of one file."""

    subject: str
    """Which file, as 16 hex digits."""
    total: int
    """Its length in bytes."""
    etag: str
    """Its strong entity tag, quotes included."""

    def __str__(self) -> str:
        return f'"{self.subject}.{self.total}.{self.etag[1:-1]}"'


def mark_of(subject: str, total: int | None, etag: str | None) -> Mark | None:
    """Return the mark of a version; None where it cannot be told from others.

    Args:
        subject: which file.
        total: its length in bytes, if known.
        etag: its strong entity tag, if it has one.
    """
    if total is None or etag is None:
        return None
    return read_mark(str(Mark(subject, total, etag)))


def read_mark(text: str | None) -> Mark | None:
    """Read the text of a mark; None if it is none."""
    found = _MARK.fullmatch(text or "")
    if found is None:
        return None
    return Mark(found["subject"], int(found["total"]), f'"{found["etag"]}"')
