"""The standbys of a run: each looks at the store often enough, and takes over in time.

They are watched every second, also amid faults: what a standby does depends on the store and on its
own machine alone. The deadlines are those of the table "Lease and takeover" of `scaling.md`.
"""

from typing import TYPE_CHECKING, Final

from .deliveries import read
from .loops import Machine
from .promises import CLOCK_RATE
from .stores import LONGEST_CALL

if TYPE_CHECKING:
    from .cluster import Cluster
    from .consumers import Process

_SECONDS: Final = 1.0
"""Seconds between two judgements of the standbys."""
_LOOKS: Final = 10
"""Looks of a standby at the store during its lease."""
_SLACK: Final = 0.1
NOT_RELEASED: Final = ("scaling.md", "A leader that stops while the store fails releases nothing")
"""The page and the sentence that let a standby wait for a lease although its leader has stopped."""
BEGINNING: Final = ("scaling.md", "it looks at the store again only then")
"""The page and the sentence that let a standby not look at a store without a checkpoint."""


def watch(run: "Cluster") -> None:
    """Judge all standbys, now and every second until the run is over."""
    for process in run.processes:
        _note_standby(run, process)
        if process.stands_by_since is not None:
            _judge_looks(run, process)
            _judge_takeover(run, process, process.stands_by_since)
    if not run.is_over:
        run.world.after(_SECONDS, lambda: watch(run))


def judge_release(run: "Cluster", machine: Machine) -> None:
    """Judge what a leader leaves that has stopped: a lease that is released."""
    last, text = run.books.last, run.store.state.stored.checkpoint
    if last is None or last.machine is not machine or text is None:
        return
    is_answered = run.is_calm and run.world.now - run.calm_since > LONGEST_CALL
    if is_answered and read(text).lease != 0:  # NOT_RELEASED excludes others
        _fail(run, f"{machine.name} has stopped, and has not released its lease")


def _note_standby(run: "Cluster", process: "Process") -> None:
    """Note since when a process stands by without a pause of its machine."""
    is_holder = run.books.last is not None and run.books.last.machine is process.machine
    is_running = process.machine.paused_until <= run.world.now and not process.is_stopping
    if not (is_running and process.is_standby) or is_holder:
        process.stands_by_since = None
    elif process.stands_by_since is None and process.client.looked_at is not None:
        process.stands_by_since = run.world.now


def _judge_looks(run: "Cluster", process: "Process") -> None:
    """Judge how long a standby has not looked at the store: a tenth of its lease."""
    client, now = process.client, run.world.now
    if client.under_way or client.found_nothing:
        return  # it is looking, or BEGINNING excludes it
    pause = now - max(client.ended_at, process.stands_by_since or 0.0)
    if pause > process.settings.lease / _LOOKS * (1 + CLOCK_RATE) + _SLACK:
        _fail(run, f"{process.machine.name}, a standby, does not look at the store: {pause:.1f} s")


def _judge_takeover(run: "Cluster", process: "Process", since: float) -> None:
    """Judge how long a lease has been free that a standby watches.

    A leader saves at least every half of its lease, and a standby notices each save within a tenth
    of its own, and the end of the lease within another. A released lease takes one look.
    """
    last, text = run.books.last, run.store.state.stored.checkpoint
    if text is None or not run.is_calm:
        return
    own, lease = process.settings.lease, read(text).lease
    lease = own if lease is None else lease
    look = own / _LOOKS
    # A call that was sent in an outage may be without an answer for a while.
    changed_at = max(run.store.lost_saves_at, float("-inf") if last is None else last.at)
    since = max(changed_at, run.calm_since + LONGEST_CALL, since + look + _SECONDS)
    waited = run.world.now - since
    if waited > lease > 0:
        run.world.count("standby: lease expired")
    looks = 2 * look if lease else look
    if waited > (lease + looks) * (1 + CLOCK_RATE) + 8 * run.plan.kind.delay + _SLACK:
        leases = waited / (lease or own)
        what = f"{process.machine.name}, a standby, has not taken over after {leases:.1f} leases"
        _fail(run, f"{what} without a save")


def _fail(run: "Cluster", what: str) -> None:
    run.world.fail("promise scaling, takeover", what)
