"""Over real TLS sockets: attacks are refused, and the service's callbacks wake the poller."""

import asyncio
import gzip
import json
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import pytest

from income_client import BasicAuth, IncomeClient, MemoryCheckpointStore, Poller
from income_client.emulator import CallbackTarget, Emulator
from income_client.receivers import (
    Callback,
    CallbackBearerAuth,
    CallbackClientCertificate,
    CallbackReceiver,
    CallbackSourceNetworks,
    callback_ssl_context,
)
from income_client.receivers.auth import CallbackAuth
from income_client.receivers.exchange import Refusal
from tests.support.callbacks import (
    AUTHORIZATION,
    BASIC,
    PASSWORD,
    ring,
    served_by_aiohttp,
    served_by_uvicorn,
)
from tests.support.clocks import ManualClock
from tests.support.identities import AUDIENCE, ISSUER, NOW, SERVICE, Papers, public_jwk, token

Field = tuple[str, str]

CANARY: Final = "123-45-6789"
BODY: Final = b'{"event_type":"extractions","application_id":"app-1","ssn":"123-45-6789"}'
JSON: Final = ("Content-Type", "application/json")
LOGIN: Final = ("Authorization", AUTHORIZATION)
HOLDER: Final = CallbackClientCertificate(san=SERVICE)
HERE: Final = CallbackSourceNetworks(["127.0.0.0/8", "::1"])

SERVERS: Final[Mapping[str, Any]] = {
    "aiohttp": served_by_aiohttp,
    "uvicorn": partial(served_by_uvicorn, http="income_client.receivers.uvicorn:H11Protocol"),
}
WITH_CERTIFICATE: Final = frozenset({"/certificate", "/forwarded", "/all"})
"""Paths whose receivers require a client certificate, which uvicorn does not pass on."""


def receivers(on_callback: Callable[[Callback], None]) -> dict[str, CallbackReceiver]:
    """Return a receiver for each way to check, at a time at which good tokens are good."""
    forwarded = CallbackClientCertificate(san=SERVICE, proxy_header="Client-Cert")
    service = CallbackSourceNetworks(["198.51.100.0/24"])
    tokens = CallbackBearerAuth(
        keys=[public_jwk("P-256", 0), public_jwk("P-256", 2)], issuer=ISSUER, audience=AUDIENCE
    )
    checks: dict[str, tuple[CallbackAuth, ...]] = {
        "/basic": (BASIC,),
        "/tokens": (tokens,),
        "/networks": (BASIC, service),
        "/proxied": (BASIC, service),
        "/certificate": (BASIC, HOLDER),
        "/forwarded": (BASIC, forwarded),
        "/all": (BASIC, tokens, HOLDER, HERE),
    }
    return {
        path: CallbackReceiver(
            on_callback,
            auth=auth,
            trusted_proxies=["127.0.0.1" if path == "/proxied" else "10.0.0.1"],
            max_body_bytes=65_536,
            clock=ManualClock(NOW),
        )
        for path, auth in checks.items()
    }


def attacks() -> list[tuple[str, Refusal, list[Field], dict[str, Any]]]:
    """Return path, reason and header fields of each, and what else is not as usual."""

    def login(value: str) -> list[Field]:
        return [("Authorization", value), JSON]

    def bearer(text: str) -> list[Field]:
        return login(f"Bearer {text}")

    def via(*values: str) -> list[Field]:
        return [*(("X-Forwarded-For", value) for value in values), LOGIN, JSON]

    away = {"kid": "P-256-0", "jku": "http://127.0.0.1:1/keys"}
    usual, zipped = [LOGIN, JSON], [LOGIN, JSON, ("Content-Encoding", "gzip")]
    twice, sealed = login(f"{AUTHORIZATION}, {AUTHORIZATION}"), [*usual, ("Client-Cert", ":AAAA:")]
    no: dict[str, Any] = {}
    # fmt: off
    return [
        ("/basic", Refusal.AUTHORIZATION_MISSING, [JSON], no),
        ("/basic", Refusal.AUTHORIZATION_DOUBLED, [LOGIN, LOGIN, JSON], no),
        ("/basic", Refusal.SCHEME_NOT_ACCEPTED, login(""), no),
        ("/basic", Refusal.PASSWORD_WRONG, login("Basic c2VydmljZTpwYXNzd29yZA=="), no),
        ("/basic", Refusal.AUTHORIZATION_UNREADABLE, twice, no),
        ("/basic", Refusal.AUTHORIZATION_UNREADABLE, login("Basic \xff\xfe"), no),
        ("/basic", Refusal.CONTENT_TYPE, [LOGIN, ("Content-Type", "text/plain")], no),
        ("/basic", Refusal.CONTENT_ENCODING, zipped, {"body": gzip.compress(b"0" * 10**6)}),
        ("/basic", Refusal.TOO_LARGE, usual, {"body": b'"' + b"a" * 70_000 + b'"'}),
        ("/basic", Refusal.TOO_LARGE, usual, {"body": b"", "length": 10**12}),
        ("/basic", Refusal.NOT_JSON, usual, {"body": b'{"a":1,"a":2}'}),
        ("/basic", Refusal.METHOD, usual, {"method": "GET"}),
        ("/basic", Refusal.METHOD, usual, {"method": "TRACE"}),
        ("/tokens", Refusal.SCHEME_NOT_ACCEPTED, login(f"Token {token()}"), no),
        ("/tokens", Refusal.TOKEN_SIGNATURE, bearer(token(number=1, header=away)), no),
        ("/tokens", Refusal.TOKEN_KEY_UNKNOWN, bearer(token(header={"kid": "unknown"})), no),
        ("/networks", Refusal.SOURCE_NOT_ALLOWED, usual, no),
        ("/networks", Refusal.SOURCE_NOT_ALLOWED, [JSON], no),
        ("/networks", Refusal.SOURCE_NOT_ALLOWED, via("198.51.100.7"), no),
        ("/proxied", Refusal.SOURCE_NOT_ALLOWED, usual, no),
        ("/proxied", Refusal.SOURCE_NOT_ALLOWED, via("198.51.100.7, 203.0.113.9"), no),
        ("/proxied", Refusal.SOURCE_UNREADABLE, via("198.51.100.7, unknown"), no),
        ("/certificate", Refusal.CERTIFICATE_MISSING, usual, {"holder": None}),
        ("/certificate", Refusal.CERTIFICATE_NOT_PINNED, usual, {"holder": "other.example"}),
        ("/forwarded", Refusal.CERTIFICATE_MISSING, sealed, {"holder": None}),
        ("/all", Refusal.CERTIFICATE_MISSING, usual, {"holder": None}),
        ("/all", Refusal.AUTHORIZATION_MISSING, [JSON], no),
    ]
    # fmt: on


def good_requests() -> list[tuple[str, list[Field]]]:
    later = token(aud=["a", AUDIENCE])
    return [
        ("/basic", [LOGIN, JSON]),
        ("/basic", [LOGIN]),
        ("/tokens", [("authorization", f"bearer  {token(header={'kid': None})}"), JSON]),
        ("/tokens", [("Authorization", f"Bearer {later}"), JSON]),
        ("/proxied", [LOGIN, JSON, ("X-Forwarded-For", "203.0.113.9, 198.51.100.7")]),
        ("/certificate", [LOGIN, JSON]),
        ("/forwarded", [LOGIN, JSON]),
        ("/all", [LOGIN, JSON]),
        ("/all", [("Authorization", f"Bearer {token()}"), JSON]),
    ]


@pytest.mark.parametrize("server", SERVERS)
async def test_attacks_are_refused_and_the_service_passes(
    server: str, papers: Papers, caplog: pytest.LogCaptureFixture
) -> None:
    """No answer says why, no log shows a secret or a body, and no attack fails by chance."""
    caplog.set_level(logging.DEBUG)
    seen: list[Callback] = []
    endpoints = receivers(seen.append)
    holders = {
        "service": papers.client(papers.service()),
        "other.example": papers.client(papers.client_ca.issue_cert("other.example")),
        None: papers.client(),
    }
    context = callback_ssl_context(**papers.files, client_certificates="optional")
    unserved = WITH_CERTIFICATE if server == "uvicorn" else frozenset()
    good = [request for request in good_requests() if request[0] not in unserved]
    async with SERVERS[server](endpoints, context) as url:
        for number, (path, reason, fields, rest) in enumerate(attacks()):
            if path in unserved:
                continue
            named = f"attack {number}, {reason.slug}"
            request = {"body": BODY, "holder": "service", "path": path, "headers": fields} | rest
            counted = endpoints[path].status.refused.get(reason.slug, 0)
            answer = await ring(url, ssl=holders[request.pop("holder")], **request)
            assert answer.status == reason.status, named
            assert endpoints[path].status.refused.get(reason.slug, 0) == counted + 1, named
            assert answer.headers["content-type"] == "application/json", named
            assert list(json.loads(answer.body)) == ["error"], named
        assert seen == []
        for path, fields in good:
            request = {"body": BODY, "path": path, "headers": fields}
            answer = await ring(url, ssl=holders["service"], **request)
            assert (answer.status, answer.body) == (200, b'{"status":"OK"}'), path
    assert [callback.application_id for callback in seen] == ["app-1"] * len(good)
    shown = caplog.text + repr([record.__dict__ for record in caplog.records])
    secrets = (CANARY, PASSWORD, AUTHORIZATION.partition(" ")[2], token())
    assert [secret for secret in secrets if secret in shown] == []


async def test_a_certificate_that_only_uvicorn_has_seen_passes_no_check(papers: Papers) -> None:
    """The service sends its own certificate, verified by uvicorn; each receiver misses it."""
    endpoints = receivers(lambda callback: None)
    context = callback_ssl_context(**papers.files)
    holder = papers.client(papers.service())
    async with SERVERS["uvicorn"](endpoints, context) as url:
        for path in sorted(WITH_CERTIFICATE):
            answer = await ring(url, BODY, ssl=holder, path=path, headers=(LOGIN, JSON))
            assert answer.status == 403
            assert endpoints[path].status.refused == {Refusal.CERTIFICATE_MISSING.slug: 1}


STATUSES: Final = {
    "CUT": 400, "FRAMING": 400, "NOT_JSON": 400, "AUTHORIZATION": 401, "PASSWORD": 401,
    "SCHEME": 401, "TOKEN": 401, "CERTIFICATE": 403, "SOURCE": 403, "METHOD": 405, "TOO_SLOW": 408,
    "TOO_LARGE": 413, "CONTENT": 415, "HANDLER": 503, "KEYS": 503, "QUEUE": 503, "VERIFIER": 503,
    "RECEIVER": 503,
}  # fmt: skip
"""The status of a refusal by what its name begins with."""


def test_the_status_of_each_refusal() -> None:
    """Wrong credentials all look alike from outside; what may be sent again is a 408 or 503."""
    for reason in Refusal:
        (status,) = (STATUSES[begin] for begin in STATUSES if reason.name.startswith(begin))
        assert reason.status == status


async def test_a_callback_wakes_the_poller() -> None:
    """From the service to the record; the clock stands, so that no interval brings it."""
    arrived = asyncio.Queue[str]()

    async def follow(poller: Poller) -> None:
        async for record in poller:
            arrived.put_nowait(record.application_id)

    clock = ManualClock()
    async with (
        Emulator(applications=20, time_flows=True) as service,
        IncomeClient(service.url, auth=service.oauth2, clock=clock) as client,
    ):
        poller = client.poll(MemoryCheckpointStore(), interval=3600.0, settle=0)
        following = asyncio.create_task(follow(poller))
        while not poller.status.polls:  # noqa: ASYNC110 - a first poll has no event
            await asyncio.sleep(0)
        clock.advance(2)  # two polls are at least a second apart
        async with served_by_aiohttp(CallbackReceiver(poller.wake, auth=BASIC)) as url:
            target = CallbackTarget(f"{url}/callbacks", auth=BasicAuth("service", PASSWORD))
            updated = service.world.ids[3]
            assert (await service.fire_callback(updated, update=True, target=target)).delivered
            assert await arrived.get() == updated
        poller.stop()
        await following
