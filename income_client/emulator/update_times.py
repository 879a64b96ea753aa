"""Distributions of invented update times over a span: even, in bursts, by office hours."""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import accumulate
from random import Random
from typing import Final

from attrs import frozen

from income_client.errors import ConfigurationError
from income_client.settings import check_not_negative, check_whole

from .times import DAY

_HOUR: Final = 3600
_MOST_PER_SECOND: Final = 400


@frozen(kw_only=True)
class Spread:
    """The task of a pattern: make ``count`` times from the service second ``first`` to ``last``."""

    rng: Random
    count: int
    first: int
    last: int

    @property
    def span(self) -> int:
        """Number of seconds to choose from."""
        return self.last - self.first + 1


def _uniform_times(task: Spread) -> list[int]:
    draw, first, span = task.rng.random, task.first, task.span
    return [first + int(draw() * span) for _ in range(task.count)]


def _growing_times(task: Spread) -> list[int]:
    draw, first, span = task.rng.random, task.first, task.span
    return [first + int(draw() ** 0.25 * span) for _ in range(task.count)]


def _burst_times(task: Spread) -> list[int]:
    rng, days = task.rng, max(1, task.span // DAY)
    imported = task.count * 2 // 5
    imports = min(max(3, days // 6), max(1, imported))
    times = _uniform_times(
        Spread(rng=rng, count=task.count - imported, first=task.first, last=task.last)
    )
    for number in range(imports):
        share = imported * (number + 1) // imports - imported * number // imports
        width = min(rng.randint(5 * 60, 60 * 60), task.span)
        start = task.first + rng.randrange(task.span - width + 1)
        times += [start + int(rng.random() * width) for _ in range(share)]
    return times


def _by_hour(task: Spread, weights: list[float]) -> list[int]:
    totals = list(accumulate(weights))
    draw, span = task.rng.random, task.span
    hours = (bisect_left(totals, draw() * totals[-1]) for _ in range(task.count))
    return [task.first + min(hour * _HOUR + int(draw() * _HOUR), span - 1) for hour in hours]


def _hours_of(task: Spread) -> range:
    return range(-(-task.span // _HOUR))


def _office_weight(second: int) -> float:
    weekend = (second // DAY + 3) % 7 > 4  # noqa: PLR2004 - 1970 began on a Thursday
    hour = second % DAY // _HOUR
    if 8 <= hour < 18:  # noqa: PLR2004 - office hours
        return 0.1 if weekend else 1.0
    return 0.03 if weekend else 0.12


def _office_times(task: Spread) -> list[int]:
    return _by_hour(task, [_office_weight(task.first + hour * _HOUR) for hour in _hours_of(task)])


def _pareto_times(task: Spread) -> list[int]:
    return _by_hour(task, [task.rng.paretovariate(1.1) for _ in _hours_of(task)])


def _cascade_times(task: Spread) -> list[int]:
    times: list[int] = []
    draw = task.rng.random
    parts = [(task.first, task.span, task.count)]
    while parts:
        start, width, count = parts.pop()
        if count <= 8 or width <= 1:  # noqa: PLR2004 - a few rows need no cascade
            times += [start + int(draw() * width) for _ in range(count)]
            continue
        first_count = round(count * (0.7 if draw() < 0.5 else 0.3))  # noqa: PLR2004 - even chance
        half = width // 2
        parts += [(start, half, first_count), (start + half, width - half, count - first_count)]
    return times


def _full_second_times(task: Spread) -> list[int]:
    rng, remaining = task.rng, task.count
    times: list[int] = []
    second = task.first + rng.randrange(task.span)
    while remaining:
        size = min(remaining, rng.randint(1, 1500))
        times += [second] * size
        remaining -= size
        # Neighbouring full seconds are the hard case, so they are common.
        near = rng.random() < 0.3 and second < task.last  # noqa: PLR2004 - a chance
        second = second + 1 if near else task.first + rng.randrange(task.span)
    return times


_PATTERNS: Final[dict[str, Callable[[Spread], list[int]]]] = {
    "uniform": _uniform_times,
    "bursts": _burst_times,
    "growth": _growing_times,
    "diurnal": _office_times,
    "pareto": _pareto_times,
    "bmodel": _cascade_times,
    "seconds": _full_second_times,
}


def _thin_out(times: list[int]) -> None:
    for place in range(len(times) - _MOST_PER_SECOND - 1, -1, -1):
        limit = times[place + _MOST_PER_SECOND] - 1
        times[place] = min(times[place], limit)


def spread_times(pattern: str, task: Spread) -> list[int]:
    """Invent update times, in ascending order.

    Every pattern but ``seconds`` holds at most 400 rows a second; where that
    leaves no room, the surplus moves to earlier seconds.
    """
    if pattern not in _PATTERNS:
        raise ConfigurationError(f"pattern is one of {', '.join(_PATTERNS)}")
    times = _PATTERNS[pattern](task)
    times.sort()
    if pattern != "seconds":
        _thin_out(times)
    return times


def update_times(
    applications: Iterable[int] | int, pattern: str, *, seed: int, days: float, now: int
) -> "array[int]":
    """Return the second of each application's last update: given seconds, or invented ones.

    Invented ones lie in the span of so many days that ends now.
    """
    if isinstance(applications, int):
        check_whole("applications", applications)
        check_not_negative("days", days)
        first = now - max(1, int(days * DAY))
        task = Spread(rng=Random(seed), count=applications, first=first, last=now - 1)
        return array("q", spread_times(pattern, task))
    try:
        return array("q", applications)
    except (TypeError, ValueError, OverflowError):
        raise ConfigurationError(
            "applications is how many there are, or the second of each one's last update"
        ) from None
