"""Tokens of unknown keys by the thousand: what they have a receiver fetch, and what each costs."""

import asyncio
import base64
import contextlib
import time
from collections.abc import AsyncIterator
from functools import partial
from math import ceil
from typing import Final

import orjson
from attrs import define, evolve

from .callback_load import callback_bytes
from .callback_scale import CallbackScale
from .callback_servers import CallbackServer, Web
from .callback_timed import Timed, alternated, answered
from .callback_ways import Arranged, Way, arranged
from .table import Row, at_most

_FETCH_EVERY: Final = 30.0
_ELSEWHERE: Final = 10_000_000
_ALONE: Final = ("Connection", "close")


@define
class _KeyHost:
    """The address of a key set, on bare sockets; counts who asks."""

    body: bytes
    fetches: int = 0

    @contextlib.asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        """Serve until the block is left; yields the address."""
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/keys"

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.fetches += 1
        head = (
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(self.body)}\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode() + self.body)
        await writer.drain()
        writer.close()


async def flood(scale: CallbackScale) -> list[Row]:
    """Send tokens whose key ids nobody knows, each another one, and good ones in turns."""
    good = arranged(Way.RS256)
    host = _KeyHost(orjson.dumps({"keys": [good.key]}))
    each = ceil(scale.flood / scale.rounds)
    async with host.served() as jwks_url:
        with CallbackServer(Web.AIOHTTP, evolve(good, key=None, jwks_url=jwks_url)) as server:
            # A refused body is not read, so that each refusal takes a connection along.
            forged = Timed("a refusal", server, partial(_forged, good))
            kept = Timed("a good one, connection kept", server, _keeping(good))
            alone = Timed("a good one, alone on its connection", server, partial(_closing, good))
            began = time.monotonic()
            await alternated((forged, kept, alone), scale, requests=each)
            seconds = time.monotonic() - began
            refused = server.refused()
    sent = each * scale.rounds
    most = 1 + int(seconds / _FETCH_EVERY)
    return [
        at_most(
            f"key sets fetched for {sent:,} tokens of unknown keys",
            host.fetches,
            most,
            shown=f"{host.fetches} in {seconds:.1f} s",
        ),
        forged.against("  CPU of a refusal", alone),
        forged.against("  CPU of a refusal", kept),
        Row(what="  refusals: answered with 200", measured=f"{forged.statuses[200]:,} of {sent:,}"),
        answered("  good ones:", (kept, alone), 200, 2 * sent),
        Row(what="  reasons for refusals", measured=", ".join(sorted(refused))),
    ]


def _forged(good: Arranged, number: int) -> bytes:
    """Return a callback whose token names a key of its own, and is signed by nobody."""
    header = {"alg": "RS256", "typ": "at+jwt", "kid": f"unknown-{number}"}
    encoded = base64.urlsafe_b64encode(orjson.dumps(header)).rstrip(b"=").decode()
    [(name, authorization)] = good.headers
    _, _, rest = authorization.partition(".")
    return callback_bytes(number, [(name, f"Bearer {encoded}.{rest}")])


def _keeping(good: Arranged) -> "partial[bytes]":
    return partial(callback_bytes, headers=good.headers)


def _closing(good: Arranged, number: int) -> bytes:
    # Elsewhere than those of the others, so that none is a repeat.
    return callback_bytes(_ELSEWHERE + number, [*good.headers, _ALONE])
