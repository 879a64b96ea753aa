"""An identity provider of the tests: real keys, its key set, and tokens signed with them."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, cast

from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from income_client.receivers.auth import CallbackBearerAuth
from income_client.receivers.exchange import Refusal
from income_client.receivers.jwt import check_token
from tests.support.callbacks import refusal_of

NOW: Final = 1_780_000_000.0
ISSUER: Final = "https://id.example.test/"
AUDIENCE: Final = "https://lender.example.test/callbacks"
CLAIMS: Final[Mapping[str, Any]] = {
    "iss": ISSUER,
    "aud": AUDIENCE,
    "sub": "service",
    "client_id": "service",
    "iat": NOW - 10,
    "nbf": NOW - 10,
    "exp": NOW + 3600,
}
KIND_OF: Final = {
    "RS256": "RSA", "RS384": "RSA", "RS512": "RSA", "PS256": "RSA", "PS384": "RSA",
    "PS512": "RSA", "ES256": "P-256", "ES384": "P-384", "ES512": "P-521",
    "EdDSA": "Ed25519", "Ed25519": "Ed25519", "HS256": "oct", "HS384": "oct", "HS512": "oct",
}  # fmt: skip
"""The kind of key of each algorithm."""


@cache
def private_key(kind: str, number: int) -> Key:
    """Return a key; the same one for the same arguments, since RSA keys take their time."""
    kid: Any = {"kid": f"{kind}-{number}"}
    match kind:
        case "RSA":
            return RSAKey.generate_key(2048, kid)
        case "oct":
            return OctKey.generate_key(512, kid)
        case "Ed25519" | "Ed448" | "X25519":
            return OKPKey.generate_key(cast("Any", kind), kid)
        case _:
            return ECKey.generate_key(kind, kid)


def public_jwk(kind: str, number: int = 0, **members: Any) -> dict[str, Any]:
    """Return the public part of a key as JSON; a member of None is left out."""
    key = private_key(kind, number)
    jwk: dict[str, Any] = {**key.as_dict(private=kind == "oct"), **members}
    return {name: value for name, value in jwk.items() if value is not None}


def public_pem(kind: str) -> bytes:
    key = private_key(kind, 0)
    assert not isinstance(key, OctKey)
    return key.as_pem(private=False)


def key_set(*kinds: str, **members: Any) -> dict[str, Any]:
    return {"keys": [public_jwk(kind, **members) for kind in kinds]}


def segment(value: Any) -> str:
    """Return a part of a token: JSON of a value, or bytes as they are."""
    octets = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlsafe_b64encode(octets).rstrip(b"=").decode()


def signed(header: Any, payload: Any, algorithm: str, key: Key) -> str:
    """Return a token whose header may say something else than how it was signed."""
    message = f"{segment(header)}.{segment(payload)}"
    signature = JWSRegistry.algorithms[algorithm].sign(message.encode(), key)
    return f"{message}.{segment(signature)}"


def token(
    algorithm: str = "ES256",
    *,
    number: int = 0,
    header: Mapping[str, Any] | None = None,
    **claims: Any,
) -> str:
    """Return a good token, but for what is said otherwise; a value of None leaves one out."""
    key = private_key(KIND_OF[algorithm], number)
    head = {"alg": algorithm, "typ": "at+jwt", "kid": key.kid, **(header or {})}
    said = {**CLAIMS, **claims}
    return signed(
        {name: value for name, value in head.items() if value is not None},
        {name: value for name, value in said.items() if value is not None},
        algorithm,
        key,
    )


def accepting(**arguments: Any) -> CallbackBearerAuth:
    """Return the value that accepts such tokens, but for what is said otherwise."""
    usual = {"keys": key_set("P-256"), "issuer": ISSUER, "audience": AUDIENCE}
    given = {**usual, **arguments}
    return CallbackBearerAuth(**{k: v for k, v in given.items() if v is not None})


def outcome(text: str, *, now: float = NOW, **arguments: Any) -> Refusal | None:
    """Return what is said of a token."""
    auth = accepting(**arguments)
    return refusal_of(check_token, text, auth.keys, auth.rules, now=now)
