"""What an endpoint for callbacks is rung with by those who are not the service."""

import base64
import gzip
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal

from attrs import field, frozen

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
    status: int
    """What it is answered with."""
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


def _credentials(name: str, *values: str) -> Attack:
    fields = (*(("Authorization", value) for value in values), JSON)
    return Attack(name=name, door="basic", status=401, fields=fields)


def _wrong_pair(name: str, pair: str) -> Attack:
    return Attack(name=name, door="basic", status=401, fields=_basic(pair))


def _token(name: str, make: Callable[[], str], *, scheme: str = "Bearer") -> Attack:
    def fields() -> tuple[tuple[str, str], ...]:
        return (("Authorization", f"{scheme} {make()}"), JSON)

    return Attack(name=name, door="tokens", status=401, fields=fields)


def good_token(**claims: Any) -> str:
    """Return a token of the issuer, with claims in place of the good ones."""
    return token("RS256", **claims)


def _headed(number: int = 0, **header: Any) -> Callable[[], str]:
    return partial(token, "RS256", number=number, header=header)


def _content(
    name: str, status: int, body: bytes, *fields: tuple[str, str], length: int | None = None
) -> Attack:
    return Attack(
        name=name, door="basic", status=status, fields=(BASIC, *fields), body=body, length=length
    )


def _source(name: str, door: Door, *forwarded: str) -> Attack:
    fields = (*(("X-Forwarded-For", value) for value in forwarded), BASIC, JSON)
    return Attack(name=name, door=door, status=403, fields=fields)


def _holder(name: str, certificate: Certificate | None, *fields: tuple[str, str]) -> Attack:
    return Attack(
        name=name,
        door="forwarded" if fields else "certificate",
        status=403,
        fields=(*fields, BASIC, JSON),
        certificate=certificate,
    )


def _method(method: str) -> Attack:
    return Attack(name=method, door="basic", status=405, fields=(BASIC, JSON), method=method)


CREDENTIALS: Final = (
    _credentials("no credentials"),
    _credentials("an empty header", ""),
    _credentials("the scheme alone", "Basic"),
    _credentials("no base64", "Basic !!!!"),
    _credentials("no colon", "Basic " + base64.b64encode(b"service").decode()),
    _credentials("two headers, the first good", AUTHORIZATION, "Basic eA=="),
    _credentials("two headers, both good", AUTHORIZATION, AUTHORIZATION),
    _credentials("two values in one header", f"{AUTHORIZATION}, {AUTHORIZATION}"),
    _credentials("Digest", f'Digest username="service", response="{PASSWORD}"'),
    _credentials("a token where none is taken", "Bearer x"),
    _credentials("the password in the clear", f"Basic service:{PASSWORD}"),
    _credentials("bytes that are no text", "Basic \xff\xfe"),
    _credentials("a long header", "Basic " + "A" * 6_000),
    _wrong_pair("an empty pair", ":"),
    _wrong_pair("an empty password", "service:"),
    _wrong_pair("a wrong password", "service:password"),
    _wrong_pair("a wrong name", f"Service:{PASSWORD}"),
    _wrong_pair("a password and more", f"service:{PASSWORD}x"),
    _wrong_pair("a password with NUL", f"service:{PASSWORD}\0"),
)
TOKENS: Final = (
    _token("no token", lambda: ""),
    _token("no JWT", lambda: "opaque"),
    _token("another scheme", good_token, scheme="Token"),
    _token("not signed", unsigned),
    _token("not signed, in other letters", lambda: f"{unsigned('nOnE')}AAAA"),
    _token("signed with the public key as a secret", confused),
    _token("an algorithm that is not allowed", _headed(alg="RS1")),
    _token("signed by somebody else", _headed(number=1, kid="RSA-0")),
    _token("a key of its own", _headed(number=1, kid="RSA-0", jwk=public_jwk("RSA", 1))),
    _token("a key set of its own", _headed(number=1, kid="RSA-0", jku="http://127.0.0.1:1/keys")),
    _token("an unknown key", _headed(kid="unknown")),
    _token("a path as the name of a key", _headed(kid="../../dev/null")),
    _token("claims behind the signature", lambda: altered(good_token(), {"exp": NOW + 9_999})),
    _token("cut", lambda: good_token()[:-1]),
    _token("longer", lambda: good_token() + "A"),
    _token("two tokens", lambda: f"{good_token()} {good_token()}"),
    _token("expired", partial(good_token, exp=NOW - 61)),
    _token("without an end", partial(good_token, exp=None)),
    _token("an end that is no number", partial(good_token, exp="9999999999")),
    _token("not valid yet", partial(good_token, nbf=NOW + 120)),
    _token("made in the future", partial(good_token, iat=NOW + 120)),
    _token("for another audience", partial(good_token, aud="payments")),
    _token("for other audiences", partial(good_token, aud=["payments", "loans"])),
    _token("for nobody", partial(good_token, aud=None)),
    _token("by another issuer", partial(good_token, iss="https://id.other.test/")),
    _token("of another kind", _headed(typ="logout+jwt")),
    _token("a member that must be understood", _headed(crit=["exp"])),
    _token("a payload that is not encoded", _headed(b64=False)),
    _token("long and cut", lambda: good_token(x="y" * 2_000)[:-9]),
)
CONTENTS: Final = (
    _content("a form", 415, b"a=b", ("Content-Type", "application/x-www-form-urlencoded")),
    _content("plain text", 415, BODY, ("Content-Type", "text/plain")),
    _content("XML", 415, b"<a/>", ("Content-Type", "application/xml")),
    _content("UTF-16", 415, BODY, ("Content-Type", "application/json; charset=utf-16")),
    _content("a bomb", 415, gzip.compress(b"0" * 10**6), JSON, ("Content-Encoding", "gzip")),
    _content("deflated", 415, zlib.compress(BODY), JSON, ("Content-Encoding", "deflate")),
    _content("too large", 413, b'"' + b"a" * 70_000 + b'"', JSON),
    _content("too large, as it says", 413, b"", JSON, length=10**12),
    _content("too deep", 400, b"[" * 3_000 + b"]" * 3_000, JSON),
    _content("no JSON", 400, b"{", JSON),
    _content("two values", 400, BODY + BODY, JSON),
    _content("a key twice", 400, b'{"a":1,"a":2}', JSON),
    _content("no UTF-8", 400, b'"\xff"', JSON),
)
SOURCES: Final = (
    _source("from elsewhere", "networks"),
    _source("forwarded by nobody", "networks", "198.51.100.7"),
    _source("forwarded as mapped", "networks", "::ffff:198.51.100.7"),
    _source("a lie before the truth", "proxied", "198.51.100.7, 203.0.113.9"),
    _source("a lie in a header of its own", "proxied", "198.51.100.7", "203.0.113.9"),
    _source("a lie that names a proxy", "proxied", "198.51.100.7, 203.0.113.9, 127.0.0.1"),
    _source("no address", "proxied", "198.51.100.7, unknown"),
    _source("half an address", "proxied", "198.51.100"),
    _source("an address in old spelling", "proxied", "0306.063.0144.07"),
    _source("nothing forwarded", "proxied"),
    _source("forwarded for nobody", "proxied", ""),
)
HOLDERS: Final = (
    _holder("no certificate", None),
    _holder("somebody else's certificate", "other"),
    _holder("a header and no proxy", None, ("Client-Cert", ":AAAA:")),
    _holder("a header beside somebody else's certificate", "other", ("Client-Cert", ":AAAA:")),
    _holder("nginx's header and no proxy", None, ("X-SSL-Client-Verify", "SUCCESS")),
    Attack(name="all but the password", door="all", status=401, fields=(JSON,)),
    Attack(
        name="all but the certificate",
        door="all",
        status=403,
        fields=(BASIC, JSON),
        certificate=None,
    ),
)
METHODS: Final = tuple(map(_method, ("GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE")))

ATTACKS: Final = (*CREDENTIALS, *TOKENS, *CONTENTS, *SOURCES, *HOLDERS, *METHODS)

SECRETS: Final = (CANARY, PASSWORD, AUTHORIZATION.partition(" ")[2])
"""What no log may show, whatever comes."""
