"""A callback of the service wakes the poller, whatever it is authenticated by.

The poller's clock is moved by two seconds only, and its interval is an hour: a record
comes because it was woken, or the test ends by its time limit.
"""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final, Literal

import pytest
from attrs import frozen

from income_client import (
    BasicAuth,
    Callback,
    CallbackBasicAuth,
    CallbackClientCertificate,
    CallbackSourceNetworks,
    CallbackTokenIssuer,
    IncomeClient,
    MemoryCheckpointStore,
    OAuth2ClientCredentials,
    Poller,
)
from income_client.emulator import CallbackTarget, Emulator
from income_client.receivers import CallbackReceiver
from income_client.receivers.asgi import Receiver
from income_client.receivers.auth import CallbackAuth
from tests.support.callback_certificates import SERVICE, Papers
from tests.support.callback_doors import Server, client_context, server_context
from tests.support.callback_servers import served_by_aiohttp, served_by_uvicorn

HOUR: Final = 3600.0
USER: Final = BasicAuth("service", "invented-password")
BUYER: Final = OAuth2ClientCredentials("service", "invented-secret-of-the-service-00")
ISSUER: Final = CallbackTokenIssuer(BUYER.client_id, BUYER.client_secret)
BASIC: Final = CallbackBasicAuth(USER.username, USER.password)
HOLDER: Final = CallbackClientCertificate(san=SERVICE)
HERE: Final = CallbackSourceNetworks(["127.0.0.1", "::1"])
Method = Literal["basic", "oauth", "mtls", "basic and all else", "oauth and all else"]


@frozen(kw_only=True)
class Way:
    """How the partner checks, and what the service was given for it."""

    auth: tuple[CallbackAuth, ...]
    """What the receiver checks."""
    sent: BasicAuth | OAuth2ClientCredentials | None = None
    """What the service authenticates with, its certificate aside."""


WAYS: Final[Mapping[Method, Way]] = {
    "basic": Way(auth=(BASIC,), sent=USER),
    "oauth": Way(auth=(ISSUER.auth,), sent=BUYER),
    "mtls": Way(auth=(HOLDER,)),
    "basic and all else": Way(auth=(BASIC, ISSUER.auth, HOLDER, HERE), sent=USER),
    "oauth and all else": Way(auth=(BASIC, ISSUER.auth, HOLDER, HERE), sent=BUYER),
}


class StandingClock:
    """A clock on which nobody wakes by himself, and time is moved by hand."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        """Return seconds since some fixed moment."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move it."""
        self._now += seconds

    async def sleep(self, seconds: float) -> None:
        """Wait until somebody else ends it."""
        if seconds > 0:
            await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def served(
    server: Server, receiver: CallbackReceiver, tls: ssl.SSLContext
) -> AsyncIterator[str]:
    """Serve a receiver and the issuer's token endpoint; yields the base address."""
    if server == "uvicorn":
        app = {"/callbacks": Receiver(receiver), "/token": Receiver(ISSUER)}
        protocol = "income_client.receivers.uvicorn:HttpToolsProtocol"
        async with served_by_uvicorn(app, tls, http=protocol) as url:
            yield url
        return
    async with served_by_aiohttp({"/callbacks": receiver, "/token": ISSUER}, tls) as url:
        yield url


@contextlib.asynccontextmanager
async def polling(service: Emulator, seen: Callable[[str], None]) -> AsyncIterator[Poller]:
    """Poll from the present on, once an hour."""

    async def follow(poller: Poller) -> None:
        async for record in poller:
            seen(record.application_id)

    clock = StandingClock()
    async with IncomeClient(service.url, auth=service.oauth2, clock=clock) as client:
        poller = client.poll(MemoryCheckpointStore(), interval=HOUR, settle=0)
        task = asyncio.create_task(follow(poller))
        while not poller.status.polls:  # noqa: ASYNC110 - nothing tells of a first poll
            await asyncio.sleep(0)
        # Two polls are a second apart at the least.
        clock.advance(2)
        yield poller
        poller.stop()
        await task


@pytest.mark.parametrize("server", ["aiohttp", "uvicorn"])
@pytest.mark.parametrize("method", WAYS)
async def test_a_callback_wakes_the_poller(server: Server, method: Method, papers: Papers) -> None:
    """Each method alone, and all that go together."""
    way, arrived = WAYS[method], asyncio.Queue[str]()
    async with (
        Emulator(applications=20, time_flows=True) as service,
        polling(service, arrived.put_nowait) as poller,
    ):
        receiver = CallbackReceiver(poller.wake, auth=way.auth)
        async with served(server, receiver, server_context(papers)) as url:
            is_oauth = isinstance(way.sent, OAuth2ClientCredentials)
            service.callbacks = CallbackTarget(
                f"{url}/callbacks",
                auth=way.sent,
                token_url=f"{url}/token" if is_oauth else None,
                ssl=client_context(papers, "service"),
            )
            updated = service.world.ids[3]
            delivery = await service.fire_callback(updated, update=True)
            assert (delivery.delivered, delivery.attempts) == (True, (200,))
            assert await arrived.get() == updated


async def test_what_fails_is_sent_again(papers: Papers) -> None:
    """503 for as long as on_callback fails, and the service's pauses in between."""
    outcomes = [ValueError(), ValueError(), None]

    def handle(_callback: object) -> None:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome

    receiver = CallbackReceiver(handle, auth=BASIC)
    async with (
        Emulator(applications=1) as service,
        served("aiohttp", receiver, server_context(papers)) as url,
    ):
        target = CallbackTarget(
            f"{url}/callbacks", auth=USER, ssl=client_context(papers, None), pauses=(0, 0, 0)
        )
        delivery = await service.fire_callback(target=target)
    assert delivery.attempts == (503, 503, 200)
    assert receiver.status.handled == 1


async def test_numbers_keep_every_digit(papers: Papers) -> None:
    """Integers of any size in a payload, between the emulator and ``on_callback``."""
    payload: dict[str, Any] = {
        "beyond": 2**64,
        "below": -(2**63) - 1,
        "inner": [{"digits": int("9" * 60)}, 0.25, "18446744073709551616", None, True],
    }
    came: list[Callback] = []
    receiver = CallbackReceiver(came.append, auth=BASIC)
    async with (
        Emulator(applications=1) as service,
        served("aiohttp", receiver, server_context(papers)) as url,
    ):
        target = CallbackTarget(f"{url}/callbacks", auth=USER, ssl=client_context(papers, None))
        for body in (payload, json.dumps(payload, indent=2).encode()):
            await service.fire_callback(payload=body, target=target)
    assert [callback.payload for callback in came] == [payload, payload]
    assert type(came[0].payload["beyond"]) is int
