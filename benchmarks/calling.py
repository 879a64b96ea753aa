"""What one call costs: ``python -m benchmarks.calling [row ...] [--quick]``.

Small calls beside bare aiohttp that decodes as the client does, calls of usual
size beside httpx with pydantic, a crowd without a token, and the import. Nothing
is asserted here: the table says what was measured, what the goal is, and whether
it is met. Without uvloop; the service answers fixed bytes from another process.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from statistics import median, quantiles
from typing import Any, Final, TypeAlias

from attrs import frozen

from income_client import IncomeClient, RetryPolicy

from .calling_imports import imports
from .calling_peers import BareClient, HttpxClient, ParsingClient
from .calling_scale import FULL, QUICK, CallScale
from .calling_server import SMALL, FixedService
from .calling_timed import Timed, alternate, name_of, time_of
from .command import run_afresh
from .table import Row, at_most

Measurement: TypeAlias = Callable[[CallScale], Coroutine[Any, Any, list[Row]]]
_Client: TypeAlias = IncomeClient | BareClient | HttpxClient

_IN_FLIGHT: Final = 16
_LATEST: Final = "2024-02-01T00:00:00"
_SMALL: Final = "small application"
_TO_PARSING: Final = "CPU / aiohttp and orjson.loads alone"
_NOISE: Final = 0.02
_ONCE: Final = RetryPolicy(max_attempts=1)


async def small_calls(scale: CallScale) -> list[Row]:
    """Compare small calls with bare aiohttp, and with a client that never retries."""
    with FixedService() as service:
        url = service.url + SMALL
        async with (
            BareClient(url) as bare,
            ParsingClient(url) as parsing,
            IncomeClient(url, auth=service.oauth2) as ours,
            IncomeClient(url, auth=service.oauth2, retry=_ONCE) as once,
        ):
            kinds = {
                "bare": _application(bare),
                "bare again": _application(bare),
                "parsing": _application(parsing),
                "ours": _application(ours),
                "ours again": _application(ours),
                "once": _application(once),
                "bare page": _page(bare, 1),
                "our page": _page(ours, 1),
            }
            timed = {name: Timed(name, call, in_flight=_IN_FLIGHT) for name, call in kinds.items()}
            await alternate(list(timed.values()), rounds=scale.rounds, calls=scale.calls)
            alone = {name: Timed(name, kinds[name], in_flight=1) for name in ("ours", "parsing")}
            await alternate(list(alone.values()), rounds=scale.rounds, calls=scale.calls)
    return [
        _compared(f"{_SMALL}, 1 in flight: {_TO_PARSING}", alone, "ours", "parsing", 1.05),
        _compared(f"{_SMALL}, 16 in flight: {_TO_PARSING}", timed, "ours", "parsing", 1.12),
        _compared(f"{_SMALL}, 16 in flight: CPU / bare aiohttp", timed, "ours", "bare", 1.12),
        _compared("  control: bare aiohttp against itself", timed, "bare again", "bare"),
        _compared(
            "small page with a query: CPU / bare aiohttp", timed, "our page", "bare page", 1.25
        ),
        _idle(timed["ours"].ratios(timed["once"]), timed["ours again"].ratios(timed["ours"])),
    ]


def _idle(armed: Sequence[float], control: Sequence[float]) -> Row:
    quartiles = quantiles(control, n=4) if len(control) > 1 else [1.0, 1.0, 1.0]
    noise = max(_NOISE, (quartiles[2] - quartiles[0]) / 2)
    return at_most(
        "retries armed but idle: CPU / the same client without retrying (goal: within noise)",
        median(armed),
        round(1 + noise, 3),
        rounds=len(armed),
    )


async def usual_calls(scale: CallScale) -> list[Row]:
    """Compare calls of usual size with httpx and pydantic, one and many in flight."""
    rows: list[Row] = []
    with FixedService() as service:
        async with (
            HttpxClient(service.url) as httpx,
            BareClient(service.url) as bare,
            IncomeClient(service.url, auth=service.oauth2) as ours,
        ):
            clients: dict[str, _Client] = {"httpx": httpx, "bare": bare, "ours": ours}
            for what, (make, goal) in _JOBS.items():
                for in_flight in (1, _IN_FLIGHT):
                    timed = {
                        name: Timed(name, make(client), in_flight=in_flight)
                        for name, client in clients.items()
                    }
                    kinds = list(timed.values())
                    await alternate(kinds, rounds=scale.rounds, calls=scale.large_calls)
                    title = f"{what}, {in_flight} in flight: CPU / "
                    # httpx is at its best with one in flight.
                    bound = goal if in_flight == 1 else None
                    rows += [
                        _compared(f"{title}httpx, pydantic", timed, "ours", "httpx", bound),
                        _compared("  CPU / bare aiohttp", timed, "ours", "bare"),
                    ]
    return rows


@frozen(kw_only=True)
class _Crowd:
    slowest: float
    tokens: int


async def first_calls(scale: CallScale) -> list[Row]:
    """Time the slowest of many calls at once, without a token and with one."""
    cold: list[_Crowd] = []
    warm: list[_Crowd] = []
    rounds = min(scale.rounds, 7)
    with FixedService() as service:
        for _ in range(rounds):
            cold.append(await _crowd(service, scale.first_calls, is_warm=False))
            warm.append(await _crowd(service, scale.first_calls, is_warm=True))
    tokens = max(crowd.tokens for crowd in cold)
    ratio = median(a.slowest / b.slowest for a, b in zip(cold, warm, strict=True))
    seconds = (median(crowd.slowest for crowd in each) for each in (cold, warm))
    shown = f"{ratio:.2f} ({', '.join(f'{each:.2f} s' for each in seconds)})"
    what = f"{scale.first_calls:,} calls at once without a token"
    return [
        at_most(f"{what}: token requests", tokens, 1, shown=f"{tokens}", rounds=rounds),
        at_most(f"{what}: slowest / with one", ratio, 2.0, shown=shown, rounds=rounds),
    ]


async def _crowd(service: FixedService, calls: int, *, is_warm: bool) -> _Crowd:
    before = service.tokens()
    async with IncomeClient(service.url + SMALL, auth=service.oauth2) as client:
        if is_warm:
            await client.get_application(name_of(0))
        began = time.perf_counter()

        async def ended(number: int) -> float:
            await client.get_application(name_of(number))
            return time.perf_counter() - began

        slowest = max(await asyncio.gather(*map(ended, range(calls))))
    return _Crowd(slowest=slowest, tokens=service.tokens() - before)


def _application(client: _Client) -> Callable[[int], Coroutine[Any, Any, Any]]:
    return lambda number: client.get_application(name_of(number))


def _documents(client: _Client) -> Callable[[int], Coroutine[Any, Any, Any]]:
    return lambda number: client.get_documents(name_of(number))


def _page(client: _Client, limit: int = 1000) -> Callable[[int], Coroutine[Any, Any, Any]]:
    return lambda number: client.get_application_page(time_of(number), _LATEST, limit)


_JOBS: Final[Mapping[str, tuple[Callable[[_Client], Any], float]]] = {
    "application of 3.5 KB": (_application, 0.30),
    "documents of 24 KB": (_documents, 0.40),
    "page of 1,000": (_page, 0.55),
}


def _compared(
    what: str, timed: Mapping[str, Timed], one: str, other: str, goal: float | None = None
) -> Row:
    ratio = timed[one].over(timed[other])
    shown = f"{ratio:.2f} ({timed[one].cost:.0f} us, {timed[other].cost:.0f} us)"
    rounds = len(timed[one].costs)
    if goal is None:
        return Row(what=what, measured=shown, value=ratio, rounds=rounds)
    return at_most(what, ratio, goal, shown=shown, rounds=rounds)


MEASUREMENTS: Final[Mapping[str, Measurement]] = {
    "small": small_calls,
    "usual": usual_calls,
    "first-calls": first_calls,
    "imports": imports,
}
"""Every measurement by the name that the command line knows it by."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for, and print the table.

    Args:
        arguments: in place of those of the process.
    """
    run_afresh(MEASUREMENTS, arguments, part="calling", description=__doc__, quick=QUICK, full=FULL)


if __name__ == "__main__":
    main()
