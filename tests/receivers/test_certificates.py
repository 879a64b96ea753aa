"""Client certificates: which are accepted, which headers of proxies count, and TLS contexts."""

import base64
import ssl
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from hypothesis import given
from hypothesis import strategies as st

from income_client.errors import ConfigurationError
from income_client.receivers.certificates import CallbackClientCertificate, certificate_in
from income_client.receivers.exchange import UNIX_PEER, Refusal, RequestHead
from income_client.receivers.networks import TrustedProxies
from income_client.receivers.tls import callback_ssl_context
from income_client.settings import Secret
from tests.support.callbacks import Recording, refusal_of, ring, served_by_aiohttp
from tests.support.identities import SERVICE, SUBJECT, Papers, der_of, issued, pem_of


def with_uri(uri: str) -> bytes:
    """Return a certificate, in DER, whose one alternative name is a URI."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    nobody = x509.Name([])
    paper = (
        x509.CertificateBuilder(nobody, nobody, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri)]), critical=True
        )
    )
    return paper.sign(key, SHA256()).public_bytes(Encoding.DER)


CA = trustme.CA()
PROXY = "192.0.2.1"
PROXIES = TrustedProxies([PROXY, UNIX_PEER])
NOW = datetime.now(UTC).timestamp()
NAMED = der_of(issued(CA, SERVICE, "192.0.2.7", "2001:db8::7", "ring@service.example"))
URI = "spiffe://service.example/ring"
WITH_URI = with_uri(URI)
WILD = der_of(issued(CA, "*.service.example"))
LONG = der_of(issued(CA, *(f"{n}.{'long' * 10}.service.example" for n in range(300))))
ANYBODY = CallbackClientCertificate(any_from_ca=True)


def refusal(
    auth: CallbackClientCertificate, certificate: bytes | None = NAMED, now: float = NOW
) -> Refusal | None:
    head = RequestHead(method="POST", headers=(), peer="192.0.2.9", certificate=certificate)
    return refusal_of(auth.check, head, TrustedProxies(), now=now)


PINS: Final[tuple[tuple[dict[str, Any], bytes], ...]] = (
    ({"subject": SUBJECT}, NAMED),
    ({"subject": ["CN=somebody", SUBJECT]}, NAMED),
    ({"subject": "CN=somebody", "san": SERVICE}, NAMED),
    *(({"san": name}, NAMED) for name in (SERVICE, SERVICE.upper(), ["x.example", SERVICE])),
    *(({"san": name}, NAMED) for name in ("192.0.2.7", "::ffff:192.0.2.7", "2001:0DB8:0::7")),
    ({"san": "ring@SERVICE.example"}, NAMED),
    ({"san": URI}, WITH_URI),
    ({"any_from_ca": True}, NAMED),
)
SIMILAR: Final[tuple[tuple[dict[str, Any], bytes], ...]] = (
    ({"subject": "CN=callbacks"}, NAMED),
    ({"subject": "O=Income Service,OU=Outbound,CN=callbacks"}, NAMED),
    ({"subject": SUBJECT.replace("callbacks", "Callbacks")}, NAMED),
    ({"subject": SUBJECT + ",C=US"}, NAMED),
    *(({"san": name}, NAMED) for name in ("callbacks", "service.example", f"x.{SERVICE}")),
    *(({"san": name}, NAMED) for name in (f"https://{SERVICE}", "192.0.2.8")),
    ({"san": "Ring@service.example"}, NAMED),
    ({"san": URI.replace("ring", "Ring")}, WITH_URI),
    ({"san": SERVICE}, WILD),
)


def test_one_pin_that_fits_is_enough_and_one_that_is_similar_is_not() -> None:
    for pin, certificate in PINS:
        assert refusal(CallbackClientCertificate(**pin), certificate) is None, pin
    for pin, certificate in SIMILAR:
        found = refusal(CallbackClientCertificate(**pin), certificate)
        assert found is Refusal.CERTIFICATE_NOT_PINNED, pin


def test_a_certificate_counts_while_it_is_valid() -> None:
    begins, ends = datetime(2030, 1, 1, tzinfo=UTC), datetime(2030, 2, 1, tzinfo=UTC)
    paper = der_of(issued(CA, not_before=begins, not_after=ends))
    auth = CallbackClientCertificate(san=SERVICE)
    first, last = begins.timestamp(), ends.timestamp()
    for now in (first, last):
        assert refusal(auth, paper, now) is None
    for now in (first - 1, last + 1, 0.0, float("nan"), float("inf")):
        assert refusal(auth, paper, now) is Refusal.CERTIFICATE_OUT_OF_TIME


def test_what_is_not_a_certificate_is_refused() -> None:
    assert len(LONG) > 16_384
    for certificate in (b"", b"\x30", b"\x00" * 99, NAMED[:-1], NAMED + b"\x00", LONG):
        assert refusal(ANYBODY, certificate) is Refusal.CERTIFICATE_UNREADABLE
    assert refusal(ANYBODY, None) is Refusal.CERTIFICATE_MISSING


@given(st.integers(0, len(NAMED) - 1), st.binary(max_size=3), st.integers(0, 3))
def test_a_damaged_certificate_is_refused_or_read(place: int, put: bytes, cut: int) -> None:
    damaged = NAMED[:place] + put + NAMED[place + cut :]
    auth = CallbackClientCertificate(subject=SUBJECT, san="elsewhere.example")
    found = refusal(auth, damaged)
    assert found is None or found.name.startswith("CERTIFICATE_")


def test_without_its_library_it_says_which_extra_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(ConfigurationError, match=r"income-client\[callbacks\]"):
        CallbackClientCertificate(san=SERVICE)


PAPER = issued(CA)
DER, PEM = der_of(PAPER), pem_of(PAPER)
PINNED = CallbackClientCertificate(
    san=SERVICE, proxy_header="Client-Cert", verified_header=("X-SSL-Client-Verify", "SUCCESS")
)


def rfc_9440(der: bytes) -> bytes:
    return b":" + base64.b64encode(der) + b":"


GOOD = rfc_9440(DER)
OTHER = rfc_9440(der_of(issued(CA, "elsewhere.example")))


def forwarded(
    *values: bytes,
    peer: str | None = PROXY,
    verified: tuple[bytes, ...] = (b"SUCCESS",),
    certificate: bytes | None = None,
    auth: CallbackClientCertificate = PINNED,
) -> Refusal | None:
    headers = [(b"Client-Cert", value) for value in values]
    headers += [(b"X-SSL-Client-Verify", value) for value in verified]
    head = RequestHead(method="POST", headers=tuple(headers), peer=peer, certificate=certificate)
    return refusal_of(auth.check, head, PROXIES, now=NOW)


FORMS: Final = (
    GOOD,
    quote(PEM, safe="").encode(),
    quote(PEM, safe="+=/").encode(),
    quote(PEM.replace("\n", "\r\n")).encode(),
    PEM.replace("\n", " ").encode(),
)
"""RFC 9440, and PEM in percent signs as nginx and load balancers write it."""
OTHER_FORMS: Final = (
    *(b"", b":", b"::", b": :", b":AAA:"),
    *(GOOD[:-1], GOOD[1:], GOOD + b";a=1", GOOD + b", " + GOOD),
    base64.b64encode(DER),
    b":" + base64.urlsafe_b64encode(b"\xff" * 99) + b":",
    quote(PEM + PEM).encode(),
    quote(PEM[:-30]).encode(),
    quote(PEM.replace("CERTIFICATE", "PRIVATE KEY")).encode(),
    b"-----BEGIN CERTIFICATE----------END CERTIFICATE-----",
    b"%" * 99,
    b":" + b"A" * 16_384 + b":",
)


def test_both_forms_are_read_and_no_other() -> None:
    assert [certificate_in(value) for value in FORMS] == [DER] * len(FORMS)
    assert [value for value in OTHER_FORMS if certificate_in(value) is not None] == []


@given(st.binary(max_size=200) | st.binary(max_size=99).map(lambda found: b":" + found + b":"))
def test_no_header_raises(value: bytes) -> None:
    found = forwarded(value)
    assert found in (Refusal.CERTIFICATE_MISSING, Refusal.CERTIFICATE_UNREADABLE)


def test_only_a_trusted_proxy_is_believed() -> None:
    """Another peer's header counts for nothing, its own certificate does."""
    for peer in (PROXY, "::ffff:192.0.2.1", UNIX_PEER):
        assert forwarded(GOOD, peer=peer) is None
        assert forwarded(OTHER, peer=peer) is Refusal.CERTIFICATE_NOT_PINNED
    for other in ("192.0.2.2", "127.0.0.1", None, "", "proxy"):
        assert forwarded(GOOD, peer=other) is Refusal.CERTIFICATE_MISSING
        assert forwarded(OTHER, peer=other, certificate=DER) is None
        assert forwarded(peer=other, certificate=DER, auth=ANYBODY) is None


def test_of_a_proxy_only_one_header_counts() -> None:
    """Neither the certificate with which it connects, nor two headers, of which one is a lie.

    Where it says whether it has verified a certificate, only that word counts.
    """
    for values in ((), (b"",)):
        assert forwarded(*values, certificate=DER) is Refusal.CERTIFICATE_MISSING
    assert forwarded(certificate=DER, auth=ANYBODY) is Refusal.CERTIFICATE_MISSING
    for first in (GOOD, b""):
        assert forwarded(first, GOOD) is Refusal.CERTIFICATE_UNREADABLE
    for word in (b"", b"NONE", b"FAILED:self signed", b"success"):
        assert forwarded(GOOD, verified=(word,)) is Refusal.CERTIFICATE_NOT_VERIFIED
    for words in ((), (b"SUCCESS", b"SUCCESS")):
        assert forwarded(GOOD, verified=words) is Refusal.CERTIFICATE_NOT_VERIFIED


# TLS contexts

PASSWORD = "correct horse battery"
FILES = ("certificate", "key", "client_ca")
NOT_A_PAIR = "are not a certificate and its private key"


async def shakes_hands(context: ssl.SSLContext, client: ssl.SSLContext) -> bool:
    async with served_by_aiohttp(Recording(), context) as url:
        try:
            return (await ring(url, ssl=client)).status == 200
        except (ssl.SSLError, EOFError, ConnectionError):
            return False


@pytest.mark.parametrize("is_optional", [False, True])
async def test_certificates_are_verified(papers: Papers, is_optional: bool) -> None:
    context = callback_ssl_context(
        **papers.files, client_certificates="optional" if is_optional else "required"
    )
    assert await shakes_hands(context, papers.client(papers.service()))
    assert await shakes_hands(context, papers.client()) is is_optional
    for paper in (papers.stranger(), papers.expired()):
        assert not await shakes_hands(context, papers.client(paper))


async def test_an_authority_below_a_root_may_stand_alone_and_none_is_tls_alone(
    papers: Papers, tmp_path: Path
) -> None:
    """Clients of the intermediate authority pass, and other clients of its root do not."""
    below = papers.client_ca.create_child_ca()
    below.cert_pem.write_to_path(tmp_path / "below.pem")
    context = callback_ssl_context(**papers.files | {"client_ca": tmp_path / "below.pem"})
    assert await shakes_hands(context, papers.client(below.issue_cert("callbacks.example")))
    assert not await shakes_hands(context, papers.client(papers.service()))
    context = callback_ssl_context(**papers.files | {"client_ca": None})
    assert context.verify_mode == ssl.CERT_NONE
    assert await shakes_hands(context, papers.client())


def test_old_tls_and_the_machine_s_authorities_count_for_nothing(papers: Papers) -> None:
    """TLS 1.2 at least, and one authority: the one that was given."""
    context = callback_ssl_context(**papers.files)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.cert_store_stats() == {"x509": 1, "x509_ca": 1, "crl": 0}


def _encrypted(papers: Papers, folder: Path) -> Path:
    key = load_pem_private_key(papers.files["key"].read_bytes(), None)
    sealed = BestAvailableEncryption(PASSWORD.encode())
    path = folder / "sealed.key"
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, sealed))
    return path


def test_an_encrypted_key_is_opened(papers: Papers, tmp_path: Path) -> None:
    files = papers.files | {"key": _encrypted(papers, tmp_path)}
    for password in (PASSWORD, Secret(PASSWORD)):
        assert callback_ssl_context(**files, password=password).verify_mode == ssl.CERT_REQUIRED


WRONG_FILES: Final[tuple[tuple[dict[str, Any], str], ...]] = (
    *(({name: "missing"}, f"{name}: .*cannot be read: No such file") for name in FILES),
    ({"client_ca": "."}, "client_ca: .*cannot be read: Is a directory"),
    ({"key": "other.key"}, "do not belong together"),
    *(({"key": name}, NOT_A_PAIR) for name in ("server.pem", "empty.pem")),
    ({"certificate": "server.key"}, NOT_A_PAIR),
    *(({"client_ca": name}, "holds no certificate") for name in ("empty.pem", "server.key")),
    ({"client_ca": "server.pem"}, "client_ca: .*is not an authority's"),
    ({"key": "sealed.key"}, "no password is given for"),
    ({"key": "sealed.key", "password": "wr0ng-p4ss"}, "the password does not open"),
    ({"key": "sealed.key", "password": "wr0ng-p4ss" * 200}, "too long"),
    ({"key": 7}, "key: .*cannot be read"),
    ({"certificate": None}, "certificate: 'None' cannot be read"),
    ({"client_certificates": "none"}, "'required' or 'optional'"),
)


def test_what_is_wrong_with_the_files_is_said(papers: Papers, tmp_path: Path) -> None:
    for path in papers.files.values():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "empty.pem").write_bytes(b"")
    other = papers.client_ca.issue_cert("other.example")
    (tmp_path / "other.key").write_bytes(other.private_key_pem.bytes())
    _encrypted(papers, tmp_path)
    here = {name: tmp_path / path.name for name, path in papers.files.items()}
    for changed, said in WRONG_FILES:
        paths = {
            k: tmp_path / v if isinstance(v, str) else v for k, v in changed.items() if k in FILES
        }
        with pytest.raises(ConfigurationError, match=said) as caught:
            callback_ssl_context(**here | changed | paths)
        assert "wr0ng" not in str(caught.value)
