"""The books of a run: what was updated, delivered, written and committed, and by which process.

Nothing is judged here; `promises` judges by what the books hold.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from attrs import define, field, frozen

from income_client import DeadLetter
from income_client.checkpoints import StoredCheckpoint
from income_client.polling.checkpoint import Checkpoint, read_checkpoint

from .applications import Version
from .letters import LetterBook
from .loops import Machine, World
from .service import SimulatedService
from .stores import Row, StoreServer

if TYPE_CHECKING:
    from .plan import Settings

_SKEW: Final = 60
"""Seconds by which an update may lie ahead of the service's clock and be remembered."""

read = lru_cache(maxsize=256)(read_checkpoint)


def position_of(checkpoint: Checkpoint) -> int:
    """Return the second before which everything is said to be delivered."""
    if checkpoint.resumes_at is None:
        return checkpoint.reached
    return min(checkpoint.resumes_at, checkpoint.reached)


@frozen
class OwnDatabase:
    """A consumer's own database, in which it keeps the checkpoint beside its rows."""

    checkpoint: str | None = None
    committed: dict[str, int] = field(factory=dict)


@define(eq=False)
class Life:
    """The deliveries to one process, and the redeliveries that it may receive."""

    settings: "Settings"
    given: OwnDatabase
    """Content of the consumer's own database at the start of the process."""
    remembered: dict[str, int] = field(factory=dict)
    """Versions in the checkpoint: the last committed one of each application."""
    known: dict[str, int] = field(factory=dict)
    """The version of each application that was delivered last, as its poller must know."""
    returned: set[Row] = field(factory=set)
    """Rows of batches whose block has failed or was left: each may come once more."""
    failed: set[Row] = field(factory=set)
    """Rows of these batches whose commit was not begun: no save may cover them."""
    takeovers: int = 0
    """Number of times that the process has acquired the lease."""
    uncommitted: list[Row] = field(factory=list)
    """Records that it was given, in batches that no save covers yet."""


@frozen
class Save:
    """A save that the store has made."""

    machine: Machine
    old: Checkpoint | None
    new: Checkpoint
    at: float
    is_other: bool
    """Whether another machine had made the save before."""

    @property
    def is_takeover(self) -> bool:
        """Whether the name was acquired by it."""
        is_first = self.old is None or self.old.holder != self.new.holder
        return is_first or self.is_other


@frozen
class Beginning:
    """The beginning of a name."""

    at: float
    second: int


@define(eq=False)
class Books:
    """Everything that a run has to account for."""

    world: World
    service: SimulatedService
    pending: dict[str, Version] = field(factory=dict)
    """Latest versions that no consumer has written."""
    behind: set[int] = field(factory=set)
    """Numbers of versions made in seconds that a checkpoint may have passed before."""
    written: dict[str, Row] = field(factory=dict)
    """The row of each application with the greatest sequence."""
    lives: dict[Machine, Life] = field(factory=dict)
    own: OwnDatabase = field(factory=OwnDatabase)
    beginning: Beginning | None = None
    last: Save | None = None
    furthest: int = 0
    """The latest second that a checkpoint may have reached, stored or not."""
    retired: set[str] = field(factory=set)
    """Marks of holders that were replaced."""
    received: set[int] = field(factory=set)
    """Numbers of the versions that any consumer was given."""
    returned_at: float = float("-inf")
    """Time at which a batch was last scheduled for redelivery."""
    letters: LetterBook = field(factory=LetterBook)
    restored: list[tuple[float, int]] = field(factory=list)
    """Times at which the store has lost saves, and the positions of the remaining checkpoints."""

    def updated(self, version: Version) -> None:
        """Expect a version."""
        self.pending[version.application_id] = version
        # A batch of the last page that was listed may be committed after the clock was set back.
        settles = [life.settings.settle for life in self.lives.values()]
        self.furthest = max(
            self.furthest, self.service.latest_listed - int(min(settles, default=0))
        )
        if version.second < self.furthest:
            self.behind.add(version.number)

    def is_repeated(self, machine: Machine, row: Row) -> bool:
        """Return whether a process is given what its poller must know to be delivered."""
        life = self.lives[machine]
        is_known = life.known.get(row.application_id) == row.version and not row.is_torn
        return is_known and row not in life.returned

    def delivered(self, machine: Machine, row: Row) -> None:
        """Note that a process was given a record."""
        life = self.lives[machine]
        # A batch that comes again says nothing of what its poller has read since.
        if row not in life.returned:
            _remember(life.known, row)
        life.returned.discard(row)
        life.failed.discard(row)
        life.uncommitted.append(row)
        if not row.is_torn:
            self.received.add(row.version)

    def returned(self, machine: Machine, rows: Iterable[Row], *, has_failed: bool) -> None:
        """Note that a batch may be delivered again; it must, if it has failed."""
        self.returned_at = self.world.now
        life, batch = self.lives[machine], set(rows)
        life.returned |= batch
        if has_failed:
            life.failed |= batch

    def wrote(self, rows: Iterable[Row]) -> None:
        """Note what a consumer has made durable."""
        for row in rows:
            if self.service.applications[row.application_id].latest.number == row.version:
                self.pending.pop(row.application_id, None)
            last = self.written.get(row.application_id)
            if last is None or row.sequence >= last.sequence:
                self.written[row.application_id] = row

    def keep_own(self, machine: Machine, text: str) -> None:
        """Note that a consumer has written a checkpoint in the transaction of its rows."""
        self.own = OwnDatabase(text, self._covered(self.lives[machine], read(text)))

    def save_of(self, server: StoreServer, machine: Machine, before: StoredCheckpoint) -> Save:
        """Return the save that the store has just made."""
        text = server.state.stored.checkpoint
        assert text is not None
        old = None if before.checkpoint is None else read(before.checkpoint)
        is_other = self.last is not None and self.last.machine is not machine
        return Save(machine, old, read(text), self.world.now, is_other)

    def saved(self, server: StoreServer, save: Save) -> None:
        """Note a save that was judged."""
        life = self.lives[save.machine]
        if save.is_takeover:
            self._acquired(server, life, save)
        server.state.committed = life.remembered = self._covered(life, save.new)
        sequence = save.new.sequence
        life.uncommitted = [row for row in life.uncommitted if row.sequence > sequence]
        self.last = save

    def _acquired(self, server: StoreServer, life: Life, save: Save) -> None:
        """Have a process know what the checkpoint remembers that it resumes from."""
        if save.old is not None and save.old.holder is not None:
            self.retired.add(save.old.holder)
        given = life.given
        if given.checkpoint is not None:
            is_ahead = save.old is None or read(given.checkpoint).progress > save.old.progress
            if is_ahead:
                server.state.committed = given.committed
        life.remembered, life.known = server.state.committed, dict(server.state.committed)
        life.returned, life.failed, life.uncommitted = set(), set(), []
        life.takeovers += 1

    def _covered(self, life: Life, checkpoint: Checkpoint) -> dict[str, int]:
        """Return which versions a checkpoint covers and remembers.

        What the list can show no more is forgotten, and so are times far ahead of the service's
        clock. Both may be delivered once more after the clock was set back: the guide says so.
        A poller knows the time that a record reports, which an update of its documents alone
        does not change.
        """
        covered = dict(life.remembered)
        for row in life.uncommitted:
            if row.sequence <= checkpoint.sequence:
                _remember(covered, row)
        oldest = position_of(checkpoint) - life.settings.lookback - 1
        latest, reported = self.service.second + _SKEW, self.service.reported
        return {
            application_id: number
            for application_id, number in covered.items()
            if oldest <= reported[number] <= latest
        }

    def store_lost_saves(
        self, server: StoreServer, letters: dict[str, DeadLetter], *, own: bool
    ) -> None:
        """Note that the store holds an older state, and which dead letters it had before."""
        self.retired.clear()
        self.last = None  # whoever made the save that is the last one now
        self.letters.stored = dict(server.state.letters)
        self.letters.removed.clear()
        if (text := server.state.stored.checkpoint) is not None:
            self.restored.append((self.world.now, position_of(read(text))))
        if own:
            lost = [letters[key] for key in letters.keys() - server.state.letters.keys()]
            self.letters.lost += lost
            self.world.count("own checkpoint: dead letters lost with the store", len(lost))

    def lost_rows(self, rows: Sequence[Row]) -> None:
        """Expect again what a database has lost together with the checkpoint."""
        kept = {(row.application_id, row.version) for row in rows}
        self.written.clear()
        self.wrote(rows)
        for application in self.service.applications.values():
            if (application.id, application.latest.number) not in kept:
                self.pending[application.id] = application.latest


def _remember(versions: dict[str, int], row: Row) -> None:
    """Note the version that a poller delivered last, or that it was none that ever was."""
    if row.is_torn:
        versions.pop(row.application_id, None)
    else:
        versions[row.application_id] = row.version
