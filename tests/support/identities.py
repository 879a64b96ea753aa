"""Certificates with their authorities, and signed tokens, made up for tests of callbacks."""

import json
import ssl
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import trustme
from attrs import frozen
from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from income_client.receivers.auth import CallbackBearerAuth
from income_client.receivers.exchange import Refusal
from income_client.receivers.jwt import check_token
from tests.support.callbacks import refusal_of

SERVICE: Final = "callbacks.service.example"
"""DNS name in the certificate of who may ring."""
SUBJECT: Final = "CN=callbacks,OU=Outbound,O=Income Service"
"""Subject of that certificate."""


@frozen
class Papers:
    """A server's own authority, that of its clients, another one, and a folder with their files."""

    folder: Path
    server_ca: trustme.CA
    client_ca: trustme.CA
    stranger_ca: trustme.CA

    @property
    def files(self) -> dict[str, Any]:
        """The server's certificate and key, and the clients' authority, as arguments."""
        return {
            "certificate": self.folder / "server.pem",
            "key": self.folder / "server.key",
            "client_ca": self.folder / "client_ca.pem",
        }

    def client(self, paper: trustme.LeafCert | None = None) -> ssl.SSLContext:
        """Return the context of a client with a certificate, or with none."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.server_ca.configure_trust(context)
        if paper is not None:
            paper.configure_cert(context)
        return context

    def service(self, **changed: Any) -> trustme.LeafCert:
        """Return the certificate of who may ring, or one that differs from it."""
        return issued(self.client_ca, **changed)

    def expired(self) -> trustme.LeafCert:
        """Return one of who was allowed to ring, once."""
        return self.service(
            not_before=datetime(2020, 1, 1, tzinfo=UTC), not_after=datetime(2021, 1, 1, tzinfo=UTC)
        )

    def stranger(self) -> trustme.LeafCert:
        """Return one that says the same, of another authority."""
        return issued(self.stranger_ca)


def issued(ca: trustme.CA, *names: str, **changed: Any) -> trustme.LeafCert:
    """Return a certificate that names the service unless changed."""
    fields = {
        "common_name": "callbacks",
        "organization_unit_name": "Outbound",
        "organization_name": "Income Service",
    } | changed
    return ca.issue_cert(*(names or (SERVICE,)), **fields)


def made_papers(folder: Path) -> Papers:
    """Make all of it, with the files that a server needs."""
    papers = Papers(folder, trustme.CA(), trustme.CA(), trustme.CA())
    server = papers.server_ca.issue_cert("localhost", "127.0.0.1")
    server.cert_chain_pems[0].write_to_path(folder / "server.pem")
    server.private_key_pem.write_to_path(folder / "server.key")
    papers.client_ca.cert_pem.write_to_path(folder / "client_ca.pem")
    return papers


def pem_of(paper: trustme.LeafCert) -> str:
    return paper.cert_chain_pems[0].bytes().decode()


def der_of(paper: trustme.LeafCert) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pem_of(paper))


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
