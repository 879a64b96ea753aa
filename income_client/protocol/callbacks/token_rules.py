"""What a token of callbacks must be and say, as a value; knows no key and reads no token.

Each algorithm belongs to one type of key and, where there are several, to one curve, so
that a token cannot choose to have its key read as something else.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from attrs import frozen

from income_client.errors import ConfigurationError
from income_client.settings import is_number

ClaimValue: TypeAlias = str | int | bool
"""What a further claim may have to equal."""

LONGEST_TOKEN: Final = 16_384
"""Characters."""
DEFAULT_LEEWAY: Final = 30.0
"""Seconds by which clocks may differ, unless the caller says otherwise."""

_MOST_LEEWAY: Final = 60.0
_OWN_RULES: Final = frozenset({"iss", "aud", "exp", "nbf", "iat"})


@frozen(kw_only=True)
class KeyKind:
    """The keys that an algorithm works with."""

    key_type: str
    """As ``kty`` names it."""
    curve: str | None = None
    """As ``crv`` names it; None for types that have none."""
    least_bits: int = 0
    """Shortest key that is taken."""


_RSA: Final = KeyKind(key_type="RSA", least_bits=2048)
_ED25519: Final = KeyKind(key_type="OKP", curve="Ed25519")

ASYMMETRIC: Final[Mapping[str, KeyKind]] = {
    "RS256": _RSA,
    "RS384": _RSA,
    "RS512": _RSA,
    "PS256": _RSA,
    "PS384": _RSA,
    "PS512": _RSA,
    "ES256": KeyKind(key_type="EC", curve="P-256"),
    "ES384": KeyKind(key_type="EC", curve="P-384"),
    "ES512": KeyKind(key_type="EC", curve="P-521"),
    "EdDSA": _ED25519,
    "Ed25519": _ED25519,
}
"""Allowed by default: which of them an identity provider uses is its own affair, none of
them is weak, and who has the public key cannot sign. ``Ed25519`` is the later name of what
``EdDSA`` means (RFC 9864)."""

SYMMETRIC: Final[Mapping[str, KeyKind]] = {
    f"HS{bits}": KeyKind(key_type="oct", least_bits=bits) for bits in (256, 384, 512)
}
"""Only when named, and never beside the others."""

KINDS: Final[Mapping[str, KeyKind]] = {**ASYMMETRIC, **SYMMETRIC}
"""Every algorithm that is known here; ``none`` is not."""


@frozen(kw_only=True)
class RequiredClaim:
    """A further claim, and what it must be equal to."""

    name: str
    """Its name."""
    value: ClaimValue
    """Its value, of the same type."""

    def is_met(self, claims: Mapping[str, Any]) -> bool:
        """Say whether a token says so."""
        found = claims.get(self.name)
        return type(found) is type(self.value) and found == self.value


@frozen(kw_only=True)
class TokenRules:
    """What a token must be and say."""

    algorithms: frozenset[str]
    """Those that may sign it."""
    issuer: str
    """Its ``iss``."""
    audiences: frozenset[str] = frozenset()
    """Of these its ``aud`` holds one; empty where ``aud`` does not matter."""
    claims: tuple[RequiredClaim, ...] = ()
    """What else it says."""
    leeway: float = DEFAULT_LEEWAY
    """Seconds by which clocks may differ."""

    @property
    def is_symmetric(self) -> bool:
        """Whether the keys are secrets."""
        return not self.algorithms.isdisjoint(SYMMETRIC)


def token_rules(
    *,
    issuer: object,
    audience: object,
    claims: object,
    algorithms: object,
    leeway: object,
) -> TokenRules:
    """Check what a caller has said, and return the rules.

    Raises:
        ConfigurationError: an argument cannot be meant.
    """
    if not _is_text(issuer):
        raise ConfigurationError("issuer is the text that tokens carry as iss; it is required")
    audiences = _audiences(audience)
    required = _required(claims)
    if not audiences and not required:
        raise ConfigurationError(
            "audience, or claims such as {'client_id': ...}, is required: a token that the same "
            "issuer has made for another API must not pass"
        )
    return TokenRules(
        algorithms=_algorithms(algorithms),
        issuer=str(issuer),
        audiences=audiences,
        claims=required,
        leeway=_leeway(leeway),
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _audiences(audience: object) -> frozenset[str]:
    if audience is None:
        return frozenset()
    found = (audience,) if isinstance(audience, str) else audience
    if isinstance(found, Iterable) and not isinstance(found, bytes | Mapping):
        entries = tuple(found)
        if entries and all(map(_is_text, entries)):
            return frozenset(entries)
    raise ConfigurationError("audience is a text that tokens carry as aud, or several of them")


def _required(claims: object) -> tuple[RequiredClaim, ...]:
    if claims is None:
        return ()
    if not isinstance(claims, Mapping) or not claims or not all(map(_is_text, claims)):
        raise ConfigurationError("claims are names with the values that tokens must carry")
    for name, value in claims.items():
        if name in _OWN_RULES:
            raise ConfigurationError(f"claims: {name} is checked by a rule of its own")
        if value == "" or not isinstance(value, str | int):
            raise ConfigurationError("claims: a value is a text, a whole number or a bool")
    return tuple(RequiredClaim(name=name, value=value) for name, value in claims.items())


def _algorithms(algorithms: object) -> frozenset[str]:
    if algorithms is None:
        return frozenset(ASYMMETRIC)
    is_list = isinstance(algorithms, Iterable) and not isinstance(algorithms, str | bytes)
    names = tuple(algorithms) if isinstance(algorithms, Iterable) and is_list else ()
    if not names or not all(isinstance(name, str) and name in KINDS for name in names):
        raise ConfigurationError(f"algorithms are a list of {', '.join(KINDS)}")
    found = frozenset(names)
    if not found.isdisjoint(SYMMETRIC) and not found.isdisjoint(ASYMMETRIC):
        raise ConfigurationError(
            "algorithms: HS256 and its like, whose key is a secret, never go together with the "
            "others, whose key is public"
        )
    return found


def _leeway(leeway: object) -> float:
    if is_number(leeway) and 0 <= leeway <= _MOST_LEEWAY:
        return float(leeway)
    raise ConfigurationError(f"leeway is a number of seconds from 0 to {_MOST_LEEWAY:.0f}")
