"""How a file on its way is called; decides whose part it is, and touches no disk."""

import base64
import binascii
import hashlib
import re
from typing import Final, Self

from attrs import frozen

_NAME: Final = re.compile(
    r"\.(?P<target>[0-9a-f]{16})\.(?P<mark>-|[A-Za-z0-9_=-]{2,136})"
    r"\.(?P<boot>[0-9a-f]{8})\.(?P<chance>[0-9a-f]{8})\.part",
)
_STRONG: Final = re.compile(r'"[!#-~]{1,98}"')
_NO_ETAG: Final = "-"
_NO_BOOT: Final = "00000000"


@frozen
class PartName:
    """The name of a part; its text is the name itself."""

    target: str
    """16 hex digits of the SHA-256 of what the target is called, its extension aside."""
    mark: str | None
    """The strong mark of what it is a part of."""
    boot: str
    """8 hex digits of the boot in which it was written; zeros where none is known."""
    chance: str
    """8 hex digits by chance."""

    @classmethod
    def of(cls, target: str, mark: str | None, boot: str | None, chance: str) -> Self:
        """Make the name of a new part of a target."""
        return cls(_short(target), mark, boot or _NO_BOOT, chance)

    @classmethod
    def read(cls, name: str, target: str) -> Self | None:
        """Read a name that was found; None if it is not that of a part of the target."""
        found = _NAME.fullmatch(name)
        if found is None or found["target"] != _short(target):
            return None
        return cls(found["target"], _decoded(found["mark"]), found["boot"], found["chance"])

    def __str__(self) -> str:
        mark = _NO_ETAG if self.mark is None else _encoded(self.mark)
        return f".{self.target}.{mark}.{self.boot}.{self.chance}.part"

    def is_of(self, boot: str | None) -> bool:
        """Say whether a process of this boot has written it."""
        return self.boot == (boot or _NO_BOOT)

    def can_be_adopted(self, boot: str | None) -> bool:
        """Say whether a process of this boot can know what is in it, and go on."""
        # After a loss of power the tail of a file may be zeros: another boot's is not trusted.
        return self.mark is not None and boot is not None and self.boot == boot


def is_part(name: str) -> bool:
    """Say whether a file is called like a part."""
    return name.startswith(".") and name.endswith(".part")


def is_strong(mark: str | None) -> bool:
    """Say whether an mark stands for the same bytes, and fits into a name."""
    return mark is not None and _STRONG.fullmatch(mark) is not None


def _short(target: str) -> str:
    return hashlib.sha256(target.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _encoded(mark: str) -> str:
    return base64.urlsafe_b64encode(mark.encode("ascii")).decode("ascii")


def _decoded(text: str) -> str | None:
    if text == _NO_ETAG:
        return None
    try:
        mark = base64.b64decode(text, altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, UnicodeError):
        return None
    # Only what would be written so again leads back to this name.
    return mark if is_strong(mark) and _encoded(mark) == text else None
