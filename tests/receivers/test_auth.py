"""What the checks of callbacks can be told, and in which order a head is checked."""

import base64
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
)
from hypothesis import given
from hypothesis import strategies as st

from income_client import (
    BasicAuth,
    CallbackBasicAuth,
    CallbackBearerAuth,
    CallbackClientCertificate,
    CallbackSourceNetworks,
    CallbackTokenIssuer,
    ConfigurationError,
    Secret,
)
from income_client.receivers import CallbackReceiver, callback_ssl_context
from income_client.receivers.auth import CallbackGate
from income_client.receivers.exchange import Refusal, RequestHead
from income_client.receivers.networks import TrustedProxies
from tests.support.leaks import package_frames
from tests.support.refusals import refusal_of
from tests.support.signed_tokens import (
    AUDIENCE,
    ISSUER,
    accepting,
    private_key,
    public_jwk,
    public_pem,
    segment,
)

AUTH = CallbackBasicAuth("service", "invented-1", also=[BasicAuth("service", "invented-2")])


def encoded(pair: str, encoding: str = "utf-8") -> bytes:
    """Return a pair as it stands in the header."""
    return base64.b64encode(pair.encode(encoding))


@pytest.mark.parametrize("pair", ["service:invented-1", "service:invented-2"])
def test_every_pair_is_accepted(pair: str) -> None:
    """So a password can be changed on one side after the other."""
    assert refusal_of(AUTH.check, encoded(pair)) is None


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_both_encodings_of_a_password_are_accepted(encoding: str) -> None:
    """Nobody says which one the service uses."""
    auth = CallbackBasicAuth("müller", "gemäß")
    assert refusal_of(auth.check, encoded("müller:gemäß", encoding)) is None


@given(st.text(max_size=40), st.text(max_size=40))
def test_only_equal_pairs_pass(name: str, password: str) -> None:
    """No text is taken for another."""
    pair = f"{name}:{password}"
    refusal = refusal_of(AUTH.check, base64.b64encode(pair.encode("utf-8", "surrogatepass")))
    is_known = pair in ("service:invented-1", "service:invented-2")
    assert refusal is (None if is_known else Refusal.PASSWORD_WRONG)


@pytest.mark.parametrize(
    ("username", "password", "also"),
    [
        ("", "p", ()), ("u", "", ()), ("u:v", "p", ()), ("u", "p\n", ()), ("u", Secret(""), ()),
        ("u", "p", 7), ("u", "p", [("u", "q")]), ("u", None, ()),
    ],
)  # fmt: skip
def test_empty_and_unsendable_credentials_are_refused(
    username: str, password: str, also: object
) -> None:
    """An endpoint with an empty password would be open."""
    with pytest.raises(ConfigurationError):
        CallbackBasicAuth(username, password, also=also)  # type: ignore[arg-type]


URL: Final = "https://id.example.test/keys"
SECRET: Final = "s3cret-" * 8


def short_pem() -> bytes:
    """Return an RSA key of 1024 bits."""
    public = rsa.generate_private_key(65537, 1024).public_key()
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        (Secret("x" * 64), "must be named"),
        ("-----BEGIN PRIVATE KEY-----\nAAAA", "only the issuer"),
        (dict(private_key("P-256").as_dict(private=True)), "only the issuer"),
        ("https://id.example.test/keys", "jwks_url"),
        ("keys.pem", "not a public key in PEM"),
        ("a shared secret", "given as a Secret"),
        (7, "neither a JWK"),
        (short_pem(), "2048"),
    ],
)
def test_what_is_wrong_with_a_key_is_said(key: Any, advice: str) -> None:
    """By its place, and without showing it."""
    with pytest.raises(ConfigurationError, match=advice) as caught:
        accepting(keys=[public_pem("RSA"), key])
    assert str(caught.value).startswith("keys: number 2 ")
    assert "AAAA" not in str(caught.value)


def test_a_public_key_is_not_taken_for_a_secret() -> None:
    """Its text is known to everybody, whatever the caller believes it to be."""
    pem = public_pem("RSA")
    der = load_pem_public_key(pem).public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    jwks = [{"kty": "oct", "k": segment(text)} for text in (pem, b"RSA:\n" + pem, der)]
    for key in (Secret(pem.decode()), *jwks):
        with pytest.raises(ConfigurationError, match=r"^keys"):
            accepting(keys=key, algorithms=["HS256"])


@pytest.mark.parametrize(("algorithm", "length"), [("HS256", 31), ("HS384", 47), ("HS512", 63)])
def test_a_secret_is_as_long_as_its_hash(algorithm: str, length: int) -> None:
    """Shorter secrets are refused (RFC 7518, section 3.2)."""
    with pytest.raises(ConfigurationError, match="too short"):
        accepting(keys=Secret("x" * length), algorithms=[algorithm])
    assert accepting(keys=Secret("x" * (length + 1)), algorithms=[algorithm]).keys


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"keys": None}, "exactly one"),
        ({"jwks_url": URL}, "exactly one"),
        ({"issuer": None}, "issuer"),
        ({"issuer": ""}, "issuer"),
        ({"issuer": 5}, "issuer"),
        ({"audience": None}, "another API"),
        ({"audience": []}, "audience"),
        ({"audience": ""}, "audience"),
        ({"audience": [b"x"]}, "audience"),
        ({"audience": b"x"}, "audience"),
        ({"claims": {}}, "claims"),
        ({"claims": {"": "x"}}, "claims"),
        ({"claims": {"iss": "x"}}, "iss"),
        ({"claims": {"client_id": ""}}, "claims"),
        ({"claims": {"client_id": 1.5}}, "claims"),
        ({"claims": "client_id"}, "claims"),
        ({"algorithms": []}, "algorithms"),
        ({"algorithms": "ES256"}, "algorithms"),
        ({"algorithms": ["none"]}, "algorithms"),
        ({"algorithms": ["ES256K"]}, "algorithms"),
        ({"algorithms": ["ES256", "HS256"]}, "never go together"),
        ({"algorithms": ["RS256"]}, "keys"),
        ({"leeway": -1}, "leeway"),
        ({"leeway": 60.5}, "leeway"),
        ({"leeway": float("nan")}, "leeway"),
        ({"leeway": 10**400}, "leeway"),
        ({"leeway": True}, "leeway"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: dict[str, Any], text: str) -> None:
    """Every rule is checked at construction."""
    with pytest.raises(ConfigurationError, match=text):
        accepting(**arguments)


@pytest.mark.parametrize("url", [URL, f"{URL}?x=1", "http://127.0.0.1:8/k", "http://[::1]/k"])
def test_a_key_set_address_is_https_or_on_this_machine(url: str) -> None:
    """Such addresses are taken."""
    assert accepting(keys=None, jwks_url=url).jwks_url == url


@pytest.mark.parametrize(
    "url",
    [
        "http://id.example.test/keys",
        "ftp://127.0.0.1/keys",
        "https://user:S3CRET@id.example.test/keys",
        "https://id.example.test/keys#S3CRET",
        "https://id.example.test:0/keys",
        "https://id.example.test:x/keys",
        "https://[::1/keys",
        "https:///keys",
        "https://id.example.test\\@127.0.0.1/",
        "https://id.example.test/k y",
        "http://0x7f.1/keys",
        f"{URL}\n",
        "https://ü.example.test/",
        "x" * 5000,
        5,
    ],
)
def test_other_addresses_are_refused_and_not_shown(url: Any) -> None:
    """Neither a password nor a fragment is taken along, nor shown."""
    with pytest.raises(ConfigurationError, match="jwks_url") as caught:
        accepting(keys=None, jwks_url=url)
    assert "S3CRET" not in str(caught.value)


def test_keys_that_anybody_can_fetch_are_no_secrets() -> None:
    """HS256 with an address is refused, so that no public key is ever taken for a secret."""
    with pytest.raises(ConfigurationError, match="HS256"):
        accepting(keys=None, jwks_url=URL, algorithms=["HS256"])


@pytest.mark.parametrize(
    "arguments",
    [
        {"issuer": ISSUER},
        {"audience": AUDIENCE},
        {"claims": {"a": 1}},
        {"algorithms": ["ES256"]},
        {"leeway": 5.0},
        {"keys": public_jwk("P-256")},
    ],
)
def test_verify_decides_alone(arguments: dict[str, Any]) -> None:
    """Rules that nobody would look at are refused."""
    assert CallbackBearerAuth(verify=bool).rules is None
    with pytest.raises(ConfigurationError, match="verify"):
        CallbackBearerAuth(verify=bool, **arguments)


def test_a_repr_shows_no_secret() -> None:
    """Of the values only the rules are shown."""
    hashed = accepting(keys=Secret(SECRET), algorithms=["HS256"])
    for shown in (hashed, accepting(keys=None, jwks_url=f"{URL}?{SECRET}"), AUTH):
        assert "s3cret" not in repr(shown)
        assert "invented" not in repr(shown)


@pytest.mark.parametrize(
    "make",
    [
        lambda: CallbackBasicAuth("service:", SECRET),
        lambda: CallbackBasicAuth("service", SECRET, also=[("service", SECRET)]),  # type: ignore[list-item]
        lambda: accepting(keys={"kty": "oct", "k": SECRET}, algorithms=["HS512", "ES256"]),
        lambda: accepting(keys=[Secret(SECRET), SECRET], algorithms=["HS256"]),
        lambda: accepting(keys=None, jwks_url=f"https://user:{SECRET}@id.example.test/"),
        lambda: CallbackTokenIssuer("a:b", SECRET),
        lambda: CallbackTokenIssuer("a", SECRET, lifetime=1),
        lambda: callback_ssl_context("none.pem", "none.key", None, password=SECRET),
        lambda: CallbackReceiver(print, auth=BasicAuth("a", SECRET)),  # type: ignore[arg-type]
        lambda: CallbackClientCertificate(san="*.example"),
        lambda: CallbackSourceNetworks(["0.0.0.0/0"]),
    ],
)
def test_an_error_leaves_no_secret_and_no_half_made_object(make: Callable[[], object]) -> None:
    """Neither in its text nor in the frames of this package."""
    with pytest.raises(ConfigurationError) as caught:
        make()
    frames = package_frames(caught.value)
    assert frames
    assert "s3cret" not in f"{caught.value!r} {[frame.locals for frame in frames]}"
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


def test_without_signed_tokens_their_library_is_not_loaded() -> None:
    """The value is imported, and made with verify, where joserfc does not exist."""
    program = """
import sys
sys.modules["joserfc"] = sys.modules["cryptography"] = None
from income_client import CallbackBearerAuth, ConfigurationError
CallbackBearerAuth(verify=bool)
try:
    CallbackBearerAuth(jwks_url="https://id.example.test/", issuer="i", audience="a")
except ConfigurationError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert b"pip install 'income-client[callbacks]'" in done.stdout


NOW = 1_782_820_800.0
BASIC = CallbackBasicAuth("service", "invented-1")
BEARER = CallbackBearerAuth(verify=lambda _token: True)
NETWORKS = CallbackSourceNetworks(["198.51.100.0/24"])
GOOD = b"Basic " + base64.b64encode(b"service:invented-1")
PROXIES = TrustedProxies(["10.0.0.1"])


def head(*authorization: bytes, method: str = "POST", peer: str = "198.51.100.7") -> RequestHead:
    """Return the head of a request with these Authorization fields."""
    fields = tuple((b"authorization", value) for value in authorization)
    return RequestHead(method=method, headers=fields, peer=peer)


def gate(*auth: CallbackBasicAuth | CallbackBearerAuth | CallbackSourceNetworks) -> CallbackGate:
    """Return a gate with these checks."""
    return CallbackGate(auth, proxies=PROXIES)


def refused(checks: CallbackGate, request: RequestHead) -> Refusal | None:
    """Return why a head is refused."""
    return refusal_of(checks.check, request, now=NOW)


def test_of_basic_and_bearer_either_will_do() -> None:
    """A request has one Authorization header."""
    both = gate(BASIC, BEARER)
    assert both.check(head(GOOD), now=NOW) is None
    assert both.check(head(b"bearer  abc"), now=NOW) == "abc"
    assert both.challenges == ('Basic realm="callbacks"', 'Bearer realm="callbacks"')


def test_addresses_are_looked_at_before_passwords() -> None:
    """Nobody guesses from elsewhere."""
    both = gate(BASIC, NETWORKS)
    assert both.check(head(GOOD), now=NOW) is None
    assert refused(both, head(GOOD, peer="203.0.113.9")) is Refusal.SOURCE_NOT_ALLOWED
    assert refused(both, head(peer="203.0.113.9")) is Refusal.SOURCE_NOT_ALLOWED
    assert refused(both, head()) is Refusal.AUTHORIZATION_MISSING


@given(st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=60)), max_size=5))
def test_no_head_raises(fields: list[tuple[bytes, bytes]]) -> None:
    """Whatever comes becomes a refusal, or a token to be checked."""
    request = RequestHead(method="POST", headers=tuple(fields), peer="198.51.100.7")
    refused(gate(BASIC, BEARER, NETWORKS), request)
