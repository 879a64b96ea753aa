"""One signed token (RFC 7515, 7519, 9068), believed or not; knows where no key comes from.

A token names an algorithm and a key, and is believed in neither: the algorithm must be
allowed and fit the key, and keys that come with the token count for nothing. What it says
is read only once its signature is found right.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, Final

from attrs import field, frozen

from income_client.errors import DecodeError
from income_client.settings import is_number
from income_client.wire.codec import parse

from .refusals import Refusal
from .token_keys import TokenKeys
from .token_rules import LONGEST_TOKEN, TokenRules

_SEGMENT: Final = re.compile(r"[A-Za-z0-9_-]+")
_SEGMENTS: Final = 3
_LONGEST_HEADER: Final = 4096
_TYPES: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})
_LATEST: Final = 253_402_300_799
"""The last second of the year 9999."""


@frozen(kw_only=True)
class _Token:
    algorithm: str
    kid: str | None
    message: bytes = field(repr=False)
    """What is signed."""
    payload: bytes = field(repr=False)
    signature: bytes = field(repr=False)


def check_token(token: str, keys: TokenKeys, rules: TokenRules, *, now: float) -> Refusal | None:
    """Say why a token is refused, None if it is believed.

    `Refusal.TOKEN_KEY_UNKNOWN` may be cured by newer keys: it stands for a key that is not
    among these, and for a token that names no key and fits none of these.

    Args:
        token: as it stands in the header.
        keys: those of its issuer.
        rules: what it must be and say.
        now: seconds since 1970.
    """
    read = _read(token, rules)
    if isinstance(read, Refusal):
        return read
    refusal = _signature_refusal(read, keys)
    return refusal or _payload_refusal(read.payload, rules, now)


def _read(token: str, rules: TokenRules) -> _Token | Refusal:
    """Take a token apart, and look at its header."""
    segments = token.split(".") if len(token) <= LONGEST_TOKEN else []
    decoded = [_decoded(segment) for segment in segments]
    if len(decoded) != _SEGMENTS:
        return Refusal.TOKEN_UNREADABLE
    raw_header, payload, signature = decoded
    if raw_header is None or payload is None or signature is None:
        return Refusal.TOKEN_UNREADABLE
    header = _object(raw_header) if len(raw_header) <= _LONGEST_HEADER else None
    if header is None:
        return Refusal.TOKEN_UNREADABLE
    refusal = _header_refusal(header, rules)
    if refusal is not None:
        return refusal
    return _Token(
        algorithm=header["alg"],
        kid=header.get("kid"),
        message=token.rpartition(".")[0].encode(),
        payload=payload,
        signature=signature,
    )


def _decoded(segment: str) -> bytes | None:
    """Return what a segment stands for, if it is the one text that does."""
    if _SEGMENT.fullmatch(segment) is None or len(segment) % 4 == 1:
        return None
    decoded = urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
    is_only = urlsafe_b64encode(decoded).rstrip(b"=").decode() == segment
    return decoded if is_only else None


def _object(text: bytes) -> Mapping[str, Any] | None:
    # A byte order mark would be taken off by the parser.
    if not text.startswith(b"{"):
        return None
    try:
        tree: Mapping[str, Any] = parse(text)
    except DecodeError:
        return None
    return tree


def _header_refusal(header: Mapping[str, Any], rules: TokenRules) -> Refusal | None:
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in rules.algorithms:
        return Refusal.TOKEN_ALGORITHM
    kind = header.get("typ", "JWT")
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        return Refusal.TOKEN_ALGORITHM
    # What `crit` names must be understood, and nothing is; `b64` changes what is signed.
    if "crit" in header or "b64" in header or not isinstance(header.get("kid", ""), str):
        return Refusal.TOKEN_UNREADABLE
    return None


def _signature_refusal(token: _Token, keys: TokenKeys) -> Refusal | None:
    for key in keys.candidates(token.algorithm, token.kid):
        if key.verifies(token.algorithm, token.message, token.signature):
            return None
    is_named = token.kid is not None and bool(keys.named(token.kid))
    return Refusal.TOKEN_SIGNATURE if is_named else Refusal.TOKEN_KEY_UNKNOWN


def _payload_refusal(payload: bytes, rules: TokenRules, now: float) -> Refusal | None:
    claims = _object(payload)
    if claims is None:
        return Refusal.TOKEN_UNREADABLE
    if claims.get("iss") != rules.issuer:
        return Refusal.TOKEN_ISSUER
    refusal = _time_refusal(claims, rules.leeway, now)
    if refusal is not None:
        return refusal
    if rules.audiences and rules.audiences.isdisjoint(_audiences(claims)):
        return Refusal.TOKEN_AUDIENCE
    if not all(claim.is_met(claims) for claim in rules.claims):
        return Refusal.TOKEN_CLAIMS
    return None


def _time_refusal(claims: Mapping[str, Any], leeway: float, now: float) -> Refusal | None:
    if "exp" not in claims:
        return Refusal.TOKEN_CLAIMS
    if not all(_is_moment(claims[name]) for name in ("exp", "nbf", "iat") if name in claims):
        return Refusal.TOKEN_OUT_OF_TIME
    is_over = now - leeway >= claims["exp"]
    is_early = any(claims.get(name, now) > now + leeway for name in ("nbf", "iat"))
    return Refusal.TOKEN_OUT_OF_TIME if is_over or is_early else None


def _is_moment(value: object) -> bool:
    return is_number(value) and 0 <= value <= _LATEST


def _audiences(claims: Mapping[str, Any]) -> frozenset[str]:
    audience = claims.get("aud")
    if isinstance(audience, str):
        return frozenset({audience})
    if isinstance(audience, list) and all(isinstance(entry, str) for entry in audience):
        return frozenset(audience)
    return frozenset()
