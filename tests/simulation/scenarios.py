"""The scenarios: what each draws from a seed, and how it is played."""

from collections.abc import Callable
from typing import Any, Final

from attrs import frozen

from .cluster import Cluster
from .outcomes import Outcome, Run, play_run
from .plan import Plan, Profile
from .streams import draw_relay
from .tokens import TokenPlan, TokenRun
from .walk_plan import WalkPlan
from .walks import WalkRun


@frozen
class Scenario:
    """The subject of a simulation."""

    name: str
    draw: Callable[[int, Profile], Any]
    """Makes the plan of a seed."""
    run: Callable[[Any], Run]
    """Prepares the run of a plan."""
    shrinks: tuple[str, ...]
    """Fields of the plan whose items can be left out."""

    def play(self, plan: Any) -> Outcome:
        """Play a plan."""
        return play_run(self.run(plan))


SCENARIOS: Final = {
    scenario.name: scenario
    for scenario in (
        Scenario("pollers", Plan.drawn, Cluster, ("faults", "updates", "callbacks")),
        Scenario("relay", draw_relay, Cluster, ("faults", "updates", "callbacks")),
        Scenario("tokens", TokenPlan.drawn, TokenRun, ("faults",)),
        Scenario("walks", WalkPlan.drawn, WalkRun, ("faults", "updates")),
    )
}
