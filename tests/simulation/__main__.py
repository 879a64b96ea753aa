"""Play seeds, and print each promise that is broken.

The exit status is 0 if nothing is broken, 1 if a seed has failed or, after --minutes, a required
situation has not come about, and 2 for wrong arguments.
"""

import argparse
import gc
import logging
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable
from itertools import count, takewhile
from typing import Any, Final

from .outcomes import Outcome
from .plan import PROFILES, Profile
from .scenarios import SCENARIOS, Scenario
from .shrinking import shrink
from .situations import ONCE_FAILED, missing_from, table_of

_SHRINKING: Final = 45.0
"""Seconds for which a plan is shrunk."""


def main() -> int:
    """Play what the command line says; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--scenario", choices=SCENARIOS, help="pollers, or all with --minutes")
    parser.add_argument("--profile", choices=PROFILES, default="small")
    parser.add_argument("--seed", type=int, help="play one seed, and show what led to a failure")
    parser.add_argument("--shrink", action="store_true", help="leave out what it does not need")
    parser.add_argument("--first", type=int, default=0, help="first of several seeds (0)")
    parser.add_argument("--count", type=int, default=100, help="number of seeds (100)")
    parser.add_argument("--minutes", type=float, help="play seeds for this time instead")
    parser.add_argument("--stop", action="store_true", help="stop at the first that fails")
    parser.add_argument("--once-failed", action="store_true", help="play those that failed once")
    parser.add_argument("--digests", action="store_true", help="print the digest of each seed")
    given = parser.parse_args()
    if given.shrink and given.seed is None:
        parser.error("--shrink needs --seed")
    _prepare()
    scenario, profile = SCENARIOS[given.scenario or "pollers"], PROFILES[given.profile]
    if given.seed is not None:
        return _play_one(scenario, scenario.draw(given.seed, profile), shrinks=given.shrink)
    shown = {"digests": given.digests, "stops": given.stop}
    if given.once_failed:
        failed = [(SCENARIOS[one], PROFILES[name], seed) for one, name, seed in ONCE_FAILED]
        return _play_all(failed, **shown)
    if given.minutes is None:
        last = given.first + given.count
        return _play_all(((scenario, profile, seed) for seed in range(given.first, last)), **shown)
    scenarios = [scenario] if given.scenario else list(SCENARIOS.values())
    share = given.minutes / len(scenarios)
    return max(_play_for(share, one, profile, given.first, **shown) for one in scenarios)


def _prepare() -> None:
    """Have the seed alone decide what happens, and nothing but the outcome be printed."""
    logging.disable(logging.CRITICAL)
    # A machine that is killed leaves coroutines behind, some of them before their first step.
    sys.unraisablehook = lambda _: None
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    gc.collect()
    gc.freeze()


def _play_one(scenario: Scenario, plan: Any, *, shrinks: bool) -> int:
    outcome = scenario.play(plan)
    if outcome.violation is not None and shrinks:
        outcome = shrink(scenario, outcome, seconds=_SHRINKING)
    _print_outcome(outcome)
    return int(outcome.violation is not None)


def _print_outcome(outcome: Outcome) -> None:
    print(outcome.plan.summary)
    print(*outcome.lines, sep="\n")
    ending = outcome.violation or "nothing is broken"
    print(f"seed {outcome.plan.seed}, digest {outcome.digest}: {ending}")


def _play_for(
    minutes: float, scenario: Scenario, profile: Profile, first: int, *, digests: bool, stops: bool
) -> int:
    """Play one seed of a scenario after the other for some minutes."""
    ends_at = time.monotonic() + 60 * minutes
    seeds = takewhile(lambda _: time.monotonic() < ends_at, count(first))
    print(f"{scenario.name}, {profile.name}, from seed {first}:", flush=True)
    plans = ((scenario, profile, seed) for seed in seeds)
    requires = None if stops else scenario
    return _play_all(plans, digests=digests, stops=stops, requires=requires)


def _play_all(
    plans: Iterable[tuple[Scenario, Profile, int]],
    *,
    digests: bool,
    stops: bool,
    requires: Scenario | None = None,
) -> int:
    """Play plans; every situation that a scenario requires must have come about."""
    began, failed = time.process_time(), 0
    hours, calls, runs = 0.0, 0, 0
    times: Counter[str] = Counter()
    seeds: Counter[str] = Counter()
    missing: list[str] = []
    for scenario, profile, seed in plans:
        outcome = scenario.play(scenario.draw(seed, profile))
        gc.collect()
        runs, hours, calls = runs + 1, hours + outcome.hours, calls + outcome.calls
        times.update(outcome.situations)
        seeds.update(outcome.situations.keys())
        if digests:
            print(f"{seed} {outcome.digest}", flush=True)
        if outcome.violation is not None:
            failed += 1
            print(f"{scenario.name} {profile.name} seed {seed}: {outcome.violation}")
            replay = f"--scenario {scenario.name} --profile {profile.name} --seed {seed}"
            print(f"    python -m tests.simulation {replay} --shrink", flush=True)
            if stops:
                break
    seconds = time.process_time() - began
    if requires is not None:
        print(table_of(times, seeds))
        missing = missing_from(times, requires.name)
    for name in missing:
        print(f"never: {name}")
    work = f"{hours:.0f} simulated hours, {calls} calls"
    print(f"{runs} seeds, {failed} failed, {work}, {seconds:.1f} s")
    return int(bool(failed or missing))


if __name__ == "__main__":
    sys.exit(main())
