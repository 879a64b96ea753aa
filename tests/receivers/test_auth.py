"""Authentication of callbacks: checks of a request's head, and tokens that the partner issues."""

import base64
import ipaddress
import sys
from typing import Any, Final
from urllib.parse import quote_plus

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from hypothesis import given
from hypothesis import strategies as st

from income_client import BasicAuth, ConfigurationError, OAuth2ClientCredentials, Secret, receivers
from income_client.receivers import CallbackBasicAuth, CallbackBearerAuth, CallbackSourceNetworks
from income_client.receivers.exchange import REWRITTEN_PEER, UNIX_PEER, Answer, Refusal, RequestHead
from income_client.receivers.issuer import CallbackTokenIssuer
from income_client.receivers.jwt import check_token
from income_client.receivers.networks import TrustedProxies
from tests.support.callbacks import refusal_of
from tests.support.canaries import CANARY
from tests.support.identities import NOW, accepting, outcome, private_key, public_pem, segment

URL: Final = "https://id.example.test/keys"
AUTH: Final = CallbackBasicAuth("service", "invented-1", also=[BasicAuth("service", "invented-2")])


def encoded(pair: str, encoding: str = "utf-8") -> bytes:
    return base64.b64encode(pair.encode(encoding))


def test_every_pair_is_accepted_in_both_encodings() -> None:
    """A password can be changed on one side after the other; the encoding is not specified."""
    assert refusal_of(AUTH.check, encoded("service:invented-1")) is None
    assert refusal_of(AUTH.check, encoded("service:invented-2")) is None
    auth = CallbackBasicAuth("müller", "gemäß")
    for encoding in ("utf-8", "latin-1"):
        assert refusal_of(auth.check, encoded("müller:gemäß", encoding)) is None


def short_pem() -> bytes:
    public = rsa.generate_private_key(65537, 1024).public_key()
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


ADVICE: Final[tuple[tuple[Any, str], ...]] = (
    (Secret("x" * 64), "must be named"),
    ("-----BEGIN PRIVATE KEY-----\nAAAA", "only the issuer"),
    (dict(private_key("P-256", 0).as_dict(private=True)), "only the issuer"),
    ("https://id.example.test/keys", "jwks_url"),
    (7, "neither a JWK"),
    (short_pem(), "2048"),
)


def test_what_is_wrong_with_a_key_is_said() -> None:
    for key, advice in ADVICE:
        with pytest.raises(ConfigurationError, match=advice) as caught:
            accepting(keys=[public_pem("RSA"), key])
        assert str(caught.value).startswith("keys: number 2 ")
        assert "AAAA" not in str(caught.value)


def test_a_public_key_is_not_taken_for_a_secret() -> None:
    """The text of a public key is no secret, so that anybody could sign with it."""
    pem = public_pem("RSA")
    der = load_pem_public_key(pem).public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    jwks = [{"kty": "oct", "k": segment(text)} for text in (pem, b"RSA:\n" + pem, der)]
    for key in (Secret(pem.decode()), *jwks):
        with pytest.raises(ConfigurationError, match=r"^keys"):
            accepting(keys=key, algorithms=["HS256"])


def test_a_secret_is_as_long_as_its_hash() -> None:
    """Shorter secrets are refused (RFC 7518, section 3.2)."""
    for algorithm, length in (("HS256", 31), ("HS384", 47), ("HS512", 63)):
        with pytest.raises(ConfigurationError, match="too short"):
            accepting(keys=Secret("x" * length), algorithms=[algorithm])
        assert accepting(keys=Secret("x" * (length + 1)), algorithms=[algorithm]).keys


def test_without_signed_tokens_their_library_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The value is made with verify where joserfc does not exist; else the extra is named."""
    for name in ("joserfc", "cryptography"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "income_client.receivers.jwt")
    monkeypatch.delattr(receivers, "jwt")
    assert CallbackBearerAuth(verify=bool).keys is None
    with pytest.raises(ConfigurationError, match=r"pip install 'income-client\[callbacks\]'"):
        accepting(keys=None, jwks_url=URL)


# Where a request came from


PROXIES = TrustedProxies(["10.0.0.0/8", "fd00::/8", UNIX_PEER])
PROXY = "10.1.2.3"


def source(peer: str | None, *forwarded: str) -> str:
    fields = tuple((b"X-Forwarded-For", one.encode("latin-1")) for one in forwarded)
    head = RequestHead(method="POST", headers=fields, peer=peer)
    refusal = refusal_of(PROXIES.source, head)
    return refusal.slug if refusal else str(PROXIES.source(head))


SOURCES: Final[tuple[tuple[str | None, list[str], str], ...]] = (
    ("198.51.100.7", [], "198.51.100.7"),
    ("::ffff:198.51.100.7", [], "198.51.100.7"),
    ("203.0.113.9", ["198.51.100.7"], "203.0.113.9"),
    ("::ffff:10.1.2.3", ["198.51.100.7"], "198.51.100.7"),
    ("fd00::1", ["2001:db8::7"], "2001:db8::7"),
    (UNIX_PEER, ["198.51.100.7"], "198.51.100.7"),
    (PROXY, [], PROXY),
    (PROXY, ["10.4.4.4, 10.5.5.5"], "10.4.4.4"),
    (PROXY, ["198.51.100.7, 203.0.113.9"], "203.0.113.9"),
    (PROXY, ["198.51.100.7", "203.0.113.9"], "203.0.113.9"),
    (PROXY, ["203.0.113.9, 198.51.100.7, 10.9.9.9"], "198.51.100.7"),
    (PROXY, ["203.0.113.9, 198.51.100.7", "10.9.9.9,10.8.8.8"], "198.51.100.7"),
    (PROXY, ["198.51.100.7:4711"], "198.51.100.7"),
    (PROXY, ["[2001:db8::7]:4711"], "2001:db8::7"),
    (PROXY, ["[2001:db8::7]"], "2001:db8::7"),
    (PROXY, ["::ffff:198.51.100.7"], "198.51.100.7"),
    (PROXY, ["  198.51.100.7\t"], "198.51.100.7"),
    ("::ffff:10.1.2.3%a", ["198.51.100.7"], "source_unknown"),
    (None, ["198.51.100.7"], "source_unknown"),
    ("testclient", ["198.51.100.7"], "source_unknown"),
    (REWRITTEN_PEER, ["127.0.0.1"], "source_rewritten"),
    (UNIX_PEER, [], "source_unreadable"),
    (PROXY, [", ".join(["198.51.100.7", *["10.0.0.1"] * 50])], "source_unreadable"),
)
UNREADABLE: Final = (
    *("", "198.51.100.7,", "unknown", "_hidden", "198.51.100.7, nonsense", "198.51.100.7:x"),
    *("198.51.100.07", "2130706433", "[198.51.100.7]", "[2001:db8::7", "[2001:db8::7]x"),
    *("fe80::1%eth0", "::ffff:198.51.100.7%a", "198.51.100.7\xa0"),
)


def test_the_chain_is_walked_from_the_right() -> None:
    """Entries left of the first unknown proxy may be forged; an address has only one spelling."""
    for peer, forwarded, expected in SOURCES:
        assert source(peer, *forwarded) == expected
    found = {forwarded: source(PROXY, forwarded) for forwarded in UNREADABLE}
    assert found == dict.fromkeys(UNREADABLE, "source_unreadable")


@given(st.binary(max_size=300))
def test_no_forwarding_header_raises(value: bytes) -> None:
    request = RequestHead(method="POST", headers=((b"x-forwarded-for", value),), peer=PROXY)
    assert refusal_of(PROXIES.source, request) in (None, Refusal.SOURCE_UNREADABLE)


def test_only_the_networks_pass() -> None:
    """First and last addresses of a network pass; mapped addresses count as IPv4."""
    networks = CallbackSourceNetworks(
        ["198.51.100.0/24", "2001:db8::/32", "::ffff:192.0.2.0/120", "::ffff:203.0.113.9"]
    )
    allowed = "198.51.100.0", "198.51.100.255", "2001:db8::1", "192.0.2.7", "203.0.113.9"
    for address in (*allowed, "198.51.101.0", "2001:db9::1", "::1", "203.0.113.8"):
        refusal = refusal_of(networks.check, ipaddress.ip_address(address))
        assert refusal is (None if address in allowed else Refusal.SOURCE_NOT_ALLOWED)


def test_a_socket_of_the_file_system_is_a_proxy_only_if_it_is_named() -> None:
    for peer in ("127.0.0.1", UNIX_PEER):
        assert not TrustedProxies().is_one(peer)
    assert TrustedProxies([UNIX_PEER]).is_one(UNIX_PEER)
    assert not TrustedProxies([UNIX_PEER]).is_one("127.0.0.1")
    assert not TrustedProxies(["127.0.0.1", UNIX_PEER]).is_one(REWRITTEN_PEER)


# The token endpoint: it issues to its clients only, and refuses as RFC 6749 has it


SECRET: Final = f"{CANARY}-that-is-long-enough-to-sign-with"
CLIENT: Final = "service"
FORM: Final = b"application/x-www-form-urlencoded"
GRANT: Final = b"grant_type=client_credentials"


def basic(client_id: str, secret: str, encoding: str = "utf-8") -> bytes:
    return b"Basic " + encoded(f"{client_id}:{secret}", encoding)


GOOD: Final = basic(CLIENT, SECRET)


def request_token(
    issuer: CallbackTokenIssuer,
    body: bytes = GRANT,
    *,
    method: str = "POST",
    authorization: bytes | None = GOOD,
    content_type: bytes | None = FORM,
    more: tuple[tuple[bytes, bytes], ...] = (),
    nonce: bytes = bytes(16),
) -> Answer:
    """Send a token request; a header of None is left out."""
    named = ((b"Authorization", authorization), (b"Content-Type", content_type))
    headers = tuple((name, value) for name, value in named if value is not None)
    head = RequestHead(method=method, headers=(*headers, *more))
    return issuer.answer(head, body, now=NOW, nonce=nonce)


def issued_token(issuer: CallbackTokenIssuer, **arguments: Any) -> str:
    answer = request_token(issuer, **arguments)
    assert answer.status == 200
    return str(msgspec.json.decode(answer.body)["access_token"])


OTHER: Final = OAuth2ClientCredentials("old-service", "z" * 40)
SHOP: Final = CallbackTokenIssuer(CLIENT, SECRET)
PAIR: Final = f"&client_id={CLIENT}&client_secret={SECRET}".encode()


def refusal(auth: CallbackBearerAuth, text: str, *, now: float = NOW) -> Refusal | None:
    return refusal_of(check_token, text, auth.keys, auth.rules, now=now)


def issuer(**arguments: Any) -> CallbackTokenIssuer:
    return CallbackTokenIssuer(CLIENT, SECRET, **arguments)


def said(answer: Answer) -> tuple[int, Any]:
    return answer.status, msgspec.json.decode(answer.body).get("error")


def test_a_token_is_issued_and_accepted() -> None:
    """The answer has the form of contract section 5.1, may not be stored, and hides its token."""
    answer = request_token(SHOP)
    content = msgspec.json.decode(answer.body)
    assert answer.status == 200
    assert content.keys() == {"access_token", "token_type", "expires_in"}
    assert (content["token_type"], content["expires_in"]) == ("Bearer", 3600)
    assert dict(answer.headers)["Cache-Control"] == "no-store"
    assert dict(answer.headers)["Pragma"] == "no-cache"
    assert refusal(SHOP.auth, content["access_token"]) is None
    assert content["access_token"].partition(".")[0] not in repr(answer)
    assert "no-store" in repr(answer)


def test_a_token_ends_with_its_life() -> None:
    shop = issuer(lifetime=60)
    assert msgspec.json.decode(request_token(shop).body)["expires_in"] == 60
    assert refusal(shop.auth, issued_token(shop), now=NOW + 89) is None
    assert refusal(shop.auth, issued_token(shop), now=NOW + 90) is Refusal.TOKEN_OUT_OF_TIME


def test_another_secret_or_another_client_has_other_tokens() -> None:
    text = issued_token(issuer())
    for shop in (CallbackTokenIssuer(CLIENT, "y" * 43), CallbackTokenIssuer("other", SECRET)):
        assert refusal(shop.auth, text) is Refusal.TOKEN_KEY_UNKNOWN
    keys = Secret(SECRET)
    assert outcome(text, keys=keys, algorithms=["HS256"]) is Refusal.TOKEN_KEY_UNKNOWN


def test_while_a_secret_changes_both_get_tokens_and_both_tokens_pass() -> None:
    """The old secret's tokens end with it; `issue` gives the first client's without a request."""
    shop = issuer(also=[OTHER])
    old = issued_token(shop, authorization=basic(OTHER.client_id, OTHER.client_secret.reveal()))
    new = issued_token(shop)
    assert shop.issue(now=NOW, nonce=bytes(16)) == new
    assert refusal(shop.auth, old) is refusal(shop.auth, new) is refusal(SHOP.auth, new) is None
    assert refusal(SHOP.auth, old) is Refusal.TOKEN_KEY_UNKNOWN


@pytest.mark.parametrize("secret", ["pa:ss w%41rd+ü" * 3, "€" * 32, "+" * 32, "%zz " * 8])
def test_every_spelling_of_a_secret_is_known(secret: str) -> None:
    """Plain, encoded like a form (RFC 6749), in UTF-8 or, where it can be, in Latin-1."""
    shop = CallbackTokenIssuer("dï 1+1", secret)
    encodings = ["utf-8"] if "€" in secret else ["utf-8", "latin-1"]
    for encoding in encodings:
        assert request_token(shop, authorization=basic("dï 1+1", secret, encoding)).status == 200
    encoded = basic(quote_plus("dï 1+1"), quote_plus(secret))
    assert request_token(shop, authorization=encoded).status == 200


def test_only_post_is_answered() -> None:
    for method in ("GET", "HEAD", "PUT", "post", "OPTIONS"):
        answer = request_token(SHOP, method=method)
        assert answer.status == 405
        assert dict(answer.headers)["Allow"] == "POST"


def test_what_is_not_known_is_ignored_and_credentials_may_come_in_the_form() -> None:
    for body in (
        GRANT,
        GRANT + b"&scope=callbacks&audience=x&resource=a&resource=b",
        *(GRANT + rest for rest in (b"&client_id=service", b"&client_id=&client_secret=", b"&")),
        *(first + GRANT for first in (b"&=&x&", b"scope=%ff%00&")),
        b"grant%5Ftype=client%5Fcredentials",
    ):
        assert request_token(SHOP, body).status == 200
    assert request_token(SHOP, GRANT + PAIR, authorization=None).status == 200
    assert request_token(SHOP, content_type=FORM + b"; charset=UTF-8").status == 200


INVALID_FORMS: Final = (
    *(b"", b"scope=x", b"grant_type=", b"Grant_Type=client_credentials"),
    *(GRANT + b"&" + GRANT, GRANT + PAIR, GRANT + b"&client_secret=x"),
    *(GRANT + b"&client_id=other", GRANT + b"&client_id=service&client_id=service"),
    *(GRANT + b"&scope=%zz", GRANT + b"&scope=%", GRANT + b"&x=1" * 100),
    b'{"grant_type": "client_credentials"}',
)
INVALID: Final[tuple[dict[str, Any], ...]] = (
    *({"body": body} for body in INVALID_FORMS),
    *({"content_type": one} for one in (None, b"application/json", b"multipart/form-data")),
    {"more": ((b"content-type", FORM),)},
    {"more": ((b"content-encoding", b"gzip"),)},
    {"more": ((b"AUTHORIZATION", GOOD),)},
)


def test_an_invalid_request_is_refused() -> None:
    for arguments in INVALID:
        assert said(request_token(SHOP, **arguments)) == (400, "invalid_request")


def test_another_grant_is_not_supported() -> None:
    for grant in (b"password", b"CLIENT_CREDENTIALS", b"client_credentials%00"):
        body = b"grant_type=" + grant
        assert said(request_token(SHOP, body)) == (400, "unsupported_grant_type")
        unknown = request_token(SHOP, body, authorization=basic(CLIENT, "x"))
        assert said(unknown) == (401, "invalid_client")


HEADERS: Final = (
    *(None, b"", b"Basic", b"Basic ", b"Basic !!!!", b"Basic =", b"Bearer abc"),
    *(GOOD.replace(b"Basic", b"Digest"), GOOD + b"AAAA", b"Basic " + b"A" * 20_000),
    *(basic(CLIENT, ""), basic(CLIENT, SECRET + "\0"), basic(CLIENT, SECRET[:-1])),
    *(basic(CLIENT, SECRET.upper()), basic(CLIENT, "ü" * 40), basic(CLIENT, "%zz%")),
    *(basic("", SECRET), basic(CLIENT.upper(), SECRET), basic("other", SECRET)),
    b"Basic " + base64.b64encode(SECRET.encode()),
    b"Basic " + base64.b64encode(b"\xff:\xff\x00"),
    "Basic ü".encode(),
)
FORMS: Final = (
    *(b"&client_id=service", b"&client_id=service&client_secret=", b"&client_assertion=x"),
    *(b"&client_id=service&client_secret=x", b"&client_id=service&client_secret=%00"),
    *(PAIR + b"%00", PAIR + b"+", PAIR.replace(b"service", b"Service")),
)


def test_all_wrong_clients_get_the_same_answer() -> None:
    wrong = request_token(SHOP, authorization=basic(CLIENT, "wrong"))
    assert said(wrong) == (401, "invalid_client")
    assert dict(wrong.headers)["WWW-Authenticate"].startswith("Basic ")
    for authorization in HEADERS:
        assert request_token(SHOP, authorization=authorization) == wrong
    for form in FORMS:
        assert request_token(SHOP, GRANT + form, authorization=None) == wrong


@given(st.binary(max_size=200), st.binary(max_size=100), st.booleans())
def test_any_bytes_lead_to_a_refusal(body: bytes, value: bytes, is_basic: bool) -> None:
    authorization = b"Basic " + base64.b64encode(value) if is_basic else value
    for form in (body, GRANT + b"&" + body):
        assert request_token(SHOP, form, authorization=authorization).status in (400, 401)
