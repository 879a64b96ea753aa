"""What a receiver costs above a bare handler of the same framework, for each authentication."""

from contextlib import ExitStack
from functools import partial
from statistics import median

from .callback_load import callback_bytes
from .callback_scale import CallbackScale
from .callback_servers import CallbackServer, Web
from .callback_timed import Timed, alternated, answered
from .callback_ways import Way, arranged
from .table import Row


async def ring_aiohttp(scale: CallbackScale) -> list[Row]:
    """Compare receivers in aiohttp with a bare handler of aiohttp."""
    return await _compared(Web.AIOHTTP, (), scale)


async def ring_uvicorn(scale: CallbackScale) -> list[Row]:
    """Compare receivers in FastAPI with a bare handler of FastAPI, and with no framework."""
    return await _compared(Web.FASTAPI, (Web.ASGI,), scale)


async def _compared(web: Web, floors: tuple[Web, ...], scale: CallbackScale) -> list[Row]:
    ways = [arranged(way) for way in Way]
    # A bare handler gets what the service sends with Basic, and does not look at it.
    plain = ways[0].headers
    # All are started before the first is waited for.
    bare = [(f"bare {one.value}", CallbackServer(one), plain) for one in (web, *floors)]
    ours = [(one.way.value, CallbackServer(web, one), one.headers) for one in ways]
    with ExitStack() as running:
        kinds = [
            Timed(name, running.enter_context(server), partial(callback_bytes, headers=headers))
            for name, server, headers in (*bare, *ours)
        ]
        await alternated(kinds, scale, requests=scale.requests)
    handlers, receivers = kinds[: len(bare)], kinds[len(bare) :]
    return [
        *(row for one in receivers for row in _rows(web, one, handlers)),
        *(handlers[0].against(f"{web.value}, bare: CPU", floor) for floor in handlers[1:]),
        answered(f"{web.value}:", kinds, 200, len(kinds) * scale.rounds * scale.requests),
    ]


def _rows(web: Web, one: Timed, handlers: list[Timed]) -> list[Row]:
    handler, *floors = handlers
    rates = ", ".join(f"{median(each.rates):,.0f}" for each in (one, handler))
    return [
        one.against(f"{web.value}, {one.name}: CPU", handler),
        *(one.against("  CPU", floor) for floor in floors),
        Row(
            what=f"  requests a second / {handler.name}",
            measured=f"{_rate(one, handler)} ({rates})",
        ),
    ]


def _rate(one: Timed, other: Timed) -> str:
    return f"{median(a / b for a, b in zip(one.rates, other.rates, strict=True)):.2f}"
