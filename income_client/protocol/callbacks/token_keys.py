"""Keys that tokens are verified with: which of them are taken, and what each may verify.

The only module that knows joserfc. It is imported when keys are, so that whoever has no
tokens needs no such library; its errors and warnings never leave.
"""

import binascii
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from attrs import field, frozen

from income_client.errors import ConfigurationError

from .token_rules import KINDS, KeyKind

try:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey
    from joserfc.jws import JWSRegistry
except ImportError:
    raise ConfigurationError(
        "signed tokens of callbacks need pip install 'income-client[callbacks]'"
    ) from None

_MOST_KEYS: Final = 100
_MOST_TRIED: Final = 4
_LONGEST_PEM: Final = 65_536
_LONGEST_NUMBER: Final = 2048
"""Characters of a part of a key in base64; an RSA modulus of 12288 bits has as many."""

_PUBLIC_PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "RSA": ("n", "e"),
    "EC": ("crv", "x", "y"),
    "OKP": ("crv", "x"),
    "oct": ("k",),
}
_MEASURED_PART: Final = {"RSA": "n", "oct": "k"}
_LIBRARY: Final[Mapping[str, Callable[[Any], Key]]] = {
    "RSA": RSAKey.import_key,
    "EC": ECKey.import_key,
    "OKP": OKPKey.import_key,
    "oct": OctKey.import_key,
}
_SAME: Final = frozenset({"EdDSA", "Ed25519"})


@frozen(kw_only=True, eq=False)
class TokenKey:
    """One key, and the algorithms whose signatures it may verify."""

    kid: str | None
    """Its name among others."""
    algorithms: frozenset[str]
    """All that fit its type, its length and what its owner says of its use."""
    material: Any = field(repr=False)
    """The key itself, without private parts, as joserfc has it."""

    def verifies(self, algorithm: str, message: bytes, signature: bytes) -> bool:
        """Say whether this is a signature of the message by the owner of this key."""
        if algorithm not in self.algorithms:
            return False
        model = JWSRegistry.algorithms[algorithm]
        try:
            return bool(model.verify(message, signature, self.material))
        except Exception:  # noqa: BLE001 - whatever the library cannot verify is not verified
            return False


@frozen
class TokenKeys:
    """The keys of an issuer."""

    keys: tuple[TokenKey, ...] = ()
    """In the order of the set."""
    most_tried: int = _MOST_TRIED
    """How many are tried at the most for a token that may be any of theirs."""

    def named(self, kid: str) -> tuple[TokenKey, ...]:
        """Return the keys of this name; a set may hold several."""
        return tuple(key for key in self.keys if key.kid == kid)

    def candidates(self, algorithm: str, kid: str | None) -> tuple[TokenKey, ...]:
        """Return the keys that may have made such a signature, a few at most.

        Args:
            algorithm: of the token.
            kid: the key that the token names. A key without a name may be any.
        """
        among = self.keys
        if kid is not None:
            among = self.named(kid) or tuple(key for key in self.keys if key.kid is None)
        return tuple(key for key in among if algorithm in key.algorithms)[: self.most_tried]

    def within(self, algorithms: frozenset[str]) -> "TokenKeys":
        """Return the keys that work with one of these algorithms."""
        return TokenKeys(tuple(key for key in self.keys if key.algorithms & algorithms))


NO_KEYS: Final = TokenKeys()
"""What is known of an issuer's keys before they were fetched."""


def import_keys(key_set: object) -> TokenKeys:
    """Return the keys of a key set (RFC 7517) that can be used, and leave out the others.

    Args:
        key_set: an object with the member ``keys``, as JSON has it.
    """
    entries = key_set.get("keys") if isinstance(key_set, Mapping) else None
    if not isinstance(entries, Sequence) or isinstance(entries, str | bytes):
        return TokenKeys()
    found = (import_key(entry) for entry in entries[:_MOST_KEYS])
    return TokenKeys(tuple(key for key in found if key is not None))


def import_key(jwk: object) -> TokenKey | None:
    """Return a key, None for one that cannot be used, or whose private part was given away."""
    if not isinstance(jwk, Mapping):
        return None
    key_type = jwk.get("kty")
    parts = _PUBLIC_PARTS.get(key_type) if isinstance(key_type, str) else None
    kid = jwk.get("kid")
    if parts is None or "d" in jwk or not (kid is None or isinstance(kid, str)):
        return None
    # Only these go to the library, which fails on members that it does not expect.
    plain: dict[str, Any] = {name: jwk.get(name) for name in ("kty", *parts)}
    algorithms = _fitting(plain) & _permitted(jwk)
    if not algorithms or not all(map(_is_short, plain.values())):
        return None
    return _made(plain["kty"], plain, kid=kid, algorithms=algorithms)


def import_pem(pem: bytes) -> TokenKey | None:
    """Return a public key in PEM, None for one that cannot be used."""
    try:
        public = load_pem_public_key(pem) if len(pem) <= _LONGEST_PEM else None
        # joserfc warns of a short key when it is imported, so it is measured before.
        if isinstance(public, RSAPublicKey) and public.key_size < KINDS["RS256"].least_bits:
            return None
        for library in (RSAKey, ECKey, OKPKey):
            if library.binding.check_cryptography_key(public):
                return import_key(library.import_key(cast("Any", public)).as_dict(private=False))
    except Exception:  # noqa: BLE001 - its text may show the key
        return None
    return None


def import_secret(secret: bytes) -> TokenKey | None:
    """Return a shared secret as a key, None for one that is too short."""
    algorithms = _fitting_length("oct", None, len(secret) * 8)
    return _made("oct", secret, kid=None, algorithms=algorithms) if algorithms else None


def _made(
    key_type: str, source: Any, *, kid: str | None, algorithms: frozenset[str]
) -> TokenKey | None:
    try:
        material = _LIBRARY[key_type](source)
    except Exception:  # noqa: BLE001 - its text may show the key
        return None
    return TokenKey(kid=kid, algorithms=algorithms, material=material)


def _fitting(jwk: Mapping[str, Any]) -> frozenset[str]:
    key_type = jwk["kty"]
    measured = _MEASURED_PART.get(key_type)
    bits = 0 if measured is None else _bits(key_type, jwk[measured])
    return _fitting_length(key_type, jwk.get("crv"), bits)


def _fitting_length(key_type: str, curve: object, bits: int) -> frozenset[str]:
    def fits(kind: KeyKind) -> bool:
        return kind.key_type == key_type and kind.curve == curve and bits >= kind.least_bits

    return frozenset(name for name, kind in KINDS.items() if fits(kind))


def _permitted(jwk: Mapping[str, Any]) -> frozenset[str]:
    """Return the algorithms that a key's owner allows it for."""
    operations = jwk.get("key_ops", ["verify"])
    if jwk.get("use", "sig") != "sig":
        return frozenset()
    if not isinstance(operations, list | tuple) or "verify" not in operations:
        return frozenset()
    algorithm = jwk.get("alg")
    if algorithm is None:
        return frozenset(KINDS)
    if not isinstance(algorithm, str):
        return frozenset()
    return _SAME if algorithm in _SAME else frozenset({algorithm})


def _bits(key_type: str, encoded: object) -> int:
    if not isinstance(encoded, str) or not _is_short(encoded):
        return 0
    try:
        decoded = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    except (binascii.Error, ValueError):
        return 0
    if key_type == "oct":
        return len(decoded) * 8
    return int.from_bytes(decoded, "big").bit_length()


def _is_short(part: object) -> bool:
    return isinstance(part, str) and len(part) <= _LONGEST_NUMBER
