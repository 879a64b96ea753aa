"""Over real TLS sockets: attacks are refused, and the service's callbacks wake the poller."""

import asyncio
import contextlib
import gzip
import hmac
import json
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from decimal import Decimal
from functools import cache, partial
from typing import Any, Final, Literal

import pytest

from income_client import (
    BasicAuth,
    Callback,
    CallbackBasicAuth,
    CallbackBearerAuth,
    CallbackClientCertificate,
    CallbackSourceNetworks,
    CallbackTokenIssuer,
    IncomeClient,
    MemoryCheckpointStore,
    OAuth2ClientCredentials,
    Poller,
)
from income_client.emulator import CallbackTarget, Emulator
from income_client.receivers import CallbackReceiver, callback_ssl_context
from income_client.receivers.auth import CallbackAuth
from income_client.receivers.exchange import Refusal
from tests.support.callback_certificates import SERVICE, Papers
from tests.support.callbacks import (
    AUTHORIZATION,
    BASIC,
    PASSWORD,
    HandClock,
    ring,
    served_by_aiohttp,
    served_by_uvicorn,
)
from tests.support.signed_tokens import (
    AUDIENCE,
    CLAIMS,
    ISSUER,
    NOW,
    public_jwk,
    public_pem,
    segment,
    token,
)

Server = Literal["aiohttp", "uvicorn"]
Field = tuple[str, str]

CANARY: Final = "123-45-6789"
BODY: Final = b'{"event_type":"extractions","application_id":"app-1","ssn":"123-45-6789"}'
JSON: Final = ("Content-Type", "application/json")
LOGIN: Final = ("Authorization", AUTHORIZATION)
HOLDER: Final = CallbackClientCertificate(san=SERVICE)
HERE: Final = CallbackSourceNetworks(["127.0.0.0/8", "::1"])


@cache
def server_context(papers: Papers) -> ssl.SSLContext:
    """Return the endpoint's side, which asks for a certificate and needs none."""
    return callback_ssl_context(**papers.files, client_certificates="optional")


@cache
def client_context(papers: Papers, holder: str | None) -> ssl.SSLContext:
    """Return the sender's side, with a certificate or without one."""
    match holder:
        case None:
            return papers.client()
        case "service":
            return papers.client(papers.service())
        case _:
            return papers.client(papers.client_ca.issue_cert(holder))


@contextlib.asynccontextmanager
async def served(
    server: Server, endpoints: Mapping[str, Any], tls: ssl.SSLContext
) -> AsyncIterator[str]:
    """Serve endpoints by path with either server, and yield the base address."""
    protocol = "income_client.receivers.uvicorn:H11Protocol"
    serving = (
        served_by_aiohttp(endpoints, tls)
        if server == "aiohttp"
        else served_by_uvicorn(endpoints, tls, http=protocol)
    )
    async with serving as url:
        yield url


def receivers(on_callback: Callable[[Callback], None]) -> dict[str, CallbackReceiver]:
    """Return a receiver for each way to check, at a time at which good tokens are good."""
    forwarded = CallbackClientCertificate(san=SERVICE, proxy_header="Client-Cert")
    service = CallbackSourceNetworks(["198.51.100.0/24"])
    tokens = CallbackBearerAuth(
        keys=[public_jwk("RSA", 0), public_jwk("RSA", 2)], issuer=ISSUER, audience=AUDIENCE
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
            clock=HandClock(NOW),
        )
        for path, auth in checks.items()
    }


def _signed(number: int = 0, header: Mapping[str, Any] | None = None, **claims: Any) -> str:
    return token("RS256", number=number, header=header, **claims)


def _unsigned() -> str:
    return f"{segment({'alg': 'none', 'typ': 'JWT'})}.{segment(dict(CLAIMS))}."


def _signed_with_the_public_key() -> str:
    message = f"{segment({'alg': 'HS256', 'typ': 'JWT'})}.{segment(dict(CLAIMS))}"
    return f"{message}.{segment(hmac.digest(public_pem('RSA'), message.encode(), 'sha256'))}"


def _altered() -> str:
    header, _, signature = _signed().split(".")
    return f"{header}.{segment({**CLAIMS, 'exp': NOW + 9_999})}.{signature}"


OTHER: Final = ("Authorization", f"Token {_signed()}")
LOGINS: Final = {
    Refusal.SCHEME_NOT_ACCEPTED: ("", "Bearer x"),
    Refusal.PASSWORD_WRONG: ("Basic", "Basic c2VydmljZTpwYXNzd29yZA=="),
    Refusal.AUTHORIZATION_UNREADABLE: (
        f"Basic service:{PASSWORD}",
        f"{AUTHORIZATION}, {AUTHORIZATION}",
        "Basic \xff\xfe",
    ),
}
FORGED: Final = {"kid": "RSA-0"}
TOKENS: Final[Mapping[Refusal, tuple[Callable[[], str], ...]]] = {
    Refusal.TOKEN_UNREADABLE: (str, lambda: "opaque", _unsigned),
    Refusal.TOKEN_ALGORITHM: (_signed_with_the_public_key,),
    Refusal.TOKEN_SIGNATURE: (
        _altered,
        partial(_signed, 1, FORGED),
        partial(_signed, 1, {**FORGED, "jku": "http://127.0.0.1:1/keys"}),
    ),
    Refusal.TOKEN_KEY_UNKNOWN: (partial(_signed, 0, {"kid": "unknown"}),),
    Refusal.TOKEN_OUT_OF_TIME: (partial(_signed, exp=NOW - 61),),
    Refusal.TOKEN_CLAIMS: (partial(_signed, exp=None),),
    Refusal.TOKEN_AUDIENCE: (partial(_signed, aud="payments"),),
    Refusal.TOKEN_ISSUER: (partial(_signed, iss="https://x.test/"),),
}
BODIES: Final[tuple[tuple[Refusal, bytes, dict[str, Any]], ...]] = (
    (Refusal.CONTENT_TYPE, BODY, {"headers": (LOGIN, ("Content-Type", "text/plain"))}),
    (
        Refusal.CONTENT_ENCODING,
        gzip.compress(b"0" * 10**6),
        {"headers": (LOGIN, JSON, ("Content-Encoding", "gzip"))},
    ),
    (Refusal.TOO_LARGE, b'"' + b"a" * 70_000 + b'"', {}),
    (Refusal.TOO_LARGE, b"", {"length": 10**12}),
    (Refusal.NOT_JSON, b'{"a":1,"a":2}', {}),
    (Refusal.METHOD, BODY, {"method": "GET"}),
    (Refusal.METHOD, BODY, {"method": "TRACE"}),
)
SOURCES: Final = (
    ("/networks", Refusal.SOURCE_NOT_ALLOWED, ()),
    ("/networks", Refusal.SOURCE_NOT_ALLOWED, ("198.51.100.7",)),
    ("/proxied", Refusal.SOURCE_NOT_ALLOWED, ()),
    ("/proxied", Refusal.SOURCE_NOT_ALLOWED, ("198.51.100.7, 203.0.113.9",)),
    ("/proxied", Refusal.SOURCE_UNREADABLE, ("198.51.100.7, unknown",)),
)
CERTIFICATES: Final = (
    ("/certificate", Refusal.CERTIFICATE_MISSING, None, (LOGIN,)),
    ("/certificate", Refusal.CERTIFICATE_NOT_PINNED, "other.example", (LOGIN,)),
    ("/forwarded", Refusal.CERTIFICATE_MISSING, None, (LOGIN, ("Client-Cert", ":AAAA:"))),
    ("/all", Refusal.CERTIFICATE_MISSING, None, (LOGIN,)),
    ("/all", Refusal.AUTHORIZATION_MISSING, "service", ()),
)


def _attacks() -> list[Any]:
    """Return path, reason, body, header fields or what makes them, holder and the rest."""
    found: list[tuple[Any, ...]] = [
        ("/basic", Refusal.AUTHORIZATION_MISSING, BODY, (JSON,), "service", {}),
        ("/basic", Refusal.AUTHORIZATION_DOUBLED, BODY, (LOGIN, LOGIN, JSON), "service", {}),
        ("/tokens", Refusal.SCHEME_NOT_ACCEPTED, BODY, (OTHER, JSON), "service", {}),
    ]
    fields: tuple[Field, ...]
    for reason, values in LOGINS.items():
        for value in values:
            fields = (("Authorization", value), JSON)
            found.append(("/basic", reason, BODY, fields, "service", {}))
    for reason, makers in TOKENS.items():
        found += [("/tokens", reason, BODY, partial(_bearer, one), None, {}) for one in makers]
    for reason, body, rest in BODIES:
        found.append(("/basic", reason, body, (LOGIN, JSON), "service", rest))
    for path, reason, forwarded in SOURCES:
        fields = (*(("X-Forwarded-For", value) for value in forwarded), LOGIN, JSON)
        found.append((path, reason, BODY, fields, "service", {}))
    for path, reason, holder, own in CERTIFICATES:
        found.append((path, reason, BODY, (*own, JSON), holder, {}))
    return [pytest.param(*one, id=f"{n}-{one[1].slug}") for n, one in enumerate(found)]


def _bearer(make: Callable[[], str]) -> tuple[Field, ...]:
    return (("Authorization", f"Bearer {make()}"), JSON)


def test_the_status_of_each_refusal() -> None:
    """Wrong credentials all look alike from outside; what may be sent again is a 408 or 503."""
    by_status = {
        400: "CUT_SHORT FRAMING NOT_JSON",
        401: "AUTHORIZATION_DOUBLED AUTHORIZATION_MISSING AUTHORIZATION_UNREADABLE PASSWORD_WRONG "
        "SCHEME_NOT_ACCEPTED TOKEN_ALGORITHM TOKEN_AUDIENCE TOKEN_CLAIMS TOKEN_ISSUER "
        "TOKEN_KEY_UNKNOWN TOKEN_OUT_OF_TIME TOKEN_REFUSED TOKEN_SIGNATURE TOKEN_UNREADABLE",
        403: "CERTIFICATE_MISSING CERTIFICATE_NOT_PINNED CERTIFICATE_NOT_VERIFIED "
        "CERTIFICATE_OUT_OF_TIME CERTIFICATE_UNREADABLE SOURCE_NOT_ALLOWED SOURCE_REWRITTEN "
        "SOURCE_UNKNOWN SOURCE_UNREADABLE",
        405: "METHOD",
        408: "TOO_SLOW",
        413: "TOO_LARGE",
        415: "CONTENT_ENCODING CONTENT_TYPE",
        503: "HANDLER_FAILED HANDLER_SLOW KEYS_UNAVAILABLE QUEUE_FULL VERIFIER_FAILED",
    }
    found: dict[int, list[str]] = {}
    for reason in Refusal:
        found.setdefault(reason.status, []).append(reason.name)
    assert {status: " ".join(sorted(names)) for status, names in found.items()} == by_status


@pytest.mark.parametrize("server", ["aiohttp", "uvicorn"])
@pytest.mark.parametrize(("path", "reason", "body", "fields", "holder", "rest"), _attacks())
async def test_an_attack_is_refused(
    server: Server,
    path: str,
    reason: Refusal,
    body: bytes,
    fields: Any,
    holder: str | None,
    rest: dict[str, Any],
    papers: Papers,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The answer does not say why; no log shows a secret or a body."""
    caplog.set_level(logging.DEBUG)
    seen: list[Callback] = []
    endpoints = receivers(seen.append)
    request = {"path": path, "headers": fields() if callable(fields) else fields} | rest
    async with served(server, endpoints, server_context(papers)) as url:
        answer = await ring(url, body, ssl=client_context(papers, holder), **request)
    assert answer.status == reason.status
    assert endpoints[path].status.refused == {reason.slug: 1}
    assert answer.headers["content-type"] == "application/json"
    assert list(json.loads(answer.body)) == ["error"]
    assert seen == []
    shown = caplog.text + repr([record.__dict__ for record in caplog.records])
    secrets = (CANARY, PASSWORD, AUTHORIZATION.partition(" ")[2], _signed())
    assert [secret for secret in secrets if secret in shown] == []


@pytest.mark.parametrize("server", ["aiohttp", "uvicorn"])
@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/basic", (LOGIN, JSON)),
        ("/basic", (LOGIN,)),
        ("/tokens", (("authorization", f"bearer {_signed(header={'kid': None})}"), JSON)),
        ("/tokens", (("Authorization", f"Bearer {_signed(aud=['a', AUDIENCE])}"), JSON)),
        ("/proxied", (LOGIN, JSON, ("X-Forwarded-For", "203.0.113.9, 198.51.100.7"))),
        ("/certificate", (LOGIN, JSON)),
        ("/forwarded", (LOGIN, JSON)),
        ("/all", (LOGIN, JSON)),
        ("/all", (("Authorization", f"Bearer {_signed()}"), JSON)),
    ],
)
async def test_the_service_passes(
    server: Server, path: str, fields: tuple[Field, ...], papers: Papers
) -> None:
    """So none of the attacks fails for a wrong reason."""
    seen: list[Callback] = []
    async with served(server, receivers(seen.append), server_context(papers)) as url:
        context = client_context(papers, "service")
        answer = await ring(url, BODY, ssl=context, path=path, headers=fields)
    assert (answer.status, answer.body) == (200, b'{"status":"OK"}')
    assert [callback.application_id for callback in seen] == ["app-1"]


USER: Final = BasicAuth("service", PASSWORD)
CLIENT: Final = OAuth2ClientCredentials("service", "invented-secret-of-the-service-00")
TOKENS_OF_OURS: Final = CallbackTokenIssuer(CLIENT.client_id, CLIENT.client_secret)


class StandingClock:
    """A clock that is moved by hand, on which no sleep ends."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        """Return seconds since some fixed moment."""
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        """Wait until cancelled."""
        if seconds > 0:
            await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def polling(service: Emulator, seen: Callable[[str], None]) -> AsyncIterator[Poller]:
    """Poll once an hour of a stopped clock: a record comes because the poller was woken."""

    async def follow(poller: Poller) -> None:
        async for record in poller:
            seen(record.application_id)

    clock = StandingClock()
    async with IncomeClient(service.url, auth=service.oauth2, clock=clock) as client:
        poller = client.poll(MemoryCheckpointStore(), interval=3600.0, settle=0)
        task = asyncio.create_task(follow(poller))
        while not poller.status.polls:  # noqa: ASYNC110 - a first poll has no event
            await asyncio.sleep(0)
        clock.seconds += 2  # two polls are at least a second apart
        yield poller
        poller.stop()
        await task


@pytest.mark.parametrize(
    ("server", "auth", "sent"),
    [
        pytest.param("aiohttp", (BASIC,), USER, id="basic"),
        pytest.param("uvicorn", (TOKENS_OF_OURS.auth,), CLIENT, id="tokens"),
        pytest.param("aiohttp", (HOLDER,), None, id="certificate"),
        pytest.param("uvicorn", (BASIC, TOKENS_OF_OURS.auth, HOLDER, HERE), USER, id="all, basic"),
        pytest.param(
            "aiohttp", (BASIC, TOKENS_OF_OURS.auth, HOLDER, HERE), CLIENT, id="all, tokens"
        ),
    ],
)
async def test_a_callback_wakes_the_poller(
    server: Server,
    auth: tuple[CallbackAuth, ...],
    sent: BasicAuth | OAuth2ClientCredentials | None,
    papers: Papers,
) -> None:
    """From the emulator through each check to the record."""
    arrived = asyncio.Queue[str]()
    async with (
        Emulator(applications=20, time_flows=True) as service,
        polling(service, arrived.put_nowait) as poller,
    ):
        endpoints = {
            "/callbacks": CallbackReceiver(poller.wake, auth=auth),
            "/token": TOKENS_OF_OURS,
        }
        async with served(server, endpoints, server_context(papers)) as url:
            service.callbacks = CallbackTarget(
                f"{url}/callbacks",
                auth=sent,
                token_url=f"{url}/token" if sent is CLIENT else None,
                ssl=client_context(papers, "service"),
            )
            updated = service.world.ids[3]
            delivery = await service.fire_callback(updated, update=True)
            assert (delivery.delivered, delivery.attempts) == (True, (200,))
            assert await arrived.get() == updated


async def test_numbers_keep_every_digit() -> None:
    """Between the emulator and ``on_callback``, integers may have any size; fractions are exact."""
    payload: dict[str, Any] = {
        "beyond": 2**64,
        "below": -(2**63) - 1,
        "inner": [{"digits": int("9" * 60)}, 0.25, "18446744073709551616", None, True],
    }
    came: list[Callback] = []
    receiver = CallbackReceiver(came.append, auth=CallbackBasicAuth("service", PASSWORD))
    async with Emulator(applications=1) as service, served_by_aiohttp(receiver) as url:
        target = CallbackTarget(f"{url}/callbacks", auth=USER)
        for body in (payload, json.dumps(payload, indent=2).encode()):
            await service.fire_callback(payload=body, target=target)
    assert [callback.payload for callback in came] == [payload, payload]
    assert type(came[0].payload["beyond"]) is int
    assert type(came[0].payload["inner"][1]) is Decimal
