"""The ways in which callbacks authenticate, for both ends; everything in them is invented.

A receiver is told what it checks in its own process, by values that can be sent there;
the credentials that pass are made here, before anything is timed.
"""

import base64
import enum
import time
from collections.abc import Mapping
from typing import Any, Final, assert_never

import orjson
from attrs import frozen
from joserfc import jwt
from joserfc.jwk import ECKey, KeyParameters, RSAKey

from income_client import (
    CallbackBasicAuth,
    CallbackBearerAuth,
    CallbackSourceNetworks,
    CallbackTokenIssuer,
)
from income_client.receivers import RequestHead
from income_client.receivers.auth import CallbackAuth

ISSUER: Final = "https://identity.invalid/"
AUDIENCE: Final = "callbacks"

_PAIR: Final = "service:invented-password-of-the-service"
_BASIC: Final = "Basic " + base64.b64encode(_PAIR.encode()).decode()
_CLIENT_ID: Final = "service"
_CLIENT_SECRET: Final = "invented-client-secret-of-the-service"
_SOURCE: Final = "198.51.100.7"
_HOUR: Final = 3600


class Way(enum.Enum):
    """How callbacks authenticate."""

    BASIC = "Basic"
    RS256 = "JWT, RS256"
    ES256 = "JWT, ES256"
    ISSUED = "own tokens, HS256"
    PROXIED = "Basic + networks, proxied"


@frozen(kw_only=True)
class Arranged:
    """What both ends have agreed on."""

    way: Way
    """How callbacks authenticate."""
    key: Mapping[str, Any] | None = None
    """The public key of tokens, as JWK."""
    jwks_url: str | None = None
    """Where it is fetched, if it is not given."""
    headers: tuple[tuple[str, str], ...]
    """What a good callback carries."""

    @property
    def auth(self) -> tuple[CallbackAuth, ...]:
        """What a receiver checks."""
        match self.way:
            case Way.BASIC:
                return (_basic(),)
            case Way.RS256 | Way.ES256:
                return (self._bearer(),)
            case Way.ISSUED:
                return (_issuer().auth,)
            case Way.PROXIED:
                return (_basic(), CallbackSourceNetworks([f"{_SOURCE}/32"]))
            case _:
                assert_never(self.way)

    @property
    def proxies(self) -> tuple[str, ...]:
        """Whose word a receiver believes."""
        return ("127.0.0.1",) if self.way is Way.PROXIED else ()

    def _bearer(self) -> CallbackBearerAuth:
        if self.jwks_url is not None:
            return CallbackBearerAuth(jwks_url=self.jwks_url, issuer=ISSUER, audience=AUDIENCE)
        return CallbackBearerAuth(keys=self.key, issuer=ISSUER, audience=AUDIENCE)


def arranged(way: Way) -> Arranged:
    """Return what both ends need for one of the ways, with new keys."""
    match way:
        case Way.BASIC:
            return Arranged(way=way, headers=(("Authorization", _BASIC),))
        case Way.RS256 | Way.ES256:
            return _signed(way)
        case Way.ISSUED:
            return Arranged(way=way, headers=(("Authorization", f"Bearer {_bought()}"),))
        case Way.PROXIED:
            forwarded = ("X-Forwarded-For", f"203.0.113.9, {_SOURCE}")
            return Arranged(way=way, headers=(("Authorization", _BASIC), forwarded))
        case _:
            assert_never(way)


def _signed(way: Way) -> Arranged:
    kid: KeyParameters = {"kid": "key-1"}
    key = RSAKey.generate_key(2048, kid) if way is Way.RS256 else ECKey.generate_key("P-256", kid)
    now = int(time.time())
    claims = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "service",
        "iat": now,
        "exp": now + _HOUR,
        "jti": "token-1",
    }
    header = {"alg": way.name, "typ": "at+jwt", "kid": "key-1"}
    token = jwt.encode(header, claims, key, algorithms=[way.name])
    return Arranged(
        way=way,
        key=dict(key.as_dict(private=False)),
        headers=(("Authorization", f"Bearer {token}"),),
    )


def _basic() -> CallbackBasicAuth:
    username, _, password = _PAIR.partition(":")
    return CallbackBasicAuth(username, password)


def _issuer() -> CallbackTokenIssuer:
    return CallbackTokenIssuer(_CLIENT_ID, _CLIENT_SECRET)


def _bought() -> str:
    pair = base64.b64encode(f"{_CLIENT_ID}:{_CLIENT_SECRET}".encode())
    headers = (
        (b"Authorization", b"Basic " + pair),
        (b"Content-Type", b"application/x-www-form-urlencoded"),
    )
    sold = _issuer().answer(
        RequestHead(method="POST", headers=headers),
        b"grant_type=client_credentials",
        now=time.time(),
        nonce=b"invented-nonce-1",
    )
    token: str = orjson.loads(sold.body)["access_token"]
    return token
