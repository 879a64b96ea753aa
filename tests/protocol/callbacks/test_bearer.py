"""What `CallbackBearerAuth` can be told, and what it refuses to be told."""

import subprocess
import sys
import traceback
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
)
from joserfc.jwk import RSAKey

from income_client.errors import ConfigurationError
from income_client.protocol.callbacks.bearer import CallbackBearerAuth
from income_client.settings import Secret
from tests.support.signed_tokens import (
    AUDIENCE,
    ISSUER,
    accepting,
    key_set,
    private_key,
    public_jwk,
    public_pem,
    segment,
)

URL: Final = "https://id.example.test/keys"
SECRET: Final = "s3cret-" * 8


def short_pem() -> bytes:
    """Return an RSA key of 1024 bits."""
    public = rsa.generate_private_key(65537, 1024).public_key()
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def short_jwk() -> dict[str, Any]:
    """Return the same as JSON."""
    with pytest.warns(match="2048"):
        return dict(RSAKey.import_key(short_pem()).as_dict(private=False))


@pytest.mark.parametrize(
    "keys",
    [
        public_jwk("P-256"),
        key_set("P-256", "RSA"),
        public_pem("RSA"),
        public_pem("P-384").decode(),
        public_pem("Ed25519"),
        [public_pem("RSA"), public_jwk("P-521"), key_set("Ed25519")],
    ],
)
def test_keys_come_as_jwk_jwks_and_pem(keys: Any) -> None:
    """Each form of a public key is taken, alone or among others."""
    assert accepting(keys=keys).keys is not None


@pytest.mark.parametrize("key", [Secret("x" * 32), public_jwk("oct")])
def test_a_secret_goes_with_an_algorithm_that_is_named(key: Any) -> None:
    """HS256 is accepted when named, and only then."""
    assert accepting(keys=key, algorithms=["HS256"]).keys is not None
    with pytest.raises(ConfigurationError, match=r"must be named|cannot be used"):
        accepting(keys=key)


@pytest.mark.parametrize(
    "keys",
    [
        short_pem(),
        short_jwk(),
        {"keys": [short_jwk()]},
        [public_pem("RSA"), short_pem()],
        dict(private_key("P-256").as_dict(private=True)),
        public_jwk("P-256", use="enc"),
        public_jwk("P-256", key_ops=["sign"]),
        public_jwk("P-256", key_ops="verify"),
        public_jwk("P-256", alg="ECDH-ES"),
        public_jwk("P-256", alg=7),
        public_jwk("P-256", kid=7),
        public_jwk("P-256", x="AA"),
        public_jwk("RSA", n="A" * 5000),
        public_jwk("RSA", n="ü"),
        public_jwk("X25519"),
        public_jwk("Ed448"),
        {"kty": "EC"},
        {"kty": ["EC"]},
        {"keys": 5},
        {"keys": []},
        [],
        [None],
        7,
        "ü",
        b"no pem",
        "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        "x" * 100_000,
        Secret("x" * 64),
    ],
)
def test_a_key_that_cannot_be_used_is_told_of_at_once(keys: Any) -> None:
    """Short, private, foreign and broken keys are refused, and not shown."""
    with pytest.raises(ConfigurationError, match=r"^keys"):
        accepting(keys=keys)


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        (Secret("x" * 64), "must be named"),
        ("-----BEGIN PRIVATE KEY-----\nAAAA", "only the issuer"),
        (dict(private_key("P-256").as_dict(private=True)), "only the issuer"),
        ("https://id.example.test/keys", "jwks_url"),
        ("keys.pem", "no public key in PEM"),
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


def test_verify_must_be_callable() -> None:
    """A bool is no verify."""
    with pytest.raises(ConfigurationError, match="callable"):
        CallbackBearerAuth(verify=True)  # type: ignore[arg-type]


def test_neither_repr_nor_an_error_shows_a_key() -> None:
    """Of the value only the rules are shown; a frame that raises holds no key."""
    shown = repr(accepting(keys=Secret(SECRET), algorithms=["HS256"]))
    assert "s3cret" not in shown
    assert "id.example.test/keys" not in repr(accepting(keys=None, jwks_url=URL))
    with pytest.raises(ConfigurationError) as caught:
        accepting(keys={"kty": "oct", "k": SECRET}, algorithms=["HS512", "ES256"])
    framed = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    own = [frame for frame in framed.stack if frame.filename.endswith("/bearer.py")]
    assert own
    assert not any("s3cret" in str(frame.locals) for frame in own)


def test_without_signed_tokens_their_library_is_not_loaded() -> None:
    """The value is imported, and made with verify, where joserfc does not exist."""
    program = """
import sys
sys.modules["joserfc"] = sys.modules["cryptography"] = None
from income_client.errors import ConfigurationError
from income_client.protocol.callbacks.bearer import CallbackBearerAuth
CallbackBearerAuth(verify=bool)
try:
    CallbackBearerAuth(jwks_url="https://id.example.test/", issuer="i", audience="a")
except ConfigurationError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert b"pip install 'income-client[callbacks]'" in done.stdout
