"""The outcome of a run: its violations, the events before them, and a digest of all events."""

import gc
import hashlib
from collections import Counter
from typing import Any, Final, Protocol

from attrs import field, frozen

from .loops import Entry, Violation, World

_LINES: Final = 40


class Run(Protocol):
    """A run of a plan, of any scenario."""

    plan: Any
    world: World

    @property
    def calls(self) -> int:
        """Number of requests that the service has answered."""
        ...

    def play(self) -> None:
        """Play the plan until its end, or until a promise is broken."""
        ...

    def is_relevant(self, entry: Entry) -> bool:
        """Return whether a line of the time line may have led to the broken promise."""
        ...


@frozen
class Outcome:
    """The outcome of a run."""

    plan: Any
    violation: Violation | None
    hours: float
    steps: int
    calls: int
    situations: Counter[str]
    digest: str
    """The same for runs that were the same, event by event."""
    lines: tuple[str, ...] = field(repr=False)
    """Last lines of the timeline before the violation."""


def play_run(run: Run) -> Outcome:
    """Play a run; the garbage collector runs between runs only."""
    world = run.world
    gc.disable()
    try:
        run.play()
    finally:
        for machine in [*world.machines, *world.graves]:
            machine.bury()
        gc.enable()
    text = "\n".join([repr(run.plan), *map(str, world.line), str(world.steps)])
    relevant = [entry for entry in world.line if run.is_relevant(entry)]
    return Outcome(
        plan=run.plan,
        violation=world.violation,
        hours=world.now / 3_600,
        steps=world.steps,
        calls=run.calls,
        situations=world.situations,
        digest=hashlib.blake2b(text.encode(), digest_size=8).hexdigest(),
        lines=() if world.violation is None else tuple(map(str, relevant[-_LINES:])),
    )
