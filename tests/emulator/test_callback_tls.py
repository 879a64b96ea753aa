"""Callbacks over TLS, with a client certificate and without."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trustme

from income_client import BasicAuth
from income_client.emulator import CallbackTarget, Emulator
from tests.support.callback_endpoints import Telling
from tests.support.callback_servers import PATH, served_by_aiohttp


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Who signs the certificates."""
    return trustme.CA()


@asynccontextmanager
async def endpoint(authority: trustme.CA) -> AsyncIterator[str]:
    """Serve an endpoint that wants a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    async with served_by_aiohttp(Telling(), context) as url:
        yield f"{url}{PATH}"


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """Return a context that trusts the endpoint."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def test_a_certificate_goes_with_other_credentials(
    service: Emulator, authority: trustme.CA
) -> None:
    """Mutual TLS and Basic credentials together are one callback."""
    context = trusting(authority)
    authority.issue_cert("callbacks.income.invalid").configure_cert(context)
    async with endpoint(authority) as url:
        target = CallbackTarget(url, auth=BasicAuth("partner", "invented"), ssl=context)
        delivery = await service.fire_callback(target=target)
    assert (delivery.attempts, delivery.is_json) == ((200,), True)


async def test_an_endpoint_must_be_trusted(service: Emulator, authority: trustme.CA) -> None:
    """Where nobody vouches for an endpoint, nothing is sent."""
    async with endpoint(authority) as url:
        assert (await service.fire_callback(target=CallbackTarget(url))).attempts == ("tls",)


async def test_refused_certificates_are_faults(service: Emulator, authority: trustme.CA) -> None:
    """Without a certificate, or with one that a stranger signed, there is no answer."""
    foreign = trusting(authority)
    trustme.CA().issue_cert("callbacks.income.invalid").configure_cert(foreign)
    async with endpoint(authority) as url:
        for context in (trusting(authority), foreign):
            delivery = await service.fire_callback(target=CallbackTarget(url, ssl=context))
            # The alert may be overtaken by the end of the connection.
            assert delivery.attempts[0] in ("tls", "reset", "dropped")
            assert len(delivery.attempts) == 1
