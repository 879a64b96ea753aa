"""Requests of callbacks without a web server: heads, bodies, and a clock moved by hand."""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final

import msgspec
from attrs import define

from income_client import Callback, CallbackBasicAuth
from income_client.receivers import CallbackReceiver
from income_client.receivers.endpoint import BodyCutError
from income_client.receivers.exchange import Answer, RequestHead

PASSWORD: Final = "invented-password-of-the-service"
BASIC: Final = CallbackBasicAuth("service", PASSWORD)
AUTHORIZATION: Final = "Basic " + base64.b64encode(f"service:{PASSWORD}".encode()).decode()
EVENT: Final = {
    "event_type": "income_calculations",
    "application_id": "app-000001",
    "application_reference_id": "loan-1",
}


@define
class HandClock:
    """A clock that is moved by hand."""

    seconds: float = 1_782_820_800.0

    def time(self) -> float:
        """Return seconds since 1970."""
        return self.seconds

    def monotonic(self) -> float:
        """Return seconds since some fixed moment."""
        return self.seconds


class Heard:
    """An ``on_callback`` that remembers."""

    def __init__(self) -> None:
        self.callbacks: list[Callback] = []

    def __call__(self, callback: Callback) -> None:
        """Take one."""
        self.callbacks.append(callback)


def ring_head(
    authorization: str | None = AUTHORIZATION,
    *,
    method: str = "POST",
    content_type: str | None = "application/json",
    **fields: str,
) -> RequestHead:
    """Return the head of a callback; underscores in names of fields stand for hyphens."""
    named = {"Authorization": authorization, "Content-Type": content_type}
    named |= {name.replace("_", "-"): value for name, value in fields.items()}
    headers = tuple(
        (name.encode(), value.encode("latin-1"))
        for name, value in named.items()
        if value is not None
    )
    return RequestHead(method=method, headers=headers, peer="198.51.100.7")


async def chunks_of(*chunks: bytes, is_cut: bool = False) -> AsyncIterator[bytes]:
    """Yield a body in pieces."""
    for chunk in chunks:
        yield chunk
    if is_cut:
        raise BodyCutError


async def ring(
    receiver: CallbackReceiver,
    payload: Any = EVENT,
    head: RequestHead | None = None,
    chunks: Iterable[bytes] | None = None,
) -> Answer:
    """Send a callback, and return the answer."""
    pieces = [msgspec.json.encode(payload)] if chunks is None else chunks
    return await receiver.answer(head or ring_head(), chunks_of(*pieces))


async def until_waiting(receiver: CallbackReceiver, callbacks: int) -> None:
    """Return once so many callbacks are being handled or wait for their turn."""
    for _ in range(10_000):
        if receiver.status.waiting >= callbacks:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"only {receiver.status.waiting} callbacks are waiting")
