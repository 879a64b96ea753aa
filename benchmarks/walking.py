"""What walks cost: ``python -m benchmarks.walking [row ...] [--quick]``.

By themselves the planner and its peers are compared in simulated time. What is
below is the rest: whole walks, against the emulator in another process.
"""

import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from statistics import median
from typing import Any, Final, TypeAlias

from attrs import frozen

from income_client import IncomeClient
from income_client.http.endpoints import LARGEST_LIMIT

from .command import run_afresh
from .processes import EmulatorProcess
from .scale import Scale
from .table import Row, at_most
from .walking_simulated import FULL, QUICK, WalkScale, count_requests, time_in_flight, walk_real

__all__ = ["FULL", "MEASUREMENTS", "QUICK"]

Measurement: TypeAlias = Callable[[WalkScale], Coroutine[Any, Any, list[Row]]]

MEASUREMENTS: Final[Mapping[str, Measurement]] = {
    "requests": count_requests,
    "in-flight": time_in_flight,
    "real": walk_real,
}
"""Every measurement in simulated time by the name that the command line knows it by."""

_IN_FLIGHT: Final = (1, 4, 8)
_GOALS: Final = {"bursts": 3.0, "uniform": 1.35}
_DAYS: Final = 90
_YEAR: Final = 365
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


async def walk_concurrently(scale: Scale) -> list[Row]:
    """Compare walks with 8 and with 1 in flight, where each request takes its time."""
    return [await _concurrency(pattern, scale, goal=_MOST_OF_SEQUENTIAL) for pattern in _GOALS]


async def _concurrency(pattern: str, scale: Scale, *, goal: float) -> Row:
    alone: list[float] = []
    together: list[float] = []
    knobs = {"applications": scale.walked, "pattern": pattern, "days": _YEAR}
    with EmulatorProcess(**knobs, latency=scale.latency) as service:
        truth = service.ids()
        for _ in range(scale.slow_rounds):
            alone.append((await _walked(service, truth, 1)).seconds)
            together.append((await _walked(service, truth, 8)).seconds)
    ratio = median(b / a for a, b in zip(alone, together, strict=True))
    shown = f"{ratio:.2f} ({median(together):.2f} / {median(alone):.2f} s)"
    what = (
        f"{scale.walked:,} applications over a year, {pattern}, {scale.latency * 1000:g} ms: "
        "time with 8 in flight / with 1"
    )
    return at_most(what, ratio, goal, shown=shown)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for, and print the table.

    Args:
        arguments: in place of those of the process.
    """
    run_afresh(MEASUREMENTS, arguments, part="walking", description=__doc__, quick=QUICK, full=FULL)


if __name__ == "__main__":
    main()
