"""Signed tokens (RFC 7515, 7519, 9068): rules, keys and checks.

joserfc imports keys, verifies, judges the registered claims, and signs. Ours is what it leaves
open: one reading of each token, the strength and use of keys, tokens that name no key, moments
and claims compared by type. The module is imported once there are keys, since joserfc is an
extra; its errors and warnings stay in here.

A token names an algorithm and a key, and neither is trusted: the algorithm must be allowed and
fit the key, and keys that come with the token count for nothing.
"""

import binascii
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from attrs import field, frozen

from income_client.errors import ConfigurationError, DecodeError, InvalidArgumentError
from income_client.settings import Secret, is_number
from income_client.wire.codec import parse

from .exchange import LONGEST_TOKEN, Refusal, RefusedError

try:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from joserfc import jwk, jws, jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey
except ImportError:
    raise ConfigurationError(
        "signed tokens of callbacks need pip install 'income-client[callbacks]'"
    ) from None

_LONGEST_HEADER: Final = 4096
_SEGMENT: Final = re.compile(r"[A-Za-z0-9_-]+")
_SEGMENTS: Final = 3
_TYPES: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})
_LATEST: Final = 253_402_300_799
"""The last second of the year 9999."""
_MOST_LEEWAY: Final = 60.0

_LEAST_RSA_BITS: Final = 2048
_MOST_GIVEN: Final = 32
_MOST_IN_SET: Final = 100
_MOST_TRIED: Final = 4
_LONGEST_PEM: Final = 65_536
_LONGEST_PART: Final = 2048
"""Characters of the longest part of a key in base64: an RSA modulus of 12288 bits."""

_RSA: Final = ("RSA", None, _LEAST_RSA_BITS)
_KINDS: Final[Mapping[str, tuple[str, str | None, int]]] = {
    "RS256": _RSA,
    "RS384": _RSA,
    "RS512": _RSA,
    "PS256": _RSA,
    "PS384": _RSA,
    "PS512": _RSA,
    "ES256": ("EC", "P-256", 0),
    "ES384": ("EC", "P-384", 0),
    "ES512": ("EC", "P-521", 0),
    "EdDSA": ("OKP", "Ed25519", 0),
    "Ed25519": ("OKP", "Ed25519", 0),
    "HS256": ("oct", None, 256),
    "HS384": ("oct", None, 384),
    "HS512": ("oct", None, 512),
}
"""Type, curve and least bits of the keys of each supported algorithm.

Each fits one type and curve, so that a token cannot have its key read as something else.
``Ed25519`` is the later name of what ``EdDSA`` means (RFC 9864).
"""
_SYMMETRIC: Final = frozenset(name for name, kind in _KINDS.items() if kind[0] == "oct")
"""Algorithms with a shared secret, allowed only by name and never beside others."""
_ASYMMETRIC: Final = frozenset(_KINDS) - _SYMMETRIC
_SAME: Final = frozenset({"EdDSA", "Ed25519"})

_PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "RSA": ("n", "e"),
    "EC": ("crv", "x", "y"),
    "OKP": ("crv", "x"),
    "oct": ("k",),
}
"""Members of public and shared keys that are read, by key type."""
_MEASURED_PART: Final = {"RSA": "n", "oct": "k"}

_REGISTERED: Final[Mapping[str, Refusal]] = {
    "iss": Refusal.TOKEN_ISSUER,
    "exp": Refusal.TOKEN_OUT_OF_TIME,
    "nbf": Refusal.TOKEN_OUT_OF_TIME,
    "iat": Refusal.TOKEN_OUT_OF_TIME,
    "aud": Refusal.TOKEN_AUDIENCE,
}
"""Claims that joserfc checks, in this order, with the refusal for each."""


class _Registry(jws.JWSRegistry):
    """A registry for joserfc that checks no header, since `_read_token` has checked it."""

    default_header_registry: Final = {}  # type: ignore[misc]

    def get_alg(self, name: str) -> Any:
        """Return an algorithm that the rules allow; joserfc would warn of EdDSA every time."""
        return self.algorithms[name]


_REGISTRY: Final = _Registry(strict_check_header=False)


@frozen(kw_only=True)
class TokenRules:
    """Rules that a token must meet."""

    algorithms: frozenset[str]
    issuer: str
    audiences: frozenset[str]
    """Accepted audiences, of which ``aud`` must contain one; empty to ignore ``aud``."""
    claims: tuple[tuple[str, Any], ...]
    leeway: float
    """Seconds by which clocks may differ."""

    @property
    def is_symmetric(self) -> bool:
        """Whether the keys are shared secrets."""
        return not self.algorithms.isdisjoint(_SYMMETRIC)


@frozen(kw_only=True, eq=False)
class TokenKey:
    """A key, and the algorithms whose signatures it may verify."""

    kid: str | None
    algorithms: frozenset[str]
    """Algorithms that fit the key's type, its length and the use that its owner declares."""
    material: Key = field(repr=False)


@frozen
class TokenKeys:
    """The keys of an issuer."""

    keys: tuple[TokenKey, ...] = ()
    most_tried: int = _MOST_TRIED
    """Largest number of keys to try for a token without a key id."""

    def is_named(self, kid: str | None) -> bool:
        """Return whether a key has this id."""
        return kid is not None and any(key.kid == kid for key in self.keys)

    def candidates(self, algorithm: str, kid: str | None) -> tuple[TokenKey, ...]:
        """Return the keys that may have signed a token; keys without an id may be any."""
        among = self.keys
        if kid is not None:
            name = kid if self.is_named(kid) else None
            among = tuple(key for key in self.keys if key.kid == name)
        return tuple(key for key in among if algorithm in key.algorithms)[: self.most_tried]


NO_KEYS: Final = TokenKeys()
"""Empty key set, before the first fetch."""


def check_token(token: str, keys: TokenKeys, rules: TokenRules, *, now: float) -> None:
    """Refuse an invalid token.

    `Refusal.TOKEN_KEY_UNKNOWN` may be cured by newer keys: the token names a key that is not
    among these, or names none and fits none of these. ``now`` is in seconds since 1970.
    """
    read = _read_token(token, rules)
    kid = read.protected.get("kid")
    candidates = keys.candidates(read.protected["alg"], kid)
    if not any(_is_signed(read, key) for key in candidates):
        is_named = keys.is_named(kid)
        raise RefusedError(Refusal.TOKEN_SIGNATURE if is_named else Refusal.TOKEN_KEY_UNKNOWN)
    _check_claims(_parse_object(read.payload), rules, now)


def _read_token(token: str, rules: TokenRules) -> jws.CompactSignature:
    """Read a token strictly and check its header; joserfc would accept several spellings."""
    segments = token.split(".") if len(token) <= LONGEST_TOKEN else []
    if len(segments) != _SEGMENTS:
        raise RefusedError(Refusal.TOKEN_UNREADABLE)
    raw_header, payload, _ = map(_decode_segment, segments)
    if len(raw_header) > _LONGEST_HEADER:
        raise RefusedError(Refusal.TOKEN_UNREADABLE)
    header = _parse_object(raw_header)
    if not isinstance(header.get("alg"), str) or header["alg"] not in rules.algorithms:
        raise RefusedError(Refusal.TOKEN_ALGORITHM)
    kind = header.get("typ", "JWT")
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise RefusedError(Refusal.TOKEN_ALGORITHM)
    # Nothing that `crit` may name is understood, and `b64` changes what is signed.
    if "crit" in header or "b64" in header or not isinstance(header.get("kid", ""), str):
        raise RefusedError(Refusal.TOKEN_UNREADABLE)
    read = jws.CompactSignature(dict(header), payload)
    header_segment, payload_segment, signature = map(str.encode, segments)
    read.segments = {"header": header_segment, "payload": payload_segment, "signature": signature}
    return read


def _decode_segment(segment: str) -> bytes:
    """Decode a segment; refuse other base64url spellings of the same bytes."""
    if _SEGMENT.fullmatch(segment) and len(segment) % 4 != 1:
        decoded = urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
        if urlsafe_b64encode(decoded).rstrip(b"=").decode() == segment:
            return decoded
    raise RefusedError(Refusal.TOKEN_UNREADABLE)


def _parse_object(text: bytes) -> Mapping[str, Any]:
    """Parse a JSON object; refuse repeated keys and a byte order mark."""
    try:
        tree = parse(text) if text.startswith(b"{") else None
    except DecodeError:
        tree = None
    if not isinstance(tree, Mapping):
        raise RefusedError(Refusal.TOKEN_UNREADABLE)
    return tree


def _is_signed(token: jws.CompactSignature, key: TokenKey) -> bool:
    try:
        return jws.validate_compact(token, key.material, registry=_REGISTRY)
    except Exception:  # noqa: BLE001 - what the library cannot verify is not verified
        return False


def _check_claims(claims: Mapping[str, Any], rules: TokenRules, now: float) -> None:
    registry = jwt.JWTClaimsRegistry(
        cast("int", now),
        cast("int", rules.leeway),
        iss={"value": rules.issuer},
        aud={"values": list(rules.audiences)},
    )
    expected = {"iss": None, "aud": None, "nbf": now, "iat": now, **claims}
    for name, refusal in _REGISTERED.items():
        if name == "aud" and not rules.audiences:
            continue
        if name not in expected:
            raise RefusedError(Refusal.TOKEN_CLAIMS)
        try:
            getattr(registry, f"validate_{name}")(expected[name])
        except JoseError:
            raise RefusedError(refusal) from None
        # Of moments, joserfc takes numbers of any size.
        if refusal is Refusal.TOKEN_OUT_OF_TIME and not 0 <= expected[name] <= _LATEST:
            raise RefusedError(refusal)
    for name, value in rules.claims:
        # By type too: `1 == True`.
        if type(claims.get(name)) is not type(value) or claims[name] != value:
            raise RefusedError(Refusal.TOKEN_CLAIMS)


def sign_token(claims: Mapping[str, Any], secret: Secret) -> str:
    """Return an access token (RFC 9068) that is signed with HS256."""
    header = {"alg": "HS256", "typ": "at+jwt"}
    try:
        key = OctKey.import_key(secret.reveal().encode())
        return jwt.encode(header, dict(claims), key, algorithms=["HS256"])
    except Exception as error:  # noqa: BLE001 - of a library, whose frames hold the key
        fault = type(error).__name__
    raise ConfigurationError(f"no token can be signed: {fault}")


def token_rules(
    *, issuer: object, audience: object, claims: object, algorithms: object, leeway: object
) -> TokenRules:
    """Check a caller's rules for tokens, and return them."""
    if not _is_text(issuer):
        raise InvalidArgumentError(
            "issuer is the text that tokens carry as iss; it is required", argument="issuer"
        )
    audiences = _read_audiences(audience)
    required = _read_required_claims(claims)
    if not audiences and not required:
        raise ConfigurationError(
            "audience, or claims such as {'client_id': ...}, is required: a token that the same "
            "issuer has made for another API must not pass"
        )
    if not is_number(leeway) or not 0 <= leeway <= _MOST_LEEWAY:
        raise InvalidArgumentError(
            f"leeway must be a number of seconds from 0 to {_MOST_LEEWAY:.0f}", argument="leeway"
        )
    return TokenRules(
        algorithms=_read_algorithms(algorithms),
        issuer=str(issuer),
        audiences=audiences,
        claims=required,
        leeway=float(leeway),
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _read_audiences(audience: object) -> frozenset[str]:
    if audience is None:
        return frozenset()
    values = (audience,) if isinstance(audience, str) else audience
    if isinstance(values, Iterable) and not isinstance(values, bytes | Mapping):
        entries = tuple(values)
        if entries and all(map(_is_text, entries)):
            return frozenset(entries)
    raise InvalidArgumentError(
        "audience must be a text that tokens carry as aud, or several", argument="audience"
    )


def _read_required_claims(claims: object) -> tuple[tuple[str, Any], ...]:
    if claims is None:
        return ()
    if not isinstance(claims, Mapping) or not claims or not all(map(_is_text, claims)):
        raise InvalidArgumentError(
            "claims must be names with the values that tokens must carry", argument="claims"
        )
    for name, value in claims.items():
        if name in _REGISTERED:
            raise InvalidArgumentError(
                f"claims: {name} is checked by an argument of its own", argument="claims"
            )
        if value == "" or not isinstance(value, str | int):
            raise InvalidArgumentError(
                "claims: a value must be a text, a whole number or a bool", argument="claims"
            )
    return tuple(claims.items())


def _read_algorithms(algorithms: object) -> frozenset[str]:
    if algorithms is None:
        # Which of them an identity provider uses is its own affair, and none of them is weak.
        return _ASYMMETRIC
    is_list = isinstance(algorithms, Iterable) and not isinstance(algorithms, str | bytes)
    names = tuple(algorithms) if isinstance(algorithms, Iterable) and is_list else ()
    if not names or not all(isinstance(name, str) and name in _KINDS for name in names):
        raise InvalidArgumentError(
            f"algorithms must be a list of {', '.join(_KINDS)}", argument="algorithms"
        )
    chosen = frozenset(names)
    if not chosen.isdisjoint(_SYMMETRIC) and not chosen.isdisjoint(_ASYMMETRIC):
        raise InvalidArgumentError(
            "algorithms: HS256 and its like, whose key is a secret, never go together with the "
            "others, whose key is public",
            argument="algorithms",
        )
    return chosen


def given_keys(keys: object, rules: TokenRules) -> TokenKeys:
    """Check the keys of a caller, each of which must fit the rules, and return them."""
    entries = (keys,) if isinstance(keys, Mapping | str | bytes | Secret) else keys
    if not isinstance(entries, Sequence) or not entries:
        raise InvalidArgumentError(
            "keys must be one key or several, each a JWK, a JWKS, a PEM or a Secret",
            argument="keys",
        )
    token_keys: list[TokenKey] = []
    for number, entry in enumerate(entries, start=1):
        usable = [key for key in _import_keys(entry) if key.algorithms & rules.algorithms]
        if not usable:
            raise InvalidArgumentError(
                f"keys: number {number} {_key_fault(entry, rules)}", argument="keys"
            )
        token_keys.extend(usable)
    if len(token_keys) > _MOST_GIVEN:
        raise InvalidArgumentError(
            f"keys: there are more than {_MOST_GIVEN}, and all may have to be tried",
            argument="keys",
        )
    return TokenKeys(tuple(token_keys), most_tried=_MOST_GIVEN)


def _import_keys(key_or_set: object) -> tuple[TokenKey, ...]:
    match key_or_set:
        case Mapping() if "keys" in key_or_set:
            return import_key_set(key_or_set).keys
        case Mapping():
            key = _import_jwk(key_or_set)
        case str() if key_or_set.isascii():
            key = _import_pem(key_or_set.encode())
        case bytes():
            key = _import_pem(key_or_set)
        case Secret():
            secret = key_or_set.reveal().encode("utf-8", "surrogatepass")
            key = _make_key(
                "oct", secret, kid=None, algorithms=_algorithms_for("oct", None, len(secret) * 8)
            )
        case _:
            key = None
    return () if key is None else (key,)


def _key_fault(key: object, rules: TokenRules) -> str:
    """Return the fault of a key that cannot be used, without any part of the key."""
    cause = (
        "cannot be used with these algorithms: it is of another kind, too short (RSA: 2048 "
        "bits), or meant for something else"
    )
    match key:
        case Secret() if not rules.is_symmetric:
            cause = (
                "is a Secret, and these go with algorithms such as ['HS256'], which must be named"
            )
        case Secret():
            cause = "is a Secret that is too short, or a public key: it has 32 bytes for HS256"
        case Mapping() if "d" in key:
            cause = "is a private key, which only the issuer should have"
        case str() | bytes():
            text = key if isinstance(key, str) else key.decode("latin-1")
            if "PRIVATE KEY" in text:
                cause = "is a private key in PEM, which only the issuer should have"
            elif text.startswith(("http://", "https://")):
                cause = "is an address, for which there is jwks_url"
            elif "-----BEGIN" not in text:
                cause = "is not a public key in PEM; a shared secret is given as a Secret"
        case _ if not isinstance(key, Mapping):
            cause = "is neither a JWK, nor a JWKS, PEM or a Secret"
    return cause


def import_key_set(key_set: object) -> TokenKeys:
    """Return the usable keys of a key set (RFC 7517), and skip the others."""
    entries = key_set.get("keys") if isinstance(key_set, Mapping) else None
    if not isinstance(entries, Sequence) or isinstance(entries, str | bytes):
        return NO_KEYS
    imported = map(_import_jwk, entries[:_MOST_IN_SET])
    return TokenKeys(tuple(key for key in imported if key is not None))


def _import_jwk(jwk: object) -> TokenKey | None:
    """Return a key from a JWK; None if it cannot be used, or contains its private part."""
    if not isinstance(jwk, Mapping):
        return None
    key_type, kid = jwk.get("kty"), jwk.get("kid")
    if not isinstance(key_type, str) or key_type not in _PARTS:
        return None
    if "d" in jwk or not (kid is None or isinstance(kid, str)):
        return None
    # Only these go to joserfc, which fails on members that it does not expect.
    plain = {name: jwk.get(name) for name in ("kty", *_PARTS[key_type])}
    if not all(isinstance(part, str) and len(part) <= _LONGEST_PART for part in plain.values()):
        return None
    algorithms = _algorithms_for(
        key_type, plain.get("crv"), _key_bits(plain)
    ) & _permitted_algorithms(jwk)
    return _make_key(key_type, plain, kid=kid, algorithms=algorithms)


def _import_pem(pem: bytes) -> TokenKey | None:
    """Return a public key from PEM; None if it cannot be used."""
    try:
        public: Any = load_pem_public_key(pem) if len(pem) <= _LONGEST_PEM else None
        # joserfc warns of a short key when it is imported, so it is measured before.
        if isinstance(public, RSAPublicKey) and public.key_size < _LEAST_RSA_BITS:
            return None
        for library in (RSAKey, ECKey, OKPKey):
            if library.binding.check_cryptography_key(public):
                return _import_jwk(library.import_key(public).as_dict(private=False))
    except Exception:  # noqa: BLE001 - its text may show the key
        return None
    return None


def _make_key(
    key_type: Any, source: Any, *, kid: str | None, algorithms: frozenset[str]
) -> TokenKey | None:
    if not algorithms:
        return None
    try:
        material = jwk.import_key(source, key_type)
    except Exception:  # noqa: BLE001 - its text may show the key
        return None
    return TokenKey(kid=kid, algorithms=algorithms, material=material)


def _algorithms_for(key_type: str, curve: object, bits: int) -> frozenset[str]:
    """Return the algorithms for keys of a type, curve and length."""
    return frozenset(
        name
        for name, (its_type, its_curve, least_bits) in _KINDS.items()
        if its_type == key_type and its_curve == curve and bits >= least_bits
    )


def _permitted_algorithms(jwk: Mapping[str, Any]) -> frozenset[str]:
    """Return the algorithms that a JWK's own members permit."""
    operations = jwk.get("key_ops", ["verify"])
    if jwk.get("use", "sig") != "sig":
        return frozenset()
    if not isinstance(operations, list | tuple) or "verify" not in operations:
        return frozenset()
    algorithm = jwk.get("alg")
    if algorithm is None:
        return frozenset(_KINDS)
    if not isinstance(algorithm, str):
        return frozenset()
    return _SAME if algorithm in _SAME else frozenset({algorithm})


def _key_bits(jwk: Mapping[str, Any]) -> int:
    """Return the length of a key in bits; 0 for types whose length is not checked."""
    part = _MEASURED_PART.get(jwk["kty"])
    if part is None:
        return 0
    try:
        decoded = urlsafe_b64decode(jwk[part] + "=" * (-len(jwk[part]) % 4))
    except (binascii.Error, ValueError):
        return 0
    if part == "k":
        return len(decoded) * 8
    return int.from_bytes(decoded, "big").bit_length()
