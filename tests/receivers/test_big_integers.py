"""Integers of any size in the payload of a callback, whoever sends, reads or hands it on."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from income_client import Callback, CallbackBasicAuth, ConfigurationError
from income_client.emulator import CallbackTarget, Emulator
from income_client.receivers import CallbackReceiver
from income_client.receivers.aiohttp import routes
from income_client.receivers.aiohttp_server import serving
from income_client.testing import make_application
from tests.support.listening import BASIC

BIG: dict[str, Any] = {
    "first_beyond": 2**64,
    "last_below": 2**64 - 1,
    "negative": -(2**63) - 1,
    "digits": int("9" * 60),
    "inner": [{"deeper": 10**30 + 1}, 0.25, -7, "18446744073709551616", None, True],
}


@pytest.fixture
async def service() -> AsyncIterator[Emulator]:
    """What sends callbacks."""
    async with Emulator(1) as emulator:
        yield emulator


async def received(stack: AsyncExitStack) -> tuple[str, list[Callback]]:
    """Serve a receiver, and return its address and what comes there."""
    came: list[Callback] = []

    async def take(callback: Callback) -> None:
        came.append(callback)

    auth = CallbackBasicAuth(BASIC.username, BASIC.password)
    receiver = CallbackReceiver(take, auth=auth)
    server = serving(routes(receiver, "/callbacks"), host="127.0.0.1", port=0)
    url = await stack.enter_async_context(server)
    return f"{url}/callbacks", came


@pytest.mark.parametrize("indent", [None, 2], ids=["compact", "indented"])
async def test_a_receiver_keeps_every_digit(service: Emulator, indent: int | None) -> None:
    """However the service writes its JSON."""
    async with AsyncExitStack() as stack:
        url, came = await received(stack)
        target = CallbackTarget(url, auth=BASIC, pauses=())
        body = json.dumps(BIG, indent=indent).encode()
        assert (await service.fire_callback(payload=body, target=target)).delivered
    (callback,) = came
    assert callback.payload == BIG
    assert type(callback.payload["first_beyond"]) is int


async def test_an_emulator_sends_every_digit(service: Emulator) -> None:
    """A payload is given as values, and arrives as they are."""
    async with AsyncExitStack() as stack:
        url, came = await received(stack)
        target = CallbackTarget(url, auth=BASIC, pauses=())
        assert (await service.fire_callback(payload=BIG, target=target)).delivered
    assert came[0].payload == BIG


async def test_what_json_cannot_hold_stays_refused(service: Emulator) -> None:
    """Records, sets and infinities are no payload."""
    target = CallbackTarget("http://127.0.0.1:9/", pauses=())
    endless: list[Any] = []
    endless.append(endless)
    for payload in (make_application(), {1, 2}, {"n": 2**64, "x": float("inf")}, endless):
        with pytest.raises(ConfigurationError, match="what JSON can hold"):
            await service.fire_callback(payload=payload, target=target)
