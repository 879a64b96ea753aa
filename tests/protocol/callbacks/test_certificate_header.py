"""Client certificates in a proxy's header: which forms are read, and whose word counts."""

import base64
from datetime import UTC, datetime
from urllib.parse import quote

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from income_client.protocol.callbacks.certificate_header import certificate_in
from income_client.protocol.callbacks.certificates import CallbackClientCertificate
from income_client.protocol.callbacks.exchange import REWRITTEN_PEER, UNIX_PEER, RequestHead
from income_client.protocol.callbacks.networks import TrustedProxies
from income_client.protocol.callbacks.refusals import Refusal
from tests.support.callback_certificates import SERVICE, der_of, issued, pem_of

CA = trustme.CA()
PAPER = issued(CA)
DER, PEM = der_of(PAPER), pem_of(PAPER)
OTHER = der_of(issued(CA, "elsewhere.example"))
PROXY = "192.0.2.1"
PROXIES = TrustedProxies([PROXY, UNIX_PEER])
NOW = datetime.now(UTC).timestamp()
PINNED = CallbackClientCertificate(
    san=SERVICE, proxy_header="Client-Cert", verified_header=("X-SSL-Client-Verify", "SUCCESS")
)


def rfc_9440(der: bytes) -> bytes:
    """Return a certificate as RFC 9440 has it in a header."""
    return b":" + base64.b64encode(der) + b":"


GOOD = rfc_9440(DER)


def refusal(
    *values: bytes,
    peer: str | None = PROXY,
    verified: tuple[bytes, ...] = (b"SUCCESS",),
    certificate: bytes | None = None,
    auth: CallbackClientCertificate = PINNED,
) -> Refusal | None:
    """Say why a request with these header fields is refused."""
    headers = [(b"Client-Cert", value) for value in values]
    headers += [(b"X-SSL-Client-Verify", value) for value in verified]
    head = RequestHead(method="POST", headers=tuple(headers), peer=peer, certificate=certificate)
    return auth.refusal(head, PROXIES, now=NOW)


@pytest.mark.parametrize(
    "value",
    [
        GOOD,
        quote(PEM, safe="").encode(),
        quote(PEM, safe="+=/").encode(),
        quote(PEM.replace("\n", "\r\n")).encode(),
        PEM.replace("\n", " ").encode(),
    ],
)
def test_both_forms_are_read(value: bytes) -> None:
    """RFC 9440, and PEM in percent signs as nginx and load balancers write it."""
    assert certificate_in(value) == DER


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b":",
        b"::",
        b": :",
        GOOD[:-1],
        GOOD[1:],
        GOOD + b";a=1",
        GOOD + b", " + GOOD,
        base64.b64encode(DER),
        b":" + base64.urlsafe_b64encode(b"\xff" * 99) + b":",
        quote(PEM + PEM).encode(),
        quote(PEM[:-30]).encode(),
        quote(PEM.replace("CERTIFICATE", "PRIVATE KEY")).encode(),
        b"-----BEGIN CERTIFICATE----------END CERTIFICATE-----",
        b"%" * 99,
        b":" + b"A" * 16_384 + b":",
    ],
)
def test_other_forms_are_not_read(value: bytes) -> None:
    """Half of one, two of them, another form, too much: none is a certificate."""
    assert certificate_in(value) is None


@given(st.binary(max_size=200) | st.binary(max_size=99).map(lambda found: b":" + found + b":"))
def test_no_header_raises(value: bytes) -> None:
    """Whatever stands in the header, it is refused and nothing is raised."""
    found = refusal(value)
    assert found in (Refusal.CERTIFICATE_MISSING, Refusal.CERTIFICATE_UNREADABLE)


@pytest.mark.parametrize("peer", [PROXY, "::ffff:192.0.2.1", UNIX_PEER])
def test_a_trusted_proxy_is_believed(peer: str) -> None:
    """What it forwards counts as if it had come over TLS."""
    assert refusal(GOOD, peer=peer) is None
    assert refusal(rfc_9440(OTHER), peer=peer) is Refusal.CERTIFICATE_NOT_PINNED


@pytest.mark.parametrize("peer", ["192.0.2.2", "127.0.0.1", None, "", "proxy"])
def test_anybody_else_is_not(peer: str | None) -> None:
    """From a peer that is no proxy the header counts for nothing, its own certificate does."""
    assert refusal(GOOD, peer=peer) is Refusal.CERTIFICATE_MISSING
    assert refusal(rfc_9440(OTHER), peer=peer, certificate=DER) is None


def test_a_peer_that_was_rewritten_is_named_as_the_cause() -> None:
    """Where nobody can tell the proxy, the operator is told why."""
    assert refusal(GOOD, peer=REWRITTEN_PEER) is Refusal.SOURCE_REWRITTEN


def test_of_a_proxy_only_the_header_counts() -> None:
    """The certificate with which a proxy itself connects is not the sender's."""
    assert refusal(certificate=DER) is Refusal.CERTIFICATE_MISSING
    assert refusal(b"", certificate=DER) is Refusal.CERTIFICATE_MISSING
    anybody = CallbackClientCertificate(any_from_ca=True)
    assert refusal(certificate=DER, auth=anybody) is Refusal.CERTIFICATE_MISSING
    assert refusal(certificate=DER, auth=anybody, peer="192.0.2.2") is None


def test_two_certificates_are_none() -> None:
    """A header that somebody has sent beside the proxy's makes both worthless."""
    assert refusal(GOOD, GOOD) is Refusal.CERTIFICATE_UNREADABLE
    assert refusal(b"", GOOD) is Refusal.CERTIFICATE_UNREADABLE


@pytest.mark.parametrize(
    "verified", [(), (b"",), (b"NONE",), (b"FAILED:self signed",), (b"success",), (b"SUCCESS",) * 2]
)
def test_what_the_proxy_has_not_verified_is_none(verified: tuple[bytes, ...]) -> None:
    """Where the proxy says whether it has verified a certificate, only that word counts."""
    assert refusal(GOOD, verified=verified) is Refusal.CERTIFICATE_NOT_VERIFIED
