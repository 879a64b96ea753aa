"""What an endpoint for callbacks is rung with by those who are not the service."""

import gzip
import hmac
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal

from attrs import field, frozen

from income_client.receivers.exchange import Refusal
from tests.support.callback_requests import AUTHORIZATION, PASSWORD
from tests.support.signed_tokens import CLAIMS, NOW, public_pem, segment, token

CANARY: Final = "123-45-6789"
"""Stands in every body, and nowhere else."""
BODY: Final = b'{"event_type":"extractions","application_id":"app-1","ssn":"123-45-6789"}'
JSON: Final = ("Content-Type", "application/json")
BASIC: Final = ("Authorization", AUTHORIZATION)

Door = Literal["basic", "tokens", "networks", "proxied", "certificate", "forwarded", "all"]
"""An endpoint that checks this."""
Certificate = Literal["service", "other", "expired", "stranger"]
"""A client certificate: the service's, another subject's, an old one, another authority's."""


@frozen(kw_only=True)
class Attack:
    """One request."""

    name: str
    """What is tried."""
    door: Door
    """Where."""
    reason: Refusal
    """Why it is refused: an operator reads it in the log, its sender nowhere."""
    fields: tuple[tuple[str, str], ...] | Callable[[], tuple[tuple[str, str], ...]] = field(
        repr=False
    )
    """Header fields, Host and Content-Length aside."""
    body: bytes = field(default=BODY, repr=False)
    """Content."""
    method: str = "POST"
    """HTTP method."""
    length: int | None = None
    """Content-Length, if it is not the true one."""
    certificate: Certificate | None = "service"
    """The client's certificate."""


def _credentials(name: str, reason: Refusal, *values: str) -> Attack:
    fields = (*(("Authorization", value) for value in values), JSON)
    return Attack(name=name, door="basic", reason=reason, fields=fields)


def _token(
    name: str, reason: Refusal, make: Callable[[], str], *, scheme: str = "Bearer"
) -> Attack:
    def fields() -> tuple[tuple[str, str], ...]:
        return (("Authorization", f"{scheme} {make()}"), JSON)

    return Attack(name=name, door="tokens", reason=reason, fields=fields)


def good_token(**claims: Any) -> str:
    """Return a token of the issuer, with claims in place of the good ones."""
    return token("RS256", **claims)


def _unsigned() -> str:
    return f"{segment({'alg': 'none', 'typ': 'JWT'})}.{segment(dict(CLAIMS))}."


def _confused() -> str:
    """Return a token whose secret is the public key that everybody has."""
    message = f"{segment({'alg': 'HS256', 'typ': 'JWT'})}.{segment(dict(CLAIMS))}"
    return f"{message}.{segment(hmac.digest(public_pem('RSA'), message.encode(), 'sha256'))}"


def _altered() -> str:
    header, _, signature = good_token().split(".")
    return f"{header}.{segment({**CLAIMS, 'exp': NOW + 9_999})}.{signature}"


def _headed(number: int = 0, **header: Any) -> Callable[[], str]:
    return partial(token, "RS256", number=number, header=header)


def _content(
    name: str, reason: Refusal, body: bytes, *fields: tuple[str, str], length: int | None = None
) -> Attack:
    return Attack(
        name=name, door="basic", reason=reason, fields=(BASIC, *fields), body=body, length=length
    )


def _source(name: str, reason: Refusal, door: Door, *forwarded: str) -> Attack:
    fields = (*(("X-Forwarded-For", value) for value in forwarded), BASIC, JSON)
    return Attack(name=name, door=door, reason=reason, fields=fields)


def _holder(
    name: str, reason: Refusal, certificate: Certificate | None, *fields: tuple[str, str]
) -> Attack:
    return Attack(
        name=name,
        door="forwarded" if fields else "certificate",
        reason=reason,
        fields=(*fields, BASIC, JSON),
        certificate=certificate,
    )


ATTACKS: Final = (
    _credentials("no credentials", Refusal.AUTHORIZATION_MISSING),
    _credentials("an empty header", Refusal.SCHEME_NOT_ACCEPTED, ""),
    _credentials("the scheme alone", Refusal.PASSWORD_WRONG, "Basic"),
    _credentials("no base64", Refusal.AUTHORIZATION_UNREADABLE, f"Basic service:{PASSWORD}"),
    _credentials("a wrong password", Refusal.PASSWORD_WRONG, "Basic c2VydmljZTpwYXNzd29yZA=="),
    _credentials("two headers", Refusal.AUTHORIZATION_DOUBLED, AUTHORIZATION, AUTHORIZATION),
    _credentials(
        "two values in one header",
        Refusal.AUTHORIZATION_UNREADABLE,
        f"{AUTHORIZATION}, {AUTHORIZATION}",
    ),
    _credentials("a token where none is taken", Refusal.SCHEME_NOT_ACCEPTED, "Bearer x"),
    _credentials("bytes that are no text", Refusal.AUTHORIZATION_UNREADABLE, "Basic \xff\xfe"),
    _token("no token", Refusal.TOKEN_UNREADABLE, lambda: ""),
    _token("not a JWT", Refusal.TOKEN_UNREADABLE, lambda: "opaque"),
    _token("another scheme", Refusal.SCHEME_NOT_ACCEPTED, good_token, scheme="Token"),
    _token("not signed", Refusal.TOKEN_UNREADABLE, _unsigned),
    _token("signed with the public key as a secret", Refusal.TOKEN_ALGORITHM, _confused),
    _token("signed by somebody else", Refusal.TOKEN_SIGNATURE, _headed(number=1, kid="RSA-0")),
    _token(
        "a key set of its own",
        Refusal.TOKEN_SIGNATURE,
        _headed(number=1, kid="RSA-0", jku="http://127.0.0.1:1/keys"),
    ),
    _token("an unknown key", Refusal.TOKEN_KEY_UNKNOWN, _headed(kid="unknown")),
    _token("altered", Refusal.TOKEN_SIGNATURE, _altered),
    _token("expired", Refusal.TOKEN_OUT_OF_TIME, partial(good_token, exp=NOW - 61)),
    _token("without an end", Refusal.TOKEN_CLAIMS, partial(good_token, exp=None)),
    _token("for another audience", Refusal.TOKEN_AUDIENCE, partial(good_token, aud="payments")),
    _token("by another issuer", Refusal.TOKEN_ISSUER, partial(good_token, iss="https://x.test/")),
    _content("plain text", Refusal.CONTENT_TYPE, BODY, ("Content-Type", "text/plain")),
    _content(
        "a bomb",
        Refusal.CONTENT_ENCODING,
        gzip.compress(b"0" * 10**6),
        JSON,
        ("Content-Encoding", "gzip"),
    ),
    _content("too large", Refusal.TOO_LARGE, b'"' + b"a" * 70_000 + b'"', JSON),
    _content("too large, as it says", Refusal.TOO_LARGE, b"", JSON, length=10**12),
    _content("a key twice", Refusal.NOT_JSON, b'{"a":1,"a":2}', JSON),
    _source("from elsewhere", Refusal.SOURCE_NOT_ALLOWED, "networks"),
    _source("forwarded by nobody", Refusal.SOURCE_NOT_ALLOWED, "networks", "198.51.100.7"),
    _source(
        "a lie before the truth", Refusal.SOURCE_NOT_ALLOWED, "proxied", "198.51.100.7, 203.0.113.9"
    ),
    _source("not an address", Refusal.SOURCE_UNREADABLE, "proxied", "198.51.100.7, unknown"),
    _source("nothing forwarded", Refusal.SOURCE_NOT_ALLOWED, "proxied"),
    _holder("no certificate", Refusal.CERTIFICATE_MISSING, None),
    _holder("somebody else's certificate", Refusal.CERTIFICATE_NOT_PINNED, "other"),
    _holder("a header and no proxy", Refusal.CERTIFICATE_MISSING, None, ("Client-Cert", ":AAAA:")),
    Attack(
        name="all but the password",
        door="all",
        reason=Refusal.AUTHORIZATION_MISSING,
        fields=(JSON,),
    ),
    Attack(
        name="all but the certificate",
        door="all",
        reason=Refusal.CERTIFICATE_MISSING,
        fields=(BASIC, JSON),
        certificate=None,
    ),
    Attack(name="GET", door="basic", reason=Refusal.METHOD, fields=(BASIC, JSON), method="GET"),
    Attack(name="TRACE", door="basic", reason=Refusal.METHOD, fields=(BASIC, JSON), method="TRACE"),
)
"""One for each way to a refusal; the tests of each check hold its finer cases."""

SECRETS: Final = (CANARY, PASSWORD, AUTHORIZATION.partition(" ")[2])
"""What no log may show, whatever comes."""
