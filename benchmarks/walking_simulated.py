"""The planner of walks beside its peers, in simulated time and without any I/O.

Every question takes the same time, as many are in flight as may be, and the
figures hang on nothing but the data: they are the same on every machine.
"""

import heapq
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from statistics import fmean
from typing import Any, Final, Protocol

from attrs import frozen

from income_client.http.endpoints import LARGEST_LIMIT
from income_client.walk.planner import WalkPlanner
from income_client.walk.windows import Answer, Bounds, Question

from .table import Row, at_most
from .walking_data import (
    DATED,
    HARD,
    MILD,
    REAL,
    YEAR,
    SimulatedList,
    real_list,
    real_seconds,
    seconds_of,
)
from .walking_peers import PEERS

_LATENCY: Final = 0.020
_PARALLEL: Final = 8
_MOST_MILD: Final = 1.3
_MOST_HARD_MEAN: Final = 2.6
_MOST_UNIFORM_TIME: Final = 1.6
_MOST_REAL: Final = (1.6, 1.8)
"""Requests for each page of real times, with one and with several in flight."""


@frozen(kw_only=True)
class WalkScale:
    """What is walked."""

    counts: Sequence[int]
    """Applications of a walk."""
    seeds: Sequence[int]
    """The walk is made over the data of each."""


@frozen(kw_only=True)
class _Cost:
    requests: float
    """For each that there must be at least."""
    seconds: float
    """For each that there must be at least, with all in flight all the time."""


@frozen(kw_only=True)
class _Task:
    pattern: str
    count: int
    seed: int
    in_flight: int


class _Walk(Protocol):
    def next(self) -> Any:
        """Return the next question, None where a page must come first."""

    def receive(self, question: Any, /) -> None:
        """Take the page of a question."""


class _Ours:
    """The client's planner, fed with whole pages as from the service."""

    def __init__(self, service: SimulatedList, in_flight: int) -> None:
        self._service = service
        first, last = service.seconds[0], service.seconds[-1]
        bounds = Bounds(min(YEAR.after, first - 1), max(YEAR.before, last + 1))
        self._planner = WalkPlanner(bounds, limit=LARGEST_LIMIT, walkers=in_flight)

    def next(self) -> Question | None:
        return self._planner.next()

    def receive(self, question: Question) -> None:
        planner = self._planner
        page = self._service.page(question.bounds)
        planner.receive(question, Answer.of(page, LARGEST_LIMIT, self._service.now))
        while planner.ready:
            planner.acknowledge(planner.ready.popleft())

    def check(self) -> None:
        """Fail where the walk has not found every row."""
        if self._planner.rows != len(self._service.seconds):
            raise RuntimeError("the walk has lost rows")


async def count_requests(scale: WalkScale) -> list[Row]:
    """Count the list requests of walks with one question in flight."""
    return [row for count in scale.counts for row in _requests(scale, count)]


async def time_in_flight(scale: WalkScale) -> list[Row]:
    """Time walks with several questions in flight, at a service that takes 20 ms."""
    return [row for count in scale.counts for row in _times(scale, count)]


async def walk_real(scale: WalkScale) -> list[Row]:
    """Count the list requests of walks over times at which something really happened."""
    most = max(scale.counts)
    return [
        _real(name, most, dates, in_flight, scale.seeds)
        for name, dates, in_flight in product(REAL, DATED, (1, _PARALLEL))
    ]


def _real(name: str, most: int, dates: str, in_flight: int, seeds: Sequence[int]) -> Row:
    seconds = real_seconds(name)[:most]
    costs: list[float] = []
    for seed in seeds:
        walk = _Ours(real_list(seconds, dates=dates, seed=seed), in_flight)
        task = _Task(pattern=name, count=len(seconds), seed=seed, in_flight=in_flight)
        costs.append(_cost(walk, task).requests)
        walk.check()
    what = (
        f"{name}, {len(seconds):,} real times, dated {dates} before, {in_flight} in flight: "
        f"requests / least"
    )
    mean = fmean(costs)
    if dates == "any time":
        return Row(what=what, measured=f"{mean:.2f}", value=mean, rounds=len(costs))
    return at_most(what, mean, _MOST_REAL[in_flight > 1], rounds=len(costs))


def _requests(scale: WalkScale, count: int) -> list[Row]:
    found = _compared(scale, count, in_flight=1)
    rows: list[Row] = []
    for pattern, costs in found.items():
        figures = {who: [cost.requests for cost in made] for who, made in costs.items()}
        goal = _MOST_MILD if pattern in MILD else None
        rows += _beside_peers(f"{pattern}, {count:,} rows, 1 in flight: requests", figures, goal)
    mean = fmean(cost.requests for pattern in HARD for cost in found[pattern][_OURS])
    what = f"{count:,} rows, 1 in flight: requests, mean of {', '.join(HARD)}"
    return [*rows, at_most(what, mean, _MOST_HARD_MEAN, rounds=len(scale.seeds))]


def _times(scale: WalkScale, count: int) -> list[Row]:
    rows: list[Row] = []
    for pattern, costs in _compared(scale, count, in_flight=_PARALLEL).items():
        figures = {who: [cost.seconds for cost in made] for who, made in costs.items()}
        goal = _MOST_UNIFORM_TIME if pattern == "uniform" else None
        rows += _beside_peers(
            f"{pattern}, {count:,} rows, {_PARALLEL} in flight: time", figures, goal
        )
    return rows


_OURS: Final = "this client"


def _beside_peers(
    what: str, figures: Mapping[str, Sequence[float]], goal: float | None
) -> list[Row]:
    """Return our row and those of the peers: means, met where every seed meets the goal.

    Without a goal of its own each walk must do with less than every peer over the same data.
    """
    means = {who: fmean(values) for who, values in figures.items()}
    ours = means.pop(_OURS)
    seeds = range(len(figures[_OURS]))
    best = [min(figures[peer][seed] for peer in PEERS) for seed in seeds]
    is_first = all(figures[_OURS][seed] < best[seed] for seed in seeds)
    is_low = goal is None or max(figures[_OURS]) <= goal
    first = Row(
        what=f"{what} / least, {_OURS}",
        measured=f"{ours:.2f}",
        goal="< peers" if goal is None else f"<= {goal:g}",
        is_met=is_first and is_low,
        value=ours,
        most=goal,
        rounds=len(seeds),
    )
    others = [
        Row(what=f"  {what}, {who}", measured=f"{mean:.2f}", value=mean, rounds=len(seeds))
        for who, mean in means.items()
    ]
    return [first, *others]


def _compared(
    scale: WalkScale, count: int, *, in_flight: int
) -> Mapping[str, Mapping[str, Sequence[_Cost]]]:
    """Return what each way to walk costs over the data of each seed, by pattern."""
    tasks = [
        _Task(pattern=pattern, count=count, seed=seed, in_flight=in_flight)
        for pattern, seed in product((*MILD, *HARD), scale.seeds)
    ]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        costs = list(pool.map(_costs, tasks))
    found: dict[str, dict[str, list[_Cost]]] = {}
    for task, made in zip(tasks, costs, strict=True):
        for who, cost in made.items():
            found.setdefault(task.pattern, {}).setdefault(who, []).append(cost)
    return found


def _costs(task: _Task) -> Mapping[str, _Cost]:
    seconds = seconds_of(task.pattern, task.count, seed=task.seed)
    service = SimulatedList(seconds, seed=task.seed)
    ours = _Ours(service, task.in_flight)
    made = {_OURS: _cost(ours, task)}
    ours.check()
    for who, peer in PEERS.items():
        made[who] = _cost(peer(YEAR, service.is_full, task.in_flight), task)
    return made


def _cost(walk: _Walk, task: _Task) -> _Cost:
    """Walk to the end, time jumping from one answer to the next."""
    now, asked = 0.0, 0
    in_flight: list[tuple[float, int, Any]] = []
    while True:
        while len(in_flight) < task.in_flight and (question := walk.next()) is not None:
            asked += 1
            heapq.heappush(in_flight, (now + _LATENCY, asked, question))
        if not in_flight:
            break
        now, _, answered = heapq.heappop(in_flight)
        walk.receive(answered)
    least = -(-task.count // LARGEST_LIMIT)
    return _Cost(requests=asked / least, seconds=now / (least / task.in_flight * _LATENCY))


FULL: Final = WalkScale(counts=(100_000, 1_000_000), seeds=(7, 11, 23))
"""What the goals are about."""

QUICK: Final = WalkScale(counts=(3_000,), seeds=(7,))
"""Enough to see every row; its figures mean nothing."""
