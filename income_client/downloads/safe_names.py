"""One safe component of a path from any text; knows no template and touches no file."""

import hashlib
import re
import unicodedata
from typing import Final

LONGEST: Final = 120
"""Bytes of UTF-8 that a safe component has at most."""

# Control, format (bidirectional ones too), surrogates, private, unassigned, line separators.
_GONE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_REPLACED: Final = frozenset('/\\:*?"<>|')
_NOT_FIRST: Final = ".-~ "
_NOT_LAST: Final = ". "
_MARK: Final = re.compile(r"~[0-9a-f]{8}\Z", re.IGNORECASE)
_RESERVED: Final = frozenset(
    {"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$"}
    | {f"{port}{digit}" for port in ("COM", "LPT") for digit in "0123456789¹²³"},
)


def safe_component(text: str) -> str:
    """Return one component of a path for a text from outside.

    A text that is safe comes back as it is. Any other is changed and ends with
    ``~`` and 8 hex digits of its own hash, so that two texts do not meet in one
    name; a text that ends so by itself counts as changed for the same reason.

    Args:
        text: anything, surrogates and the empty text included.

    Returns:
        At most `LONGEST` bytes of UTF-8, never empty, never a name that an
        operating system takes for something else.
    """
    tidy = _tidy(text)
    if tidy == text and tidy == _cut(tidy, LONGEST) and not _MARK.search(text):
        return text
    mark = f"~{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return (_cut(tidy, LONGEST - len(mark)).rstrip(_NOT_LAST) or "_") + mark


def without_reserved(component: str) -> str:
    """Return a component that is not the name of a device on Windows."""
    # Such a name is reserved with any extension behind it, and with spaces before that.
    stem = component.partition(".")[0].rstrip(" ")
    return f"_{component}" if stem.upper() in _RESERVED else component


def is_safe_text(text: str) -> bool:
    """Say whether a text has none of the characters that are taken out or replaced."""
    return _clean(text) == text


def is_safe_at_ends(text: str) -> bool:
    """Say whether a component begins and ends with what may stand there, and has anything."""
    return bool(text) and text[0] not in _NOT_FIRST and text[-1] not in _NOT_LAST


def _tidy(text: str) -> str:
    return without_reserved(_clean(text).lstrip(_NOT_FIRST).rstrip(_NOT_LAST)) or "_"


def _clean(text: str) -> str:
    signs = (_sign(sign) for sign in unicodedata.normalize("NFC", text))
    # What has gone may have kept two signs apart that are one.
    return unicodedata.normalize("NFC", "".join(signs))


def _sign(sign: str) -> str:
    category = unicodedata.category(sign)
    if category in _GONE:
        return ""
    if sign in _REPLACED or (category == "Zs" and sign != " "):
        return "_"
    return sign


def _cut(text: str, size: int) -> str:
    return text.encode("utf-8")[:size].decode("utf-8", "ignore")
