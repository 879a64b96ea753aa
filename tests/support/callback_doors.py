"""Endpoints that check one thing each, or all, served with TLS by two kinds of server."""

import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from functools import cache
from typing import Literal, assert_never

from income_client import (
    CallbackBearerAuth,
    CallbackClientCertificate,
    CallbackSourceNetworks,
)
from income_client.receivers import CallbackReceiver, callback_ssl_context
from income_client.receivers.asgi import Receiver
from income_client.receivers.auth import CallbackAuth
from tests.support.callback_attacks import Certificate, Door
from tests.support.callback_certificates import SERVICE, Papers
from tests.support.callback_requests import BASIC, HandClock, Heard
from tests.support.callback_servers import served_by_aiohttp, served_by_uvicorn
from tests.support.signed_tokens import AUDIENCE, ISSUER, NOW, public_jwk

Server = Literal["aiohttp", "uvicorn"]


@cache
def server_context(papers: Papers) -> ssl.SSLContext:
    """Return the endpoint's side; who rings needs no certificate for it."""
    return callback_ssl_context(**papers.files, client_certificates="optional")


@cache
def client_context(papers: Papers, certificate: Certificate | None) -> ssl.SSLContext:
    """Return the side of who rings."""
    match certificate:
        case "service":
            return papers.client(papers.service())
        case "other":
            return papers.client(papers.client_ca.issue_cert("other.service.example"))
        case "expired":
            return papers.client(papers.expired())
        case "stranger":
            return papers.client(papers.stranger())
        case None:
            return papers.client()
        case _:
            assert_never(certificate)


def receivers(heard: Heard) -> Mapping[Door, CallbackReceiver]:
    """Return a receiver for each door, at a time at which good tokens are good."""
    holder = CallbackClientCertificate(san=SERVICE)
    forwarded = CallbackClientCertificate(san=SERVICE, proxy_header="Client-Cert")
    service = CallbackSourceNetworks(["198.51.100.0/24"])
    here = CallbackSourceNetworks(["127.0.0.0/8"])
    tokens = CallbackBearerAuth(
        keys=[public_jwk("RSA", 0), public_jwk("RSA", 2)], issuer=ISSUER, audience=AUDIENCE
    )
    checks: Mapping[Door, tuple[CallbackAuth, ...]] = {
        "basic": (BASIC,),
        "tokens": (tokens,),
        "networks": (BASIC, service),
        "proxied": (BASIC, service),
        "certificate": (BASIC, holder),
        "forwarded": (BASIC, forwarded),
        "all": (BASIC, tokens, holder, here),
    }
    return {
        door: CallbackReceiver(
            heard,
            auth=auth,
            trusted_proxies=["127.0.0.1" if door == "proxied" else "10.0.0.1"],
            max_body_bytes=65_536,
            clock=HandClock(NOW),
        )
        for door, auth in checks.items()
    }


@contextlib.asynccontextmanager
async def served(
    server: Server, doors: Mapping[Door, CallbackReceiver], tls: ssl.SSLContext
) -> AsyncIterator[str]:
    """Serve each door under its name, and yield the base address."""
    if server == "uvicorn":
        apps = {f"/{door}": Receiver(receiver) for door, receiver in doors.items()}
        async with served_by_uvicorn(
            apps, tls, http="income_client.receivers.uvicorn:H11Protocol"
        ) as url:
            yield url
        return
    endpoints = {f"/{door}": receiver for door, receiver in doors.items()}
    async with served_by_aiohttp(endpoints, tls) as url:
        yield url
