"""mTLS that ends in aiohttp: a whole receiver, real certificates, real handshakes."""

import ssl
from typing import Literal

import pytest
import trustme

from income_client.receivers import CallbackReceiver, callback_ssl_context
from income_client.receivers.certificates import CallbackClientCertificate
from tests.support.callback_certificates import SERVICE, SUBJECT, Papers, pem_of
from tests.support.callback_servers import ring, served_by_aiohttp

Asked = Literal["required", "optional"]
BOTH: tuple[Asked, Asked] = ("required", "optional")


async def status(
    papers: Papers,
    paper: trustme.LeafCert | None,
    asked: Asked = "required",
    auth: CallbackClientCertificate | None = None,
    headers: tuple[tuple[str, str], ...] = (),
) -> int | None:
    """Return the status of the answer to a callback, None where the handshake fails."""
    pinned = auth or CallbackClientCertificate(subject=SUBJECT)
    receiver = CallbackReceiver(lambda _: None, auth=pinned, trusted_proxies=["10.0.0.1"])
    context = callback_ssl_context(**papers.files, client_certificates=asked)
    async with served_by_aiohttp(receiver, context) as url:
        try:
            return (await ring(url, ssl=papers.client(paper), headers=headers)).status
        except (ssl.SSLError, EOFError, ConnectionError):
            return None


@pytest.mark.parametrize("asked", BOTH)
async def test_the_service_passes(papers: Papers, asked: Asked) -> None:
    """By its subject, by its name, or by its authority alone where that is said."""
    for auth in (
        CallbackClientCertificate(subject=SUBJECT),
        CallbackClientCertificate(san=SERVICE),
        CallbackClientCertificate(any_from_ca=True),
    ):
        assert await status(papers, papers.service(), asked, auth) == 200


@pytest.mark.parametrize("asked", BOTH)
async def test_somebody_else_of_the_same_authority_is_refused(papers: Papers, asked: Asked) -> None:
    """The chain is good, the subject is another."""
    assert await status(papers, papers.service(common_name="somebody"), asked) == 403


@pytest.mark.parametrize("asked", BOTH)
async def test_strangers_and_expired_ones_do_not_connect(papers: Papers, asked: Asked) -> None:
    """The handshake ends it, whatever the certificate says."""
    for paper in (papers.stranger(), papers.expired()):
        assert await status(papers, paper, asked) is None


async def test_nobody_passes_without_one(papers: Papers) -> None:
    """Either the handshake ends it or the endpoint; no header stands in for it."""
    told = (("Client-Cert", pem_of(papers.service()).replace("\n", "%0A")),)
    auth = CallbackClientCertificate(subject=SUBJECT, proxy_header="Client-Cert")
    assert await status(papers, None, "required") is None
    assert await status(papers, None, "optional") == 403
    assert await status(papers, None, "optional", auth, told) == 403
