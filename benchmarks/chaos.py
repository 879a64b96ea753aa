"""Pollers killed at random: ``python -m benchmarks.chaos [--kills 300] [--seed N]``.

Each life is a process of its own on one SQLite store, against a service that
changes all the time, shows updates late and fails now and then. What they wrote
before they committed is held against what the service had. The table says what
was found, and is what the test suite asserts in a shorter form.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from attrs import field, frozen

from .chaos_stage import Plan, Stage
from .chaos_verdict import Verdict, judge, read_results
from .table import Row, at_most, render

_BATCH: Final = 100
_KILLED: Final = -9
_SECONDS_PER_KILL: Final = 5.0
_LONG_LIVES: Final = 0.05


@frozen(kw_only=True)
class Figures:
    """What a run came to."""

    kills: int
    """Lives ended by SIGKILL."""
    places: Mapping[str, int]
    """By what the worker was about: how many of these."""
    faults: int
    """Replies that the service spoiled."""
    polls: int
    """Polls that began."""
    versions: int
    """Versions that the service had, each application's first one included."""
    dead_letters: int
    """Applications that were dead letters for a while."""
    checkpoint: int
    """Most letters of a checkpoint after a kill."""
    records: int
    """Records that the workers noted."""
    verdict: Verdict = field(repr=False)
    """What does not fit."""
    accidents: int
    """Lives that ended in a way that nobody had ordered."""
    steps_back: int
    """How often the store was behind what it had been."""
    steps_ahead: int
    """How often its checkpoint was too close to the present."""
    seconds: float
    """How long it took."""

    @property
    def most_repeated(self) -> int:
        """Most records that came again for one kill."""
        return max(self.verdict.repeated.values(), default=0)

    @property
    def violations(self) -> dict[str, int]:
        """Everything that must not be, by what it is; empty if all is well."""
        verdict = self.verdict
        counts = {
            "versions lost that were current during a whole poll": len(verdict.lost),
            "last versions lost": len(verdict.stale),
            "kills with more than a batch of repetitions": max(0, self.most_repeated - _BATCH),
            "repetitions without a kill": len(verdict.unexcused),
            "records that the service never had": len(verdict.unknown),
            "records older than one before": len(verdict.backward),
            "lives that ended by themselves": self.accidents,
            "times that the store went back": self.steps_back,
            "times that the checkpoint was ahead": self.steps_ahead,
        }
        return {what: count for what, count in counts.items() if count}


async def run(plan: Plan) -> Figures:
    """Play a plan and judge it.

    Args:
        plan: how long and how hard.

    Raises:
        TimeoutError: it came to no end.
    """
    began = time.perf_counter()
    with TemporaryDirectory(prefix="chaos-") as folder:
        async with asyncio.timeout(60 + plan.kills * _SECONDS_PER_KILL):
            async with Stage.set_up(plan, Path(folder)) as stage:
                await stage.play()
        deliveries = read_results(stage.results)
    verdict = judge(stage.chronicle, deliveries, stage.lives, stage.calm)
    killed = stage.lives[: plan.kills]
    codes = [life.code for life in stage.lives]
    ordered = [_KILLED] * plan.kills + [0] * (len(codes) - plan.kills)
    return Figures(
        kills=len(killed),
        places=Counter(life.place for life in killed),
        faults=stage.faults,
        polls=len(stage.chronicle.polls),
        versions=len(stage.chronicle.versions),
        dead_letters=len(stage.store.letters),
        checkpoint=stage.store.longest,
        records=len(deliveries),
        verdict=verdict,
        accidents=sum(is_ != ought for is_, ought in zip(codes, ordered, strict=True)),
        steps_back=stage.store.steps_back,
        steps_ahead=stage.store.steps_ahead,
        seconds=time.perf_counter() - began,
    )


def rows(figures: Figures) -> list[Row]:
    """Return the table of a run."""
    verdict = figures.verdict
    places = ((f"  killed {place}", count) for place, count in sorted(figures.places.items()))
    counts = {
        "kills by SIGKILL, each followed by a restart": figures.kills,
        **dict(places),
        "replies spoiled by the service": figures.faults,
        "polls begun": figures.polls,
        "versions made": figures.versions,
        "  delivered": len(verdict.delivered),
        "  current during a whole poll, and so owed": verdict.owed,
        "records delivered, repetitions included": figures.records,
        "  repetitions": verdict.repeated.total(),
        "applications that were dead letters for a while": figures.dead_letters,
        "longest checkpoint after a kill, in letters": figures.checkpoint,
    }
    most = figures.most_repeated
    return [
        *(Row(what=what, measured=f"{count:,}") for what, count in counts.items()),
        at_most("most repetitions for one kill", most, _BATCH, shown=f"{most}"),
        _none("versions lost of those owed", len(verdict.lost)),
        _none("last versions of an application lost", len(verdict.stale)),
        _none("repetitions without a kill", len(verdict.unexcused)),
        _none("records that are wrong, or older than one before", _wrong(verdict)),
        _none("lives that ended by themselves", figures.accidents),
        _none("times that the store went back", figures.steps_back),
        _none("times that the checkpoint was too close to the present", figures.steps_ahead),
    ]


def _none(what: str, count: int) -> Row:
    return at_most(what, count, 0, shown=f"{count}")


def _wrong(verdict: Verdict) -> int:
    return len(verdict.unknown) + len(verdict.backward)


def main(arguments: Sequence[str] | None = None) -> None:
    """Play as long as the command line says, and print the table.

    Args:
        arguments: in place of those of the process.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=300, help="how many; 300 by default")
    parser.add_argument("--seed", type=int, default=1, help="of all chance; 1 by default")
    parser.add_argument("--applications", type=int, default=1_200, help="1,200 by default")
    options = parser.parse_args(arguments)
    print(f"killing {options.kills} pollers ...", file=sys.stderr, flush=True)
    plan = Plan(
        kills=options.kills,
        seed=options.seed,
        applications=options.applications,
        long_lives=_LONG_LIVES,
    )
    figures = asyncio.run(run(plan))
    print(render(rows(figures)))
    print(f"\nplayed in {figures.seconds:.0f} s")
    if figures.violations:
        for version in (*figures.verdict.lost[:5], *figures.verdict.stale[:5]):
            print(version)
        raise SystemExit(1)


if __name__ == "__main__":
    main()
