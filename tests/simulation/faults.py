"""Faults of a run: one function for each kind of fault in a plan."""

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from attrs import evolve

from .applications import DEFECTS
from .letters import forget_deleted
from .loops import World
from .service import SimulatedService
from .stores import Outage
from .streams import begin_trouble

if TYPE_CHECKING:
    from .cluster import Cluster
    from .consumers import Process

_MOST_STEPS: Final = 300
_LONGEST_PAUSE: Final = 4.0
"""Leases for which a machine is paused, at most."""
_LONGEST_TROUBLE: Final = 400.0
_LONGEST_DEFECT: Final = 300.0
_LONGEST_OUTAGE: Final = 200.0
_OUTAGES: Final = ("lost", "reply_lost", "refused", "is_read_only", "is_away", "is_slow")
_SHARES: Final = (0.1, 0.5, 1.0)
_FAR_BACK: Final = (600, 600, 600, 3_600, 7_200)
"""Seconds by which a clock is set back that is wrong."""
_RARE: Final = 0.3
"""Share of the faults that cost a store its checkpoint."""


class ServiceRun(Protocol):
    """A run of any scenario that has the service."""

    world: World
    service: SimulatedService

    def end_trouble(self) -> None:
        """Have the service answer well again."""
        ...

    def touch(self, application_id: str) -> object:
        """Have the service update an application, unless it is deleted."""
        ...


def _kill(_run: "Cluster", process: "Process", chance: random.Random) -> None:
    process.machine.fuse = chance.randrange(_MOST_STEPS)


def _stop(_run: "Cluster", process: "Process", _chance: random.Random) -> None:
    process.stop()


def _pause(_run: "Cluster", process: "Process", chance: random.Random) -> None:
    seconds = process.settings.lease * chance.random() * _LONGEST_PAUSE
    process.machine.suspend(seconds, stops_clock=chance.random() < 0.3)


def _cancel(_run: "Cluster", process: "Process", _chance: random.Random) -> None:
    process.machine.call_soon(process.task.cancel)


def _hold(_run: "Cluster", process: "Process", _chance: random.Random) -> None:
    process.must_hold = True


def make_trouble(run: ServiceRun, chance: random.Random) -> None:
    """Have the service answer a share of the requests badly for some minutes."""
    kinds = ("status", "throttled", "refused", "lost", "cut", "slow")
    kind, share = chance.choice(kinds), chance.choice(_SHARES)
    run.service.trouble = evolve(run.service.trouble, **{kind: share})
    run.world.after(_LONGEST_TROUBLE * chance.random(), run.end_trouble)


def _fail_store(run: "Cluster", chance: random.Random) -> None:
    kind, share = chance.choice(_OUTAGES), chance.choice(_SHARES)
    changes: dict[str, Any] = {kind: True if kind.startswith("is_") else share}
    run.begin_outage(evolve(run.store.outage, **changes))
    run.world.after(_LONGEST_OUTAGE * chance.random(), run.end_outage)


def _have_hiccups(run: "Cluster", chance: random.Random) -> None:
    """Have the store away for three seconds, several times, with good minutes between."""

    def begin() -> None:
        if not run.is_quiet:
            run.begin_outage(Outage(is_away=True))

    gap = 10 + 40 * chance.random()
    for number in range(chance.randrange(3, 11)):
        run.world.after(number * gap, begin)
        run.world.after(number * gap + 3, run.end_outage)


def _fail_over(run: "Cluster", chance: random.Random) -> None:
    """Lose the last saves: with the power of the machine, or to a replica without them."""
    kind = run.plan.kind
    if not kind.loses:
        return
    if kind.name == "sqlite":  # its file is on the machine of all processes
        for process in run.processes:
            run.world.count("machine: power cut")
            process.machine.kill("has no power")
    letters = dict(run.store.state.letters)
    if run.store.roll_back(kind.loses * chance.random()):
        run.world.count("store: rolled back")
        run.note_lost_saves(letters)


def _empty(run: "Cluster", chance: random.Random) -> None:
    """Lose the checkpoint and the dead letters: FLUSHALL, a bucket made again."""
    if chance.random() < _RARE and run.store.state.stored.checkpoint is not None:
        letters = dict(run.store.state.letters)
        run.store.empty()
        run.world.count("store: emptied")
        if run.plan.must_exist:  # otherwise hardly ever does a process meet an empty store
            for process in run.processes:
                process.machine.kill("is lost with its store")
        run.note_lost_saves(letters, keeps_rows=True)


def _restore(run: "Cluster", chance: random.Random) -> None:
    backup = run.backup
    is_there = backup is not None and backup.stored.checkpoint is not None
    if backup is None or not is_there or chance.random() > _RARE:
        return
    if run.store.state.stored.checkpoint is not None:
        letters = dict(run.store.state.letters)
        run.store.restore(backup)
        run.world.count("store: restored from a backup")
        run.note_lost_saves(letters)


def _set_clock_back(run: "Cluster", chance: random.Random) -> None:
    """Set the service's clock back within settle or, once, by much more."""
    settle, rules = int(run.plan.settings.settle), run.plan.rules
    is_first = all(seconds <= settle for _, seconds in run.service.set_back)
    is_first = is_first and not run.plan.zone.shift
    seconds = int(chance.random() * settle) - rules.latest - rules.oldest_read
    if is_first and chance.random() < _RARE:
        seconds = chance.choice(_FAR_BACK)
    if seconds > 0:
        run.world.count("clock set back: " + ("within settle" if seconds <= settle else "far"))
        run.service.set_clock_back(seconds)
        run.world.note("service", f"sets its clock back by {seconds:.1f} s")


def stop_clock(run: ServiceRun, chance: random.Random) -> None:
    """Have the service's clock stand still, for a minute at most."""
    if not run.service.is_standing:
        run.world.count("clock stands still")
        run.service.stop_clock()
        run.world.after(60 * chance.random(), run.service.release_clock)


def delete(run: ServiceRun, chance: random.Random) -> None:
    """Delete an application, some of them only for a while."""
    applications = [one for one in run.service.applications.values() if not one.is_deleted]
    if not applications:
        return
    application = chance.choice(applications)
    application.is_deleted = True
    run.world.note("service", f"deletes {application.id}", application.id)

    def restore() -> None:
        application.is_deleted = False
        application.restored_at = run.world.now
        run.touch(application.id)

    if chance.random() < 0.5:
        run.world.after(100 * chance.random(), restore)


def spoil(run: ServiceRun, chance: random.Random) -> None:
    """Have an application that cannot be read, or listed, for some minutes."""
    if not run.service.applications:
        return
    application = chance.choice(list(run.service.applications.values()))
    application.defect = chance.choice(DEFECTS)
    what = f"has a defect in {application.id}: {application.defect}"
    run.world.note("service", what, application.id)
    if chance.random() < 0.7:
        run.touch(application.id)

    def mend() -> None:
        run.world.note("service", f"mends {application.id}", application.id)
        if application.defect == "missing":  # it was forgotten perhaps, and is made again
            run.touch(application.id)
        application.defect = None

    run.world.after(_LONGEST_DEFECT * chance.random(), mend)


def _poison(run: "Cluster", chance: random.Random) -> None:
    """Have the consumer's block fail on an application, however often it comes."""
    run.poisonous = chance.choice([None, *run.service.applications])
    run.world.note("fault", f"the consumer fails on {run.poisonous}", run.poisonous)


def _forget(run: "Cluster", _chance: random.Random) -> None:
    forget_deleted(run)


ON_PROCESSES: Final[dict[str, Callable[["Cluster", "Process", random.Random], None]]] = {
    "kill": _kill,
    "stop": _stop,
    "pause": _pause,
    "cancel": _cancel,
    "hold": _hold,
}
"""Faults of one process."""

ON_ALL: Final[dict[str, Callable[["Cluster", random.Random], None]]] = {
    "trouble": make_trouble,
    "store": _fail_store,
    "hiccups": _have_hiccups,
    "failover": _fail_over,
    "empty": _empty,
    "restore": _restore,
    "clock back": _set_clock_back,
    "clock stands": stop_clock,
    "delete": delete,
    "spoil": spoil,
    "poison": _poison,
    "forget": _forget,
    "stream": begin_trouble,
}
"""Faults of the service, of the store and of a relay's stream."""
