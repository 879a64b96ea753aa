"""The plan of a run, which is drawn from the seed before the run begins."""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import evolve, frozen

from .callbacks import Callback, draw_callbacks
from .loops import EPOCH_OF_RUNS
from .released import Release
from .service import Rules
from .stores import POSTGRES, Kind
from .zones import Zone

_CALM: Final = 0.1
"""Share of runs without faults."""
_ONCE: Final = 0.15
"""Share of runs whose programs are started by cron, and poll once."""
_MUST_EXIST: Final = 0.4
"""Share of runs whose programs refuse a store that has lost its checkpoint."""
_BURST: Final = 0.1
"""Share of updates that come together with others, in the same second."""
_MOST_IN_A_BURST: Final = 40
_NEAR_A_CHANGE: Final = 30
"""Updates shortly before and after the moment at which clocks are changed."""
_LOOKING_BACK: Final = 0.5
"""Share of programs whose polls look back as far as the zone's clocks go back."""

CONSUMERS: Final = (
    "records",
    "batches",
    "tasks",
    "collected",
    "two loops",
    "transaction",
    "transactions in tasks",
    "own checkpoint",
)
FAULTS: Final = {
    "kill": 2,
    "stop": 1,
    "pause": 2,
    "cancel": 1,
    "hold": 1,
    "trouble": 2,
    "store": 2,
    "hiccups": 1,
    "failover": 1,
    "empty": 1,
    "restore": 1,
    "clock back": 1,
    "clock stands": 1,
    "delete": 1,
    "spoil": 2,
    "poison": 1,
    "forget": 1,
}
"""The kinds of faults, each with its weight."""


@frozen(kw_only=True)
class Profile:
    """The size of runs."""

    name: str
    epochs: int
    intervals: tuple[float, ...]
    leases: tuple[float, ...]
    seconds: tuple[float, ...]
    """Of an epoch of faults."""
    applications: tuple[int, ...]
    update_gaps: tuple[float, ...]
    """Mean seconds between updates."""
    fault_gaps: tuple[float, ...]
    """Mean seconds between faults."""
    quiet: float
    """Seconds of a quiet period, beside those that intervals and leases take."""


PROFILES: Final = {
    profile.name: profile
    for profile in (
        Profile(
            name="small",
            epochs=2,
            intervals=(5.0, 30.0, 60.0),
            leases=(4.0, 6.0, 15.0),
            seconds=(200.0, 400.0, 600.0),
            applications=(3, 12, 40),
            update_gaps=(4.0, 20.0, 60.0),
            fault_gaps=(10.0, 30.0, 90.0),
            quiet=200.0,
        ),
        Profile(
            name="full",
            epochs=3,
            intervals=(5.0, 30.0, 30.0, 60.0, 240.0),
            leases=(2.0, 15.0, 15.0, 60.0),
            seconds=(600.0, 1_800.0, 3_600.0),
            applications=(3, 20, 200),
            update_gaps=(2.0, 20.0, 120.0),
            fault_gaps=(20.0, 90.0, 400.0),
            quiet=400.0,
        ),
    )
}


@frozen(kw_only=True)
class Fault:
    """Something that goes wrong at a moment; ``detail`` seeds how."""

    at: float
    kind: str
    detail: int
    target: int
    """The machine that it falls on, where it falls on one."""

    def __str__(self) -> str:
        return f"{self.at:9.2f} {self.kind} (machine {self.target}, {self.detail})"


@frozen(kw_only=True)
class Settings:
    """The settings of one process."""

    interval: float
    settle: float
    lookback: float
    lease: float


@frozen(kw_only=True)
class Plan:
    """All that is drawn for a run."""

    seed: int
    profile: Profile
    machines: int
    standby: bool
    consumer: str
    kind: Kind
    settings: Settings
    changes_settings: bool
    """Whether a process may be started with other settings than the one before."""
    rules: Rules
    zone: Zone
    documents: bool
    """Whether documents are read and updated as well."""
    page: int
    """Rows of a page of the list."""
    batch: int
    """Records of a batch."""
    once: bool
    """Whether each process polls once and ends, and cron starts the next."""
    must_exist: bool
    """Whether every process but the first refuses a store without a checkpoint."""
    starts_now: bool
    past: float
    """Seconds between the updates before a run; 0 puts all of them into one second."""
    fails: float
    """Share of the consumer's blocks that fail."""
    holds: float
    """Seconds for which a consumer works on a batch, at most."""
    updates: tuple[tuple[float, int], ...]
    """Times of updates with their applications; times below 0 are before the run."""
    faults: tuple[Fault, ...]
    callbacks: tuple[Callback, ...]
    epoch: float
    """Seconds of an epoch of faults."""
    quiet: float
    """Seconds of the quiet period after it."""
    release: Release | None
    """State of the store after a poller of version 0.2.0; None for a new store."""

    @classmethod
    def drawn(cls, seed: int, profile: Profile) -> "Plan":
        """Draw a run."""
        chance = random.Random(f"{profile.name} {seed}")
        settings = Settings(
            interval=chance.choice(profile.intervals),
            settle=chance.choice((0.0, 2.0, 5.0, 5.0, 30.0)),
            lookback=chance.choice((0.0, 0.0, 0.0, 60.0)),
            lease=chance.choice(profile.leases),
        )
        consumer = chance.choice(CONSUMERS)
        kind = Kind.drawn(chance)
        if consumer.startswith("transaction"):
            kind = evolve(POSTGRES, loses=kind.loses)
        is_single = consumer == "own checkpoint"
        machines = 1 if is_single else chance.choice((1, 2, 3))
        epoch = chance.choice(profile.seconds)
        quiet = profile.quiet + 3 * settings.interval + 15 * settings.lease
        begins = [number * (epoch + quiet) for number in range(profile.epochs)]
        applications, is_calm = chance.choice(profile.applications), chance.random() < _CALM
        zone = Zone.drawn(chance, begins, epoch)
        if zone.shift < 0 and chance.random() < _LOOKING_BACK:
            # Each poll reads every application again that was updated within the hour.
            settings = evolve(settings, lookback=-zone.shift)
            applications = min(profile.applications)
        release = Release.drawn(chance, settings.lease)
        updates = draw_updates(chance, profile.update_gaps, begins, epoch, applications)
        if zone.shift:
            updates += _draw_updates_near(chance, zone.changes_at - EPOCH_OF_RUNS, applications)
        return cls(
            seed=seed,
            profile=profile,
            machines=machines,
            standby=machines > 1 or (not is_single and chance.random() < 0.5),
            consumer=consumer,
            kind=kind,
            settings=settings,
            changes_settings=chance.random() < 0.3,
            rules=Rules.drawn(chance, settings.settle),
            zone=zone,
            documents=release is None and chance.random() < 0.4,
            page=chance.choice((5, 50, 1000)),
            batch=chance.choice((1, 7, 100)),
            once=chance.random() < _ONCE,
            must_exist=chance.random() < _MUST_EXIST,
            starts_now=chance.random() < 0.4,
            past=chance.choice((0.0, 0.1, 1.0, 30.0)),
            fails=0.0 if is_calm else chance.choice((0.0, 0.1 * ("tasks" in consumer), 0.1)),
            holds=chance.choice((0.01, 0.5, 3.0)),
            updates=tuple(sorted(updates)),
            faults=()
            if is_calm
            else draw_faults(chance, FAULTS, profile.fault_gaps, begins, epoch, machines),
            epoch=epoch,
            quiet=quiet,
            release=release,
            callbacks=draw_callbacks(chance, begins, epoch + quiet / 3, applications, machines),
        )

    @property
    def summary(self) -> str:
        """The plan in a few lines, without its updates and faults."""
        shown: dict[str, Any] = {
            "consumer": self.consumer,
            "machines": self.machines,
            "standby": self.standby,
            "store": self.kind,
            "settings": self.settings,
            "rules": self.rules,
            "zone": self.zone,
            "documents": self.documents,
            "once": self.once,
            "must_exist": self.must_exist,
            "page": self.page,
            "batch": self.batch,
            "release": self.release,
            "updates": len(self.updates),
            "faults": len(self.faults),
            "callbacks": len(self.callbacks),
        }
        return "\n".join(f"{name}: {value}" for name, value in shown.items())


def _draw_updates_near(
    chance: random.Random, moment: float, applications: int
) -> tuple[tuple[float, int], ...]:
    """Draw updates shortly before and after the moment at which a zone's clocks are changed."""
    return tuple(
        (max(0.0, moment + chance.uniform(-30, 10)), chance.randrange(applications))
        for _ in range(_NEAR_A_CHANGE)
    )


def draw_updates(
    chance: random.Random,
    gaps: Sequence[float],
    begins: Sequence[float],
    seconds: float,
    applications: int,
) -> tuple[tuple[float, int], ...]:
    """Draw when which application is updated: once before the run, and so long from each begin."""
    updates = [(-float(number), number) for number in range(applications)]
    gap = chance.choice(gaps)
    for begin in begins:
        at = begin
        while (at := at + chance.expovariate(1 / gap)) < begin + seconds:
            many = chance.randrange(1, _MOST_IN_A_BURST) if chance.random() < _BURST else 1
            updates += [(at, chance.randrange(applications)) for _ in range(many)]
    return tuple(sorted(updates))


def draw_faults(
    chance: random.Random,
    weights: Mapping[str, int],
    gaps: Sequence[float],
    begins: Sequence[float],
    seconds: float,
    machines: int = 1,
) -> tuple[Fault, ...]:
    """Draw faults of these kinds, so long from each begin."""
    faults, gap = [], chance.choice(gaps)
    for begin in begins:
        at = begin
        while (at := at + chance.expovariate(1 / gap)) < begin + seconds:
            (kind,) = chance.choices(list(weights), list(weights.values()))
            detail, target = chance.randrange(10**6), chance.randrange(machines)
            faults.append(Fault(at=at, kind=kind, detail=detail, target=target))
    return tuple(faults)
