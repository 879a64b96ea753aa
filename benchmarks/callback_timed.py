"""What callbacks cost a server's process, in turns with other servers or other callbacks.

CPU seconds of that process are noted first of all, which other work on the machine
disturbs less than the clock; requests per second stand beside them.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

from attrs import define, field

from .callback_load import send
from .callback_scale import CallbackScale
from .callback_servers import CallbackServer
from .table import Row

_WARM_NUMBERS: Final = range(90_000_000, 90_000_300)
_MICRO: Final = 1_000_000


@define
class Timed:
    """Callbacks of one kind to one server, and what they took in each round."""

    name: str
    """What the table calls it."""
    server: CallbackServer
    """Where they go."""
    request: Callable[[int], bytes]
    """Makes the whole request of a number."""
    cpu: list[float] = field(factory=list, init=False)
    """CPU seconds of the server's process for one request, round by round."""
    rates: list[float] = field(factory=list, init=False)
    """Requests answered in a second."""
    statuses: Counter[int] = field(factory=Counter, init=False)
    """Answers of each status."""

    async def ring(self, numbers: range, *, connections: int) -> None:
        """Send the callbacks of these numbers, and note what that took."""
        requests = [self.request(number) for number in numbers]
        before = self.server.cpu_seconds()
        answers = await send(self.server.url, requests, connections=connections)
        self.cpu.append((self.server.cpu_seconds() - before) / len(requests))
        self.rates.append(len(requests) / answers.seconds)
        self.statuses += answers.statuses

    def forget(self) -> None:
        """Take what came so far as a warming up."""
        self.cpu.clear()
        self.rates.clear()
        self.statuses.clear()

    def against(self, what: str, other: "Timed") -> Row:
        """Return the row of its CPU for a request over that of another, by the median round."""
        ratio = median(a / b for a, b in zip(self.cpu, other.cpu, strict=True))
        micro = ", ".join(f"{median(one.cpu) * _MICRO:.0f}" for one in (self, other))
        return Row(
            what=f"{what} / {other.name}",
            measured=f"{ratio:.2f} ({micro} µs)",
            value=ratio,
            rounds=len(self.cpu),
        )


async def alternated(kinds: Sequence[Timed], scale: CallbackScale, *, requests: int) -> None:
    """Send callbacks of each kind in turn, as many rounds as the scale has.

    Args:
        kinds: which.
        scale: how many rounds, and how many connections.
        requests: callbacks of each kind in one round, numbered on from round to round.
    """
    for kind in kinds:
        await kind.ring(_WARM_NUMBERS[: requests // 2], connections=scale.connections)
        kind.forget()
    for turn in range(scale.rounds):
        numbers = range(turn * requests, (turn + 1) * requests)
        # Whoever goes first finds the machine in another state than who goes last.
        for kind in kinds if turn % 2 == 0 else reversed(kinds):
            await kind.ring(numbers, connections=scale.connections)


def answered(what: str, kinds: Sequence[Timed], status: int, sent: int) -> Row:
    """Return the row that says whether all were answered as they should be.

    Args:
        what: who answered.
        kinds: whose answers.
        status: which answer is right.
        sent: callbacks that were sent.
    """
    right = sum(kind.statuses[status] for kind in kinds)
    return Row(
        what=f"{what} answered with {status}",
        measured=f"{right:,} of {sent:,}",
        goal="all",
        is_met=right == sent,
    )
