"""The plan of a run of walks, which is drawn from the seed before the run begins."""

import random
from typing import Final

from attrs import evolve, frozen

from .loops import EPOCH_OF_RUNS
from .plan import Fault, Profile, draw_faults, draw_updates
from .service import Rules

SECONDS: Final = 200.0
"""Seconds of updates and faults."""
_FAULTS: Final = {
    "kill": 4,
    "cancel": 2,
    "pause": 1,
    "trouble": 2,
    "clock back": 1,
    "clock stands": 1,
    "delete": 1,
}
_WALKS: Final = 3
_WINDOWS_OF_A_SPAN: Final = 8
"""Windows of the widest span that a walk covers where the service cuts windows short."""


@frozen(kw_only=True)
class WalkPlan:
    """All that is drawn for a run of walks."""

    seed: int
    rules: Rules
    page: int
    """Rows of a page of the list."""
    concurrency: int
    on_saturated: str
    spans: tuple[tuple[int | None, int | None], ...]
    """The bounds of each walk, in seconds of the service."""
    by_rows: bool
    """Whether the program loops over rows, and not over pages."""
    names_bounds: bool
    """Whether a life that resumes names the bounds again."""
    iterates_again: bool
    """Whether the program iterates a walk again after an error, or ends."""
    rests: float
    """Seconds for which the program works on a page, at most."""
    past: float
    """Seconds between the updates before the run."""
    updates: tuple[tuple[float, int], ...]
    """Times of updates with their applications; times below 0 are before the run."""
    faults: tuple[Fault, ...]

    @classmethod
    def drawn(cls, seed: int, profile: Profile) -> "WalkPlan":
        """Draw a run."""
        chance = random.Random(f"walks {profile.name} {seed}")
        widest = chance.choice((None, None, 60, 600, 3_600))
        rules = evolve(Rules.drawn(chance, 0.0), max_span=widest)
        applications = chance.choice(profile.applications)
        past = chance.choice((0.0, 0.1, 1.0, 30.0, 300.0))
        gaps, begins = (0.2, 2.0, 20.0), (0.0,)
        is_calm = chance.random() < 0.1
        return cls(
            seed=seed,
            rules=rules,
            page=chance.choice((2, 3, 5, 50, 1000)),
            concurrency=chance.choice((1, 2, 4, 8)),
            on_saturated=chance.choice(("raise", "report")),
            spans=tuple(_draw_span(chance, rules, past, applications) for _ in range(_WALKS)),
            by_rows=chance.random() < 0.5,
            names_bounds=chance.random() < 0.5,
            iterates_again=chance.random() < 0.5,
            rests=chance.choice((0.0, 0.5, 5.0)),
            past=past,
            updates=draw_updates(chance, gaps, begins, SECONDS, applications),
            faults=()
            if is_calm
            else draw_faults(chance, _FAULTS, (5.0, 15.0, 40.0), begins, SECONDS),
        )

    @property
    def summary(self) -> str:
        """The plan in a few lines, without its updates and faults."""
        shown = repr(evolve(self, updates=(), faults=()))
        return f"{shown}\nupdates: {len(self.updates)}\nfaults: {len(self.faults)}"


def _draw_span(
    chance: random.Random, rules: Rules, past: float, applications: int
) -> tuple[int | None, int | None]:
    """Draw bounds: none, on the second of an update, or between them; some in the future."""
    length = int(past * applications)
    lower = chance.choice((-int(past * chance.randrange(applications)), -length - 10))
    if rules.max_span is not None:
        lower = max(lower, -_WINDOWS_OF_A_SPAN * rules.max_span)
    after = None if rules.max_span is None and chance.random() < 0.2 else lower
    uppers = (
        None,
        None,
        0,
        lower + min(chance.randrange(length + 20), -lower),
        chance.randrange(1, 400),
    )
    before = chance.choice(uppers)
    if before is not None:
        before = max(before, lower)
    return _second_of(after), _second_of(before)


def _second_of(bound: int | None) -> int | None:
    return None if bound is None else EPOCH_OF_RUNS + bound
