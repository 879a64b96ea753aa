"""Walks: how many list requests they take, how much memory, and what concurrency pays."""

import time
from statistics import median
from typing import Final

from attrs import frozen

from income_client import IncomeClient
from income_client.protocol.endpoints import LARGEST_LIMIT

from .memory import PeakGrowth
from .processes import EmulatorProcess
from .scale import Scale
from .table import Row, at_most

_IN_FLIGHT: Final = (1, 4, 8)
_GOALS: Final = {"bursts": 3.0, "uniform": 1.35}
_DAYS: Final = 90
_YEAR: Final = 365
_MOST_MEGABYTES: Final = 20
_MOST_OF_SEQUENTIAL: Final = 0.4


@frozen(kw_only=True)
class _Walk:
    is_exact: bool
    requests_per_page: float
    seconds: float


async def walk_bursts(scale: Scale) -> list[Row]:
    """Count the list requests where most rows come in a few bulk imports."""
    return await _walk("bursts", scale)


async def walk_uniform(scale: Scale) -> list[Row]:
    """Count the list requests where the rows are spread evenly."""
    return await _walk("uniform", scale)


async def _walk(pattern: str, scale: Scale) -> list[Row]:
    walks: dict[int, list[_Walk]] = {in_flight: [] for in_flight in _IN_FLIGHT}
    for seed in scale.seeds:
        knobs = {"applications": scale.walked, "pattern": pattern, "seed": seed, "days": _DAYS}
        with EmulatorProcess(**knobs) as service:
            truth = service.ids()
            for in_flight, made in walks.items():
                made.append(await _walked(service, truth, in_flight))
    every = [walk for made in walks.values() for walk in made]
    exact = sum(walk.is_exact for walk in every)
    exactness = Row(
        what=f"{scale.walked:,} applications, {pattern}: walks exact",
        measured=f"{exact} of {len(every)}",
        goal="all",
        is_met=exact == len(every),
    )
    return [exactness, *(_requests(pattern, number, made) for number, made in walks.items())]


def _requests(pattern: str, in_flight: int, walks: list[_Walk]) -> Row:
    worst = max(walk.requests_per_page for walk in walks)
    seconds = median(walk.seconds for walk in walks)
    what = f"  list requests / ceil(N/1000), {in_flight} in flight, worst seed"
    shown = f"{worst:.2f} ({seconds:.2f} s)"
    if in_flight == 1:
        return at_most(what, worst, _GOALS[pattern], shown=shown)
    return Row(what=what, measured=shown)


async def _walked(service: EmulatorProcess, truth: list[str], in_flight: int) -> _Walk:
    service.forget()
    async with IncomeClient(service.url, auth=service.oauth2) as client:
        began = time.perf_counter()
        walk = client.list_applications(concurrency=in_flight)
        ids = [summary.application_id async for summary in walk]
        seconds = time.perf_counter() - began
    least = -(-len(truth) // LARGEST_LIMIT)
    return _Walk(
        is_exact=sorted(ids) == sorted(truth),
        requests_per_page=service.counts().lists / least,
        seconds=seconds,
    )


async def stream_summaries(scale: Scale) -> list[Row]:
    """Watch the memory while a long walk is consumed and nothing of it is kept."""
    count = scale.streamed
    with EmulatorProcess(applications=count, pattern="bursts", days=_YEAR) as service:
        async with IncomeClient(service.url, auth=service.oauth2) as client:
            # What is made once, the token and the decoder among it, is no growth of the walk.
            await client.get_application_page(limit=1)
            growth = PeakGrowth()
            began = time.perf_counter()
            found = total = 0
            async for summary in client.list_applications():
                found += 1
                total += _number(summary.application_id)
            seconds = time.perf_counter() - began
            megabytes = growth.megabytes
        truth = service.ids()
    is_exact = found == len(truth) and total == sum(map(_number, truth))
    memory = at_most(
        f"{count:,} summaries streamed: peak growth of memory",
        megabytes,
        _MOST_MEGABYTES,
        shown=f"{megabytes:.1f} MB",
    )
    return [
        memory,
        Row(
            what="  number and sum of the ids agree with the service's",
            measured=f"{found:,} of {len(truth):,}",
            goal="all",
            is_met=is_exact,
        ),
        Row(
            what="  time, the service on the other core",
            measured=f"{seconds:.1f} s, {found / seconds:,.0f} a second",
        ),
    ]


def _number(application_id: str) -> int:
    return int(application_id.removeprefix("app-"), 16)


async def walk_concurrently(scale: Scale) -> list[Row]:
    """Compare walks with 8 and with 1 in flight, where each request takes its time."""
    return [await _concurrency(pattern, scale, goal=_MOST_OF_SEQUENTIAL) for pattern in _GOALS]


async def _concurrency(pattern: str, scale: Scale, *, goal: float) -> Row:
    alone: list[float] = []
    together: list[float] = []
    knobs = {"applications": scale.walked, "pattern": pattern, "days": _YEAR}
    with EmulatorProcess(**knobs, latency=scale.latency) as service:
        truth = service.ids()
        for _ in range(scale.rounds):
            alone.append((await _walked(service, truth, 1)).seconds)
            together.append((await _walked(service, truth, 8)).seconds)
    ratio = median(b / a for a, b in zip(alone, together, strict=True))
    shown = f"{ratio:.2f} ({median(together):.2f} / {median(alone):.2f} s)"
    what = (
        f"{scale.walked:,} applications over a year, {pattern}, {scale.latency * 1000:g} ms: "
        "time with 8 in flight / with 1"
    )
    return at_most(what, ratio, goal, shown=shown)
