# pyright: strict
"""A lender's tests against the emulator; type checkers read them, nobody runs them."""

from collections.abc import Mapping
from datetime import datetime
from typing import assert_type

from income_client import BasicAuth, DownloadPolicy, OAuth2ClientCredentials
from income_client.emulator import (
    CallbackDelivery,
    CallbackTarget,
    Emulator,
    Fault,
    FaultKind,
    Faults,
    FutureBounds,
    HttpReply,
    HttpRequest,
    ListReply,
    Order,
    RecordedRequest,
    Refused,
    Service,
    ServiceRules,
    SpanClamp,
    World,
    list_reply,
    respond,
)
from income_client.testing import JumpingClock


async def plays(clock: JumpingClock, start: datetime) -> None:
    """The whole service on a port of this machine."""
    async with Emulator(
        200,
        seed=3,
        days=30,
        pattern="uniform",
        start=start,
        time_flows=True,
        latency=0.02,
        rules=ServiceRules(order=Order.SHUFFLED, future="refuse"),
        clock=clock,
        callbacks=CallbackTarget("http://127.0.0.1:9000/callbacks", pauses=[1, 2]),
        max_span=3600,
        span_clamp=SpanClamp.BEFORE,
    ) as service:
        assert_type(service, Emulator)
        assert_type(service.url, str)
        assert_type(service.oauth2, OAuth2ClientCredentials)
        assert_type(service.basic, BasicAuth)
        assert_type(service.download_policy, DownloadPolicy)
        assert_type(service.world, World)
        assert_type(service.world.ids, tuple[str, ...])
        assert_type(service.faults, Faults)
        service.faults.add(
            Fault("status", status=503, headers={"Retry-After": "1"}),
            Fault(FaultKind.CUT, path="/documents/*", times=None, keep=10),
        )
        service.faults.clear()
        assert_type(service.touch(service.world.ids[0]), int)
        service.advance(60)
        service.revoke_tokens()
        assert_type(service.requests, list[RecordedRequest])
        assert_type(service.requests[0].headers, Mapping[str, str])
        assert_type(service.token_requests, int)
        assert_type(service.max_in_flight, int)
        delivery = await service.fire_callback(update=True)
        assert_type(delivery, CallbackDelivery)
        assert_type(delivery.attempts, tuple[int | str, ...])
        service.rules = ServiceRules(future=FutureBounds.CLAMP)


def asks_without_a_socket(world: World) -> ListReply | Refused:
    """The service as a function of values."""
    reply = respond(Service(world), HttpRequest(method="GET", path="/v1/income/applications"))
    assert_type(reply, HttpReply)
    assert_type(reply.status, int)
    assert_type(Service(world).respond_file(HttpRequest(method="GET", path="/")), HttpReply)
    return list_reply(world, ServiceRules(), after=0, before=None, limit=1000)
