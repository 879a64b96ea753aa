"""How a run ends: what was broken, what led to it, and a digest of everything that happened."""

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
        """How many requests the service has answered."""
        ...

    def play(self) -> None:
        """Play the plan until its end, or until a promise is broken."""
        ...

    def is_relevant(self, entry: Entry) -> bool:
        """Return whether a line of the time line may have led to the broken promise."""
        ...


@frozen
class Outcome:
    """How a run has ended."""

    plan: Any
    violation: Violation | None
    hours: float
    steps: int
    calls: int
    situations: Counter[str]
    digest: str
    """The same for runs that were the same, event by event."""
    lines: tuple[str, ...] = field(repr=False)
    """What led to the violation, the last lines of it."""


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
