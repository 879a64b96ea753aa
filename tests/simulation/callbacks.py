"""Callbacks: the service updates an application, and somebody wakes the poller that works.

A `Callback` is drawn; `answer_by_deadline` watches what becomes of it. A process calls its poller's
``wake()``, or, where it has no poller, the store's ``ring()``.
"""

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from attrs import define, evolve, frozen

from income_client import IncomeClientError

from . import promises
from .applications import Version
from .exclusions import exclusion_of
from .loops import Machine
from .stores import client_of

if TYPE_CHECKING:
    from .cluster import Cluster
    from .consumers import Process

_LOOK: Final = 0.25
"""Seconds between two looks at a wake-up that was not answered yet."""
_PAIRS: Final = 0.3
"""Share of the callbacks that another one follows within a second, on the same machine."""
_PROMPT: Final = 1.0
"""Seconds after an update within which the service shows it, for a wake-up to be sure."""
_LONGEST_PAUSE: Final = 75.0
"""Seconds after a failure within which all that has failed is tried again, without a wake-up."""


@frozen(kw_only=True)
class Callback:
    """An update of an application, and a wake-up on a machine."""

    at: float
    number: int
    """Number of the application."""
    target: int
    """The machine that receives it."""
    is_ring: bool
    """Whether a process without a poller receives it, and rings the bell of the store."""
    delay: float
    """Seconds between the moment at which the list shows the update and the wake-up."""


def draw_callbacks(
    chance: random.Random, begins: Sequence[float], length: float, applications: int, machines: int
) -> tuple[Callback, ...]:
    """Draw callbacks for epochs and their quiet periods."""
    callbacks, gap = [], chance.choice((20.0, 60.0, 200.0))
    for begin in begins:
        at = begin
        while (at := at + chance.expovariate(1 / gap)) < begin + length:
            callback = Callback(
                at=at,
                number=chance.randrange(applications),
                target=chance.randrange(machines),
                is_ring=chance.random() < 0.3,
                delay=chance.choice((-1.0, 0.0, 0.0, 0.5)),
            )
            callbacks.append(callback)
            if chance.random() < _PAIRS:
                number, later = chance.randrange(applications), at + chance.random()
                callbacks.append(evolve(callback, at=later, number=number, delay=0.0))
    return tuple(callbacks)


@define(eq=False)
class WakeUp:
    """A wake-up, until what it was for is delivered."""

    version: Version
    who: str
    is_direct: bool
    """Whether it has reached the poller that works, and not its store."""
    disturbances: int
    is_sure: bool
    """Whether nothing can keep it from being answered at once: no fault, now or lately."""
    waited: float = 0.0
    """Seconds for which the poller that works has done nothing but wait since then."""


def play(run: "Cluster", callback: Callback) -> None:
    """Update an application, and wake somebody once the list shows it."""
    version = run.touch(f"app-{callback.number}")
    if version is None:
        return
    shown_at = version.listed_at + run.plan.rules.oldest_read
    moment = max(run.world.now, shown_at + callback.delay)
    run.world.at(moment, lambda: _wake(run, callback, version))


def _wake(run: "Cluster", callback: Callback, version: Version) -> None:
    if callback.is_ring:
        _ring(run, version)
        return
    process = run.process_at(callback.target)
    if process is None or not hasattr(process, "poller") or process.task.done():
        return
    process.machine.call_soon(_call_wake, run, process, version)


def _call_wake(run: "Cluster", process: "Process", version: Version) -> None:
    is_standby = process.is_standby
    is_passed_on = process.poller.wake()
    has_ended = run.plan.once and process.poller.status.polls > 0
    if not (process.is_stopping or has_ended):
        promises.judge_answer(run, process, is_standby=is_standby, is_passed_on=is_passed_on)
    is_direct = not is_standby
    run.world.count("wake-up: " + ("of the leader" if is_direct else "of a standby"))
    _watch(run, version, process.machine.name, is_direct=is_direct, is_heard=is_passed_on)


def _ring(run: "Cluster", version: Version) -> None:
    """Ring the bell in a process of its own."""
    machine = Machine(run.world, f"ringer-{version.number}", rate=1.0, offset=0.0)
    client = client_of(run.store, machine)

    async def ring() -> None:
        is_heard = client.has_bell
        if is_heard:
            try:
                await client.ring("default")
            except IncomeClientError:
                is_heard = False
        run.world.count("wake-up: rung without a poller")
        _watch(run, version, machine.name, is_direct=False, is_heard=is_heard)

    task = machine.create_task(ring())
    task.add_done_callback(lambda _: machine.kill("has rung"))


def _watch(run: "Cluster", version: Version, who: str, *, is_direct: bool, is_heard: bool) -> None:
    """Watch a wake-up from now on."""
    leader = run.leader
    shown_at = version.listed_at + run.plan.rules.oldest_read
    # What is listed late is looked for the more seldom the later it is, by polls to come.
    is_shown = run.world.now >= shown_at and shown_at - version.made_at <= _PROMPT
    reaches = is_direct or run.plan.kind.has_bell
    is_sure = is_heard and reaches and is_shown and leader is not None and is_settled(run)
    wake_up = WakeUp(version, who, is_direct, run.disturbances, is_sure)
    run.world.note(who, f"wakes the poller for {version}", version.application_id)
    run.world.after(_LOOK, lambda: _look(run, wake_up))


def _look(run: "Cluster", wake_up: WakeUp) -> None:
    """Judge a wake-up that was not answered yet, and look again a little later."""
    version = wake_up.version
    is_delivered = version.number in run.books.received
    is_latest = run.books.pending.get(version.application_id) is version
    is_passed = version.number in run.books.behind or exclusion_of(run, version) is not None
    if is_delivered or not is_latest or is_passed:
        kind = "at once" if wake_up.is_sure else "in time"
        run.world.count(f"wake-up answered {kind}" if is_delivered else "wake-up: superseded")
        return
    if run.disturbances != wake_up.disturbances or not is_settled(run):
        wake_up.is_sure = False
    leader = run.leader
    is_past = version.second < run.service.second
    if leader is not None and leader.is_waiting and is_past and is_settled(run):
        wake_up.waited += _LOOK
        promises.judge_wake_up(run, wake_up, leader)
    if not run.is_over:
        run.world.after(_LOOK, lambda: _look(run, wake_up))


def is_settled(run: "Cluster") -> bool:
    """Return whether all is well, and no poller waits any more because something has failed."""
    now, service = run.world.now, run.service
    longest = max(_LONGEST_PAUSE, 2 * run.plan.settings.interval)
    failed_at = max(run.calm_since, run.books.returned_at, service.failed_at)
    return run.is_calm and not service.is_standing and now - failed_at > longest
