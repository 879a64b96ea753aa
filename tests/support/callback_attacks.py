"""What an endpoint for callbacks is rung with by those who are not the service."""

import base64
import gzip
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal

from attrs import field, frozen

from income_client.receivers.exchange import Refusal
from tests.support.callback_requests import AUTHORIZATION, PASSWORD
from tests.support.forged_tokens import altered, confused, unsigned
from tests.support.signed_tokens import NOW, public_jwk, token

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


def _basic(pair: str) -> tuple[tuple[str, str], ...]:
    return (("Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}"), JSON)


def _credentials(name: str, reason: Refusal, *values: str) -> Attack:
    fields = (*(("Authorization", value) for value in values), JSON)
    return Attack(name=name, door="basic", reason=reason, fields=fields)


def _wrong_pair(name: str, pair: str) -> Attack:
    return Attack(name=name, door="basic", reason=Refusal.PASSWORD_WRONG, fields=_basic(pair))


def _token(
    name: str, reason: Refusal, make: Callable[[], str], *, scheme: str = "Bearer"
) -> Attack:
    def fields() -> tuple[tuple[str, str], ...]:
        return (("Authorization", f"{scheme} {make()}"), JSON)

    return Attack(name=name, door="tokens", reason=reason, fields=fields)


def good_token(**claims: Any) -> str:
    """Return a token of the issuer, with claims in place of the good ones."""
    return token("RS256", **claims)


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


def _method(method: str) -> Attack:
    return Attack(
        name=method, door="basic", reason=Refusal.METHOD, fields=(BASIC, JSON), method=method
    )


CREDENTIALS: Final = (
    _credentials("no credentials", Refusal.AUTHORIZATION_MISSING),
    _credentials("an empty header", Refusal.SCHEME_NOT_ACCEPTED, ""),
    _credentials("the scheme alone", Refusal.PASSWORD_WRONG, "Basic"),
    _credentials("no base64", Refusal.AUTHORIZATION_UNREADABLE, "Basic !!!!"),
    _credentials(
        "no colon", Refusal.PASSWORD_WRONG, "Basic " + base64.b64encode(b"service").decode()
    ),
    _credentials(
        "two headers, the first good", Refusal.AUTHORIZATION_DOUBLED, AUTHORIZATION, "Basic eA=="
    ),
    _credentials(
        "two headers, both good", Refusal.AUTHORIZATION_DOUBLED, AUTHORIZATION, AUTHORIZATION
    ),
    _credentials(
        "two values in one header",
        Refusal.AUTHORIZATION_UNREADABLE,
        f"{AUTHORIZATION}, {AUTHORIZATION}",
    ),
    _credentials(
        "Digest", Refusal.SCHEME_NOT_ACCEPTED, f'Digest username="service", response="{PASSWORD}"'
    ),
    _credentials("a token where none is taken", Refusal.SCHEME_NOT_ACCEPTED, "Bearer x"),
    _credentials(
        "the password in the clear", Refusal.AUTHORIZATION_UNREADABLE, f"Basic service:{PASSWORD}"
    ),
    _credentials("bytes that are no text", Refusal.AUTHORIZATION_UNREADABLE, "Basic \xff\xfe"),
    _credentials("a long header", Refusal.PASSWORD_WRONG, "Basic " + "A" * 6_000),
    _wrong_pair("an empty pair", ":"),
    _wrong_pair("an empty password", "service:"),
    _wrong_pair("a wrong password", "service:password"),
    _wrong_pair("a wrong name", f"Service:{PASSWORD}"),
    _wrong_pair("a password and more", f"service:{PASSWORD}x"),
    _wrong_pair("a password with NUL", f"service:{PASSWORD}\0"),
)
TOKENS: Final = (
    _token("no token", Refusal.TOKEN_UNREADABLE, lambda: ""),
    _token("no JWT", Refusal.TOKEN_UNREADABLE, lambda: "opaque"),
    _token("another scheme", Refusal.SCHEME_NOT_ACCEPTED, good_token, scheme="Token"),
    _token("not signed", Refusal.TOKEN_UNREADABLE, unsigned),
    _token(
        "not signed, in other letters", Refusal.TOKEN_ALGORITHM, lambda: f"{unsigned('nOnE')}AAAA"
    ),
    _token("signed with the public key as a secret", Refusal.TOKEN_ALGORITHM, confused),
    _token("an algorithm that is not allowed", Refusal.TOKEN_ALGORITHM, _headed(alg="RS1")),
    _token("signed by somebody else", Refusal.TOKEN_SIGNATURE, _headed(number=1, kid="RSA-0")),
    _token(
        "a key of its own",
        Refusal.TOKEN_SIGNATURE,
        _headed(number=1, kid="RSA-0", jwk=public_jwk("RSA", 1)),
    ),
    _token(
        "a key set of its own",
        Refusal.TOKEN_SIGNATURE,
        _headed(number=1, kid="RSA-0", jku="http://127.0.0.1:1/keys"),
    ),
    _token("an unknown key", Refusal.TOKEN_KEY_UNKNOWN, _headed(kid="unknown")),
    _token("a path as the name of a key", Refusal.TOKEN_KEY_UNKNOWN, _headed(kid="../../dev/null")),
    _token(
        "claims behind the signature",
        Refusal.TOKEN_SIGNATURE,
        lambda: altered(good_token(), {"exp": NOW + 9_999}),
    ),
    _token("cut", Refusal.TOKEN_UNREADABLE, lambda: good_token()[:-1]),
    _token("longer", Refusal.TOKEN_SIGNATURE, lambda: good_token() + "A"),
    _token("two tokens", Refusal.TOKEN_UNREADABLE, lambda: f"{good_token()} {good_token()}"),
    _token("expired", Refusal.TOKEN_OUT_OF_TIME, partial(good_token, exp=NOW - 61)),
    _token("without an end", Refusal.TOKEN_CLAIMS, partial(good_token, exp=None)),
    _token(
        "an end that is no number", Refusal.TOKEN_OUT_OF_TIME, partial(good_token, exp="9999999999")
    ),
    _token("not valid yet", Refusal.TOKEN_OUT_OF_TIME, partial(good_token, nbf=NOW + 120)),
    _token("made in the future", Refusal.TOKEN_OUT_OF_TIME, partial(good_token, iat=NOW + 120)),
    _token("for another audience", Refusal.TOKEN_AUDIENCE, partial(good_token, aud="payments")),
    _token(
        "for other audiences",
        Refusal.TOKEN_AUDIENCE,
        partial(good_token, aud=["payments", "loans"]),
    ),
    _token("for nobody", Refusal.TOKEN_AUDIENCE, partial(good_token, aud=None)),
    _token(
        "by another issuer", Refusal.TOKEN_ISSUER, partial(good_token, iss="https://id.other.test/")
    ),
    _token("of another kind", Refusal.TOKEN_ALGORITHM, _headed(typ="logout+jwt")),
    _token("a member that must be understood", Refusal.TOKEN_UNREADABLE, _headed(crit=["exp"])),
    _token("a payload that is not encoded", Refusal.TOKEN_UNREADABLE, _headed(b64=False)),
    _token("long and cut", Refusal.TOKEN_UNREADABLE, lambda: good_token(x="y" * 2_000)[:-9]),
)
CONTENTS: Final = (
    _content(
        "a form",
        Refusal.CONTENT_TYPE,
        b"a=b",
        ("Content-Type", "application/x-www-form-urlencoded"),
    ),
    _content("plain text", Refusal.CONTENT_TYPE, BODY, ("Content-Type", "text/plain")),
    _content("XML", Refusal.CONTENT_TYPE, b"<a/>", ("Content-Type", "application/xml")),
    _content(
        "UTF-16", Refusal.CONTENT_TYPE, BODY, ("Content-Type", "application/json; charset=utf-16")
    ),
    _content(
        "a bomb",
        Refusal.CONTENT_ENCODING,
        gzip.compress(b"0" * 10**6),
        JSON,
        ("Content-Encoding", "gzip"),
    ),
    _content(
        "deflated",
        Refusal.CONTENT_ENCODING,
        zlib.compress(BODY),
        JSON,
        ("Content-Encoding", "deflate"),
    ),
    _content("too large", Refusal.TOO_LARGE, b'"' + b"a" * 70_000 + b'"', JSON),
    _content("too large, as it says", Refusal.TOO_LARGE, b"", JSON, length=10**12),
    _content("too deep", Refusal.NOT_JSON, b"[" * 3_000 + b"]" * 3_000, JSON),
    _content("no JSON", Refusal.NOT_JSON, b"{", JSON),
    _content("two values", Refusal.NOT_JSON, BODY + BODY, JSON),
    _content("a key twice", Refusal.NOT_JSON, b'{"a":1,"a":2}', JSON),
    _content("no UTF-8", Refusal.NOT_JSON, b'"\xff"', JSON),
)
SOURCES: Final = (
    _source("from elsewhere", Refusal.SOURCE_NOT_ALLOWED, "networks"),
    _source("forwarded by nobody", Refusal.SOURCE_NOT_ALLOWED, "networks", "198.51.100.7"),
    _source("forwarded as mapped", Refusal.SOURCE_NOT_ALLOWED, "networks", "::ffff:198.51.100.7"),
    _source(
        "a lie before the truth", Refusal.SOURCE_NOT_ALLOWED, "proxied", "198.51.100.7, 203.0.113.9"
    ),
    _source(
        "a lie in a header of its own",
        Refusal.SOURCE_NOT_ALLOWED,
        "proxied",
        "198.51.100.7",
        "203.0.113.9",
    ),
    _source(
        "a lie that names a proxy",
        Refusal.SOURCE_NOT_ALLOWED,
        "proxied",
        "198.51.100.7, 203.0.113.9, 127.0.0.1",
    ),
    _source("no address", Refusal.SOURCE_UNREADABLE, "proxied", "198.51.100.7, unknown"),
    _source("half an address", Refusal.SOURCE_UNREADABLE, "proxied", "198.51.100"),
    _source("an address in old spelling", Refusal.SOURCE_UNREADABLE, "proxied", "0306.063.0144.07"),
    _source("nothing forwarded", Refusal.SOURCE_NOT_ALLOWED, "proxied"),
    _source("forwarded for nobody", Refusal.SOURCE_UNREADABLE, "proxied", ""),
)
HOLDERS: Final = (
    _holder("no certificate", Refusal.CERTIFICATE_MISSING, None),
    _holder("somebody else's certificate", Refusal.CERTIFICATE_NOT_PINNED, "other"),
    _holder("a header and no proxy", Refusal.CERTIFICATE_MISSING, None, ("Client-Cert", ":AAAA:")),
    _holder(
        "a header beside somebody else's certificate",
        Refusal.CERTIFICATE_NOT_PINNED,
        "other",
        ("Client-Cert", ":AAAA:"),
    ),
    _holder(
        "nginx's header and no proxy",
        Refusal.CERTIFICATE_MISSING,
        None,
        ("X-SSL-Client-Verify", "SUCCESS"),
    ),
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
)
METHODS: Final = tuple(map(_method, ("GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE")))

ATTACKS: Final = (*CREDENTIALS, *TOKENS, *CONTENTS, *SOURCES, *HOLDERS, *METHODS)

SECRETS: Final = (CANARY, PASSWORD, AUTHORIZATION.partition(" ")[2])
"""What no log may show, whatever comes."""
