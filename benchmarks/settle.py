"""Cost of a poller, and the updates that it misses, at several values of ``settle``.

Poller and service share an event loop whose clock skips every wait, so that hours take seconds and
all figures but those of CPU are exact. Nothing goes over sockets, and each request takes 20 ms.
New applications are updated evenly, each once: what is missed stays missed. Of four updates two
are listed at once, one up to 0.9 ``settle`` late, and one with a lateness that has a long tail.
"""

import asyncio
import logging
import math
import selectors
import time
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import product
from multiprocessing import get_context
from random import Random
from statistics import quantiles
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs

import orjson
from attrs import frozen

from income_client import BasicAuth, MemoryCheckpointStore
from income_client.http.endpoints import LARGEST_LIMIT, Request, Response, addresses
from income_client.http.session import open_session
from income_client.http.transport import SocketLimits, Transport
from income_client.polling.poller import Poller
from income_client.polling.reading import PollSource

from . import decoding
from .report import Row, Scale, at_most, exactly, in_unit

T = TypeVar("T")

_INTERVAL: Final = 30.0
"""Seconds between polls without wake-ups; the default of `poll`."""
_BEGINNING: Final = datetime(2026, 6, 30, 12, tzinfo=UTC)
_RATES: Final = (1, 10, 50)
"""Updates a second."""
MOST_READS: Final = 2.3
"""Reads of each update: once when it is listed, and once after ``settle``, in whole seconds."""
MOST_LISTS: Final = 2.1
"""List requests a second, or a poll if there is one each second: for what is new, and for what is
listed late."""
_ONE_WAY_SECONDS: Final = 0.01
_PAUSE_SECONDS: Final = 1.0
"""Fewest seconds between polls that wake-ups begin."""
_TAIL: Final = 1.5
"""The share ``(1 + seconds) ** -_TAIL`` of the updates with a long tail is later than that."""


class _SkippingSelector(selectors.SelectSelector):
    """A selector that moves the time in place of waiting."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        self.now += timeout or 0.0
        return []


class _SkippingLoop(asyncio.SelectorEventLoop):
    """An event loop in which waiting takes no time; nothing in it may use a thread or a socket."""

    def __init__(self) -> None:
        self._skipping = _SkippingSelector()
        super().__init__(self._skipping)

    def time(self) -> float:
        """Return the seconds since the loop was made."""
        return self._skipping.now


class _LoopClock:
    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@frozen
class Update:
    """The one update of an application."""

    made_at: float
    """Seconds from the beginning to the update."""
    lateness: float
    """Seconds from the update until the list shows it."""

    @property
    def listed_at(self) -> float:
        """Seconds from the beginning until the list shows the update."""
        return self.made_at + self.lateness


@frozen(kw_only=True)
class Load:
    """Updates, and a poller that follows them."""

    settle: int
    rate: float
    """Updates a second."""
    is_woken: bool
    """Whether each update wakes the poller when it is made."""
    seconds: float
    """Seconds that are measured."""

    @property
    def warm_up(self) -> float:
        """Seconds before the measured ones, until updates become older than ``settle``."""
        return 1.5 * self.settle + 2 * _INTERVAL

    def updates(self) -> list[Update]:
        """Invent the updates, in their order."""
        chance, updates = Random(7), []
        for number in range(round(self.rate * (self.warm_up + self.seconds))):
            even = 0.9 * self.settle * chance.random()
            tailed = (1 - chance.random()) ** (-1 / _TAIL) - 1
            lateness = (0.0, even, 0.0, tailed)[number % 4]
            updates.append(Update((number + chance.random()) / self.rate, lateness))
        return updates


@frozen(kw_only=True)
class Cost:
    """Figures of one load."""

    reads: float
    """Applications read for each update."""
    lists: float
    """List calls a second."""
    cpu_seconds: float
    """CPU of the poller for each update."""
    checkpoint_bytes: int
    """Length of the longest checkpoint."""
    delays: tuple[float, float]
    """Median and 99th percentile of the seconds from an update that was listed at once to its
    delivery."""
    missed: int
    """Updates that were not delivered, of those that were listed within ``settle``."""
    listed: int
    """Updates that were listed within ``settle``."""
    missed_later: int
    """Updates that were not delivered, of those that were listed later."""
    listed_later: int
    """Updates that were listed later than ``settle``."""
    rereading: tuple[float, float]
    """Reads for each update, and list calls a second, of a poll that reads again each time whatever
    is younger than ``settle``."""


class _Service(Transport):
    """The service: its list has an inclusive lower and an exclusive upper bound."""

    def __init__(self, updates: Sequence[Update]) -> None:
        super().__init__(addresses("https://service.test"))
        self.asked: Counter[str] = Counter()
        self.cpu_seconds = 0.0
        self._updates = updates
        self._unlisted = sorted(range(len(updates)), key=lambda number: -updates[number].listed_at)
        self._listed: list[int] = []
        self._application: dict[str, Any] = orjson.loads(decoding.application())

    async def send(
        self,
        request: Request,
        headers: Mapping[str, str],  # noqa: ARG002 - the service lets everybody in
        limits: SocketLimits,  # noqa: ARG002 - and answers at once
        read: Callable[[Response], T],
    ) -> T:
        """Answer a request."""
        await asyncio.sleep(_ONE_WAY_SECONDS)
        began = time.process_time()
        self.asked[request.name] += 1
        now = asyncio.get_running_loop().time()
        reply = self._list(request, now) if request.subject is None else self._read(request.subject)
        date = format_datetime(_moment(now), usegmt=True)
        response = Response(status=200, headers={"date": date}, body=orjson.dumps(reply))
        self.cpu_seconds += time.process_time() - began
        await asyncio.sleep(_ONE_WAY_SECONDS)
        return read(response)

    def _list(self, request: Request, now: float) -> dict[str, Any]:
        while self._unlisted and self._updates[self._unlisted[-1]].listed_at <= now:
            insort(self._listed, self._unlisted.pop())
        asked = parse_qs(request.query)
        after, before = (
            _seconds(asked[name][0]) if name in asked else unset
            for name, unset in (("updated_after", 0), ("updated_before", math.floor(now)))
        )
        first, end = (
            bisect_left(self._listed, bound, key=self._second_of) for bound in (after, before)
        )
        numbers = self._listed[first : min(end, first + int(asked["limit"][0]))]
        return {
            "updated_after": _stamp(after),
            "updated_before": _stamp(before),
            "applications": [_row(number) for number in numbers],
        }

    def _second_of(self, number: int) -> int:
        return math.floor(self._updates[number].made_at)

    def _read(self, application_id: str) -> dict[str, Any]:
        updated = _stamp(self._updates[int(application_id)].made_at) + "Z"
        return self._application | {"application_id": application_id, "last_updated_at": updated}


def _row(number: int) -> dict[str, str]:
    return {
        "application_id": f"{number}",
        "application_reference_id": f"LOAN-{number}",
        "application_date": "2026-06-30T11:46:33",
    }


def _moment(seconds: float) -> datetime:
    return _BEGINNING + timedelta(seconds=math.floor(seconds))


def _stamp(seconds: float) -> str:
    return _moment(seconds).replace(tzinfo=None).isoformat()


def _seconds(stamp: str) -> int:
    moment = datetime.fromisoformat(stamp).replace(tzinfo=UTC)
    return int((moment - _BEGINNING).total_seconds())


def cost_of(load: Load) -> Cost:
    """Follow the updates of a load."""
    logging.disable()  # a poller warns of what is listed late
    with asyncio.Runner(loop_factory=_SkippingLoop) as runner:
        return runner.run(_follow(load, load.updates()))


async def _follow(load: Load, updates: Sequence[Update]) -> Cost:
    loop, service = asyncio.get_running_loop(), _Service(updates)
    session = open_session(service, auth=BasicAuth("user", "invented"), clock=_LoopClock())
    poller = Poller(
        PollSource(session=session, zone=UTC, documents=False, pages=False, concurrency=16),
        MemoryCheckpointStore(),
        name="default",
        start=math.floor(_BEGINNING.timestamp()),
        interval=_INTERVAL,
        settle=load.settle,
        lookback=0.0,
    )
    counts: list[tuple[Counter[str], float]] = []

    def count() -> None:
        counts.append((service.asked.copy(), time.process_time() - service.cpu_seconds))

    end = load.warm_up + load.seconds
    loop.call_at(load.warm_up, count)
    loop.call_at(end, count)
    # What is listed later than settle may come as well, until the poller reads for the last time.
    loop.call_at(end + 2 * (load.settle + _INTERVAL), poller.stop)
    if load.is_woken:
        for update in updates:
            loop.call_at(update.made_at, poller.wake)
    delivered: dict[int, float] = {}
    checkpoint_bytes = 0
    async for batch in poller.batches():
        async with batch:
            for record in batch:
                delivered.setdefault(int(record.application_id), loop.time())
            checkpoint_bytes = max(checkpoint_bytes, len(batch.checkpoint))
    await session.aclose()
    (first, first_cpu), (last, last_cpu) = counts
    made = load.rate * load.seconds
    delays = [
        delivered[number] - update.made_at
        for number, update in enumerate(updates)
        if not update.lateness
    ]
    percentiles = quantiles(delays, n=100)
    missed = [update.lateness for number, update in enumerate(updates) if number not in delivered]
    late = sum(update.lateness > load.settle for update in updates)
    missed_later = sum(lateness > load.settle for lateness in missed)
    return Cost(
        reads=(last["get_application"] - first["get_application"]) / made,
        lists=(last["list_applications"] - first["list_applications"]) / load.seconds,
        cpu_seconds=(last_cpu - first_cpu) / made,
        checkpoint_bytes=checkpoint_bytes,
        delays=(percentiles[49], percentiles[98]),
        missed=len(missed) - missed_later,
        listed=len(updates) - late,
        missed_later=missed_later,
        listed_later=late,
        rereading=_rereading(load, updates),
    )


def _rereading(load: Load, updates: Sequence[Update]) -> tuple[float, float]:
    """Count the requests of a poll that reads again whatever is younger than ``settle``."""
    made_at = [update.made_at for update in updates]
    reads = lists = 0
    polled = now = 0.0
    while now < load.warm_up + load.seconds:
        first, present = bisect_left(made_at, polled - load.settle), bisect_left(made_at, now)
        shown = sum(update.listed_at <= now for update in updates[first:present])
        if now >= load.warm_up:
            reads += shown
            lists += 1 + shown // LARGEST_LIMIT
        polled, now = now, now + _INTERVAL
        if load.is_woken:
            woken_at = made_at[present] if present < len(made_at) else now
            now = min(now, max(woken_at, polled + _PAUSE_SECONDS))
    return reads / (load.rate * load.seconds), lists / load.seconds


async def measure(scale: Scale, *, is_woken: bool) -> list[Row]:
    """Follow updates at several rates and values of ``settle``."""
    loads = [
        Load(settle=settle, rate=rate, is_woken=is_woken, seconds=scale.followed)
        for rate, settle in product(_RATES, scale.settles)
    ]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        costs = dict(zip(loads, pool.map(cost_of, loads), strict=True))
    return [row for rate in _RATES for row in _rows_of(rate, costs)]


def _rows_of(rate: int, costs: Mapping[Load, Cost]) -> list[Row]:
    """Return the rows of one rate, with a figure for each ``settle``."""
    found = {load: cost for load, cost in costs.items() if load.rate == rate}
    is_woken = any(load.is_woken for load in found)
    polls = "each wakes the poller" if is_woken else f"a poll each {_INTERVAL:g} s"
    settles = ", ".join(f"{load.settle}" for load in found)
    what = f"{rate} updates a second, {polls}, settle {settles} s"
    if rate == 1:
        what = what.replace("updates", "update", 1)

    def row(quantity: str, figure: Callable[[Cost], str]) -> Row:
        return Row(label=f"{what}: {quantity}", measured=", ".join(map(figure, found.values())))

    def row_at_most(quantity: str, figure: Callable[[Cost], float], goal: float) -> Row:
        shown = row(quantity, lambda cost: f"{figure(cost):.2f}")
        most = max(map(figure, found.values()))
        return at_most(shown.label, most, goal, shown=shown.measured)

    missed = sum(cost.missed for cost in found.values())
    listed = sum(cost.listed for cost in found.values())
    within = f"{what}: delivered, of those that are listed within settle"
    return [
        row_at_most("application requests for each update", lambda cost: cost.reads, MOST_READS),
        row(
            "application requests of a poll that reads again what is younger than settle",
            lambda cost: f"{cost.rereading[0]:.1f}",
        ),
        row_at_most("list requests a second", lambda cost: cost.lists, MOST_LISTS),
        row(
            "list requests of a poll that reads again what is younger than settle",
            lambda cost: f"{cost.rereading[1]:.2f}",
        ),
        row("CPU for each update, without sockets", lambda cost: in_unit(cost.cpu_seconds, "ms")),
        row("checkpoint", lambda cost: f"{cost.checkpoint_bytes / 1000:.1f} kB"),
        row("median delay", lambda cost: in_unit(cost.delays[0], "s")),
        row("99th percentile of the delay", lambda cost: in_unit(cost.delays[1], "s")),
        exactly(within, listed - missed, listed, shown=f"{listed - missed:,} of {listed:,}"),
        row(
            "missed, of those that are listed later than settle",
            lambda cost: f"{cost.missed_later} of {cost.listed_later}",
        ),
    ]
