"""Calls of several kinds in turns, and what one of them costs this process."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import count
from statistics import median
from typing import Any, Final

_WARM: Final = 64
_SECONDS_OF_A_DAY: Final = 86_400


class Timed:
    """One kind of call.

    Args:
        name: for the table.
        call: makes one; is given a number that no call before had.
        in_flight: calls at a time.

    Attributes:
        costs: microseconds of CPU per call, one figure for each round.
    """

    def __init__(self, name: str, call: Callable[[int], Awaitable[Any]], *, in_flight: int) -> None:
        self.name = name
        self.costs: list[float] = []
        self._call = call
        self._in_flight = in_flight

    async def measure(self, numbers: Sequence[int]) -> None:
        """Make one call for each number, and note what they cost."""
        left = iter(numbers)
        began = time.process_time()
        async with asyncio.TaskGroup() as workers:
            for _ in range(self._in_flight):
                workers.create_task(self._work(left))
        self.costs.append((time.process_time() - began) / len(numbers) * 1e6)

    async def _work(self, left: Iterable[int]) -> None:
        for number in left:
            await self._call(number)

    def ratios(self, other: "Timed") -> list[float]:
        """Return the cost of this over that of another, one figure for each round."""
        return [mine / theirs for mine, theirs in zip(self.costs, other.costs, strict=True)]

    def over(self, other: "Timed") -> float:
        """Return the median of the rounds' ratios."""
        return median(self.ratios(other))

    @property
    def cost(self) -> float:
        """The median of the rounds, in microseconds."""
        return median(self.costs)


async def alternate(kinds: Sequence[Timed], *, rounds: int, calls: int) -> None:
    """Measure each kind in turn; whoever goes first in one round goes last in the next."""
    numbers = count()
    for kind in kinds:
        await kind.measure([next(numbers) for _ in range(_WARM)])
        kind.costs.clear()
    for turn in range(rounds):
        for kind in kinds if turn % 2 == 0 else reversed(kinds):
            await kind.measure([next(numbers) for _ in range(calls)])


def name_of(number: int) -> str:
    """Return an application id of the usual length."""
    return f"5f3a1c20-8b1e-4a52-9c07-{number:012d}"


def time_of(number: int) -> str:
    """Return a second of January 2024 as the service writes it."""
    day, second = divmod(number, _SECONDS_OF_A_DAY)
    clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    return f"2024-01-{day % 31 + 1:02d}T{clock}"
