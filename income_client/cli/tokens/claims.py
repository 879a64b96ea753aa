"""What an access token says of itself, read without its signature; shows what is known harmless."""

import binascii
import json
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from attrs import frozen

_HIDDEN: Final = "(not shown)"
_SIGNED_PARTS: Final = 3
_ENCRYPTED_PARTS: Final = 5
_MOST_CHARACTERS: Final = 200
_HEADER: Final = frozenset({"alg", "cty", "enc", "kid", "typ"})
_TIMES: Final = frozenset({"auth_time", "exp", "iat", "nbf"})
_CLAIMS: Final = _TIMES | {
    "aud", "azp", "client_id", "cid", "gty", "iss", "roles", "scope", "scp", "sub", "tid",
    "token_use", "ver",
}  # fmt: skip
"""Claims that speak of the token, the service and the client; any other may speak of a person."""


@frozen(kw_only=True)
class TokenContent:
    """What a token holds, as far as it may be shown."""

    header: Mapping[str, str]
    """Fields of its header, in words."""
    claims: Mapping[str, str]
    """Claims, in words; empty where they are encrypted."""
    hidden: tuple[str, ...]
    """Names of the header's fields and of claims whose values are not shown."""
    scope: str | None
    """What the token may be used for, where it says so."""
    expires_at: datetime | None
    """Its end by its own account."""
    is_encrypted: bool
    """Whether its claims are for the service only."""


def content_of(token: str) -> TokenContent | None:
    """Return what a token holds; None for one that is no JWT, as it need not be.

    Nothing of it is verified: it is for the service to do that.

    Args:
        token: the token.
    """
    parts = token.split(".")
    if len(parts) not in (_SIGNED_PARTS, _ENCRYPTED_PARTS):
        return None
    header = _table(parts[0])
    is_encrypted = len(parts) == _ENCRYPTED_PARTS
    claims = {} if is_encrypted else _table(parts[1])
    if header is None or claims is None or "alg" not in header:
        return None
    scope = claims.get("scope", claims.get("scp"))
    return TokenContent(
        header={key: _words(value) for key, value in header.items() if key in _HEADER},
        claims={key: _claim(key, value) for key, value in claims.items() if key in _CLAIMS},
        hidden=tuple(
            [key[:_MOST_CHARACTERS] for key in header if key not in _HEADER]
            + [key[:_MOST_CHARACTERS] for key in claims if key not in _CLAIMS]
        ),
        scope=None if scope is None else _words(scope) or None,
        expires_at=_moment(claims.get("exp")),
        is_encrypted=is_encrypted,
    )


def _table(part: str) -> dict[str, Any] | None:
    try:
        text = urlsafe_b64decode(part + "=" * (-len(part) % 4))
        value = json.loads(text)
    except (ValueError, binascii.Error, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _claim(key: str, value: object) -> str:
    moment = _moment(value) if key in _TIMES else None
    if moment is not None:
        return utc_text(moment)
    # Where the client is a person, its name may be that of the person.
    is_name = key == "sub" and isinstance(value, str) and any(map(str.isspace, value))
    return _HIDDEN if is_name else _words(value)


def utc_text(moment: datetime) -> str:
    """Return a moment in UTC to the second, its year in four digits."""
    return f"{moment.replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def _words(value: object) -> str:
    text = " ".join(map(_word, value)) if isinstance(value, list) else _word(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"


def _word(value: object) -> str:
    match value:
        # Where the client is a person, its name may be an address of that person.
        case str() if "@" not in value:
            return value
        case bool() | int() | float() | None:
            return json.dumps(value)
        case _:
            return _HIDDEN


def _moment(value: object) -> datetime | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return datetime.fromtimestamp(value, UTC)
    except (OverflowError, OSError, ValueError):
        return None
