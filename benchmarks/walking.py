"""List requests of a walk, against other ways to divide time, in simulated time.

Every request takes the same time and as many are in flight as may be, so the figures
depend on the data alone. The other ways are given what the planner has to find out: windows that
do not overlap, bounds whose meaning is known, and the span. A page tells them whether it is full.
None of them would notice a second with more rows than a page.
"""

import gzip
import heapq
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from itertools import accumulate
from multiprocessing import get_context
from pathlib import Path
from random import Random
from statistics import fmean
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias, cast

from attrs import frozen

from income_client.emulator.update_times import Spread, spread_times
from income_client.http.endpoints import LARGEST_LIMIT
from income_client.records.applications import ApplicationPage
from income_client.records.window import EPOCH, Window
from income_client.walk.planner import Question, WalkPlanner
from income_client.walk.windows import Answer, Bounds

from .report import OURS, Row, Scale, at_most

_DAY: Final = 86_400
_MONTH: Final = 30 * _DAY
_FIRST: Final = 1_700_006_400
YEAR: Final = Window(_FIRST, _FIRST + 365 * _DAY)
"""The span that is walked; it begins at midnight."""
UNEVEN: Final = MappingProxyType(
    {
        "diurnal": "office hours",
        "bursts": "a few bulk imports",
        "pareto": "most in few hours",
        "bmodel": "bursts within bursts",
    }
)
"""Patterns of the emulator whose density changes within a page, in words."""
_REAL: Final = ("git", "aiohttp")
"""Lists of times at which something really happened; data/README.md says where they are from."""
_REAL_MOST: Final = {1: 1.6, 8: 1.8}
_SEEDS: Final = (7, 11, 23)
_LEAST: Final = "requests of a walk / least possible"


class RowOfList:
    """The part of a summary that a planner reads; its date is parsed only when it is read."""

    __slots__ = ("_applied", "application_id")

    def __init__(self, number: int, applied: int) -> None:
        self.application_id = str(number)
        self._applied = applied

    @property
    def application_date(self) -> datetime:
        """Date of the application."""
        return EPOCH + timedelta(seconds=self._applied)


class SimulatedList:
    """The list call over update seconds, both bounds inclusive, rows in any order."""

    def __init__(
        self, seconds: Sequence[int], *, seed: int, dates: Sequence[int] | None = None
    ) -> None:
        self.seconds = seconds
        self.now = max(YEAR.before, seconds[-1]) + 30 * _DAY
        self._dates = dates
        self._chance = Random(seed)

    def is_full(self, window: Window) -> bool:
        """Tell whether a page for exactly this window is full."""
        first = bisect_left(self.seconds, window.after)
        return bisect_left(self.seconds, window.before, first) - first >= LARGEST_LIMIT

    def page(self, bounds: Bounds) -> ApplicationPage:
        """Answer a question of the client's planner."""
        before = self.now if bounds.before is None else bounds.before
        first = bisect_left(self.seconds, bounds.after)
        chosen: Sequence[int] = range(first, bisect_right(self.seconds, before, first))
        if len(chosen) > LARGEST_LIMIT:
            chosen = self._chance.sample(chosen, LARGEST_LIMIT)
        rows = tuple(RowOfList(number, self._date(number)) for number in chosen)
        return ApplicationPage(
            updated_after=EPOCH + timedelta(seconds=bounds.after),
            updated_before=EPOCH + timedelta(seconds=before),
            applications=cast("Any", rows),
        )

    def _date(self, number: int) -> int:
        if self._dates is None:
            return self.seconds[number] - number * 7919 % (3 * _DAY)
        return self._dates[number]


def seconds_of(pattern: str, count: int, *, seed: int) -> list[int]:
    """Invent the update seconds of a year."""
    task = Spread(rng=Random(seed), count=count, first=YEAR.after, last=YEAR.before - 1)
    return spread_times(pattern, task)


class _Walk(Protocol):
    def next(self) -> Any:
        """Return the next question; None where a page must come first."""

    def receive(self, question: Any, /) -> None:
        """Take the page of a question."""


class Planner:
    """The client's planner, given whole pages as from the service."""

    def __init__(self, service: SimulatedList, in_flight: int) -> None:
        self._service = service
        first, last = service.seconds[0], service.seconds[-1]
        bounds = Bounds(min(YEAR.after, first - 1), max(YEAR.before, last + 1))
        self._planner = WalkPlanner(bounds, limit=LARGEST_LIMIT, walkers=in_flight)

    def next(self) -> Question | None:
        """Return the next question; None where a page must come first."""
        return self._planner.next()

    def receive(self, question: Question) -> None:
        """Take the page of a question."""
        planner = self._planner
        page = self._service.page(question.bounds)
        planner.receive(question, Answer.of(page, LARGEST_LIMIT, self._service.now))
        while planner.ready:
            planner.acknowledge(planner.ready.popleft())

    def check(self) -> None:
        """Fail where the walk has not found every row."""
        if self._planner.rows != len(self._service.seconds):
            raise RuntimeError("the walk has lost rows")


IsFull: TypeAlias = Callable[[Window], bool]


class Bisection:
    """Asks for windows in turn, and for the halves of each that comes back full."""

    def __init__(self, windows: Iterable[Window], is_full: IsFull) -> None:
        self._to_ask = list(windows)[::-1]
        self._is_full = is_full

    def next(self) -> Window | None:
        """Return the next window to ask for; None before a page comes."""
        return self._to_ask.pop() if self._to_ask else None

    def receive(self, window: Window) -> None:
        """Take the page of a window."""
        if self._is_full(window):
            middle = (window.after + window.before) // 2
            self._to_ask += (Window(middle, window.before), Window(window.after, middle))


class HalveAndDouble:
    """Steps of 30 days, halved when a page is full and doubled again after each that is not."""

    def __init__(self, span: Window, is_full: IsFull) -> None:
        self._rest = span
        self._width = _MONTH
        self._is_full = is_full

    def next(self) -> Window | None:
        """Return the next window to ask for."""
        end = min(self._rest.after + self._width, self._rest.before)
        return Window(self._rest.after, end) if self._rest else None

    def receive(self, window: Window) -> None:
        """Take the page of a window."""
        if self._is_full(window):
            self._width = max(1, self._width // 2)
        else:
            self._rest = Window(window.before, self._rest.before)
            self._width = min(2 * self._width, _MONTH)


def fixed_days(span: Window, is_full: IsFull) -> Bisection:
    """Walk day by day, and bisect the days that are full."""
    starts = range(span.after, span.before, _DAY)
    days = (Window(start, min(start + _DAY, span.before)) for start in starts)
    return Bisection(days, is_full)


def top_down(span: Window, is_full: IsFull) -> Bisection:
    """Ask for everything, and bisect what is full."""
    return Bisection([span], is_full)


WAYS: Final[Mapping[str, Callable[[Window, IsFull], Bisection | HalveAndDouble]]] = (
    MappingProxyType(
        {
            "fixed days, bisected": fixed_days,
            "halve and double": HalveAndDouble,
            "top-down bisection": top_down,
        }
    )
)
"""Every other way by what it does. They ask one question at a time."""


@frozen(kw_only=True)
class _Cost:
    requests: float
    """For each that there must be at least."""
    seconds: float
    """Over the least, with all in flight all the time."""


def _cost(walk: _Walk, count: int, in_flight: int) -> _Cost:
    """Walk to the end, time jumping from one answer to the next; a request takes 1."""
    now, asked = 0, 0
    open_ones: list[tuple[int, int, Any]] = []
    while True:
        while len(open_ones) < in_flight and (question := walk.next()) is not None:
            asked += 1
            heapq.heappush(open_ones, (now + 1, asked, question))
        if not open_ones:
            break
        now, _, answered = heapq.heappop(open_ones)
        walk.receive(answered)
    least = -(-count // LARGEST_LIMIT)
    return _Cost(requests=asked / least, seconds=now * in_flight / least)


def _planned(pattern: str, count: int, in_flight: int) -> _Cost:
    service = SimulatedList(seconds_of(pattern, count, seed=_SEEDS[0]), seed=_SEEDS[0])
    return _walked(service, in_flight)


def _walked(service: SimulatedList, in_flight: int) -> _Cost:
    walk = Planner(service, in_flight)
    cost = _cost(walk, len(service.seconds), in_flight)
    walk.check()
    return cost


def _compared(pattern: str, count: int) -> Mapping[str, float]:
    """Return the requests of each way to walk, for each that there must be at least."""
    service = SimulatedList(seconds_of(pattern, count, seed=_SEEDS[0]), seed=_SEEDS[0])
    ways = {name: _cost(way(YEAR, service.is_full), count, 1) for name, way in WAYS.items()}
    return {name: cost.requests for name, cost in ((OURS, _walked(service, 1)), *ways.items())}


async def simulated(scale: Scale) -> list[Row]:
    """Compare ways to walk over data of several shapes."""
    count = scale.simulated
    shapes = {"uniform": "as many at any time", **UNEVEN}
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        several = {many: pool.submit(_planned, "uniform", count, many) for many in (4, 8)}
        found = dict(zip(shapes, pool.map(partial(_compared, count=count), shapes), strict=True))
        default, eight = (several[many].result() for many in (4, 8))
    about = f"{count:,} applications"
    means = {name: fmean(found[one][name] for one in UNEVEN) for name in (OURS, *WAYS)}
    mean = f"{_LEAST}, {about}, mean of four uneven sets"
    return [
        at_most(f"{_LEAST}, {about}", found["uniform"][OURS], 1.3),
        _figure(f"{_LEAST}, {about}, 4 in flight", default.requests),
        at_most(f"time of a walk / least possible, {about}, 8 in flight", eight.seconds, 1.6),
        at_most(mean, means.pop(OURS), 2.6),
        *(_figure(f"{mean}: {name}", value) for name, value in means.items()),
        *(
            _figure(f"{_LEAST}, {about}, {shape}: {name}", value)
            for pattern, shape in shapes.items()
            for name, value in found[pattern].items()
        ),
    ]


def _figure(label: str, value: float) -> Row:
    return Row(label=label, measured=f"{value:.2f}", value=value)


async def real(scale: Scale) -> list[Row]:
    """Count the list requests of walks over real times, applications dated six hours before."""
    rows: list[Row] = []
    for name in _REAL:
        steps = gzip.decompress((Path(__file__).parent / f"data/{name}.txt.gz").read_bytes())
        seconds = list(accumulate(map(int, steps.split())))[: scale.simulated]
        for in_flight, goal in _REAL_MOST.items():
            mean = fmean(_real(seconds, in_flight, seed) for seed in _SEEDS)
            label = f"{_LEAST}, {len(seconds):,} commit times of {name}, {in_flight} in flight"
            rows.append(at_most(label, mean, goal, rounds=len(_SEEDS)))
    return rows


def _real(seconds: Sequence[int], in_flight: int, seed: int) -> float:
    chance = Random(seed)
    dates = [second - int(chance.lognormvariate(math.log(6 * 3600), 1.5)) for second in seconds]
    return _walked(SimulatedList(seconds, seed=seed, dates=dates), in_flight).requests


MEASUREMENTS: Final[Mapping[str, Callable[[Scale], Coroutine[Any, Any, list[Row]]]]] = {
    "simulated": simulated,
    "real": real,
}
"""Every measurement by its name."""
