"""What a poller knows of its name: whether it holds the lease, and what the store holds of it.

Every change is in one of two tables. The first is about the lease. Only a save of a poller that
holds it names it; after any other save a standby takes over at once.

              it is left   given up     held too long   another has saved, or the store is empty
    Held      Abandoned    Released     Overdue         Lost
    Abandoned -            Released     Overdue         Lost
    Released  -            -            -               -
    Overdue   -            -            -               -
    Lost      -            -            -               Lost

The second is about the last save. A save that was cancelled or has failed may have been made all
the same, until the store shows what it holds.

              a save goes out    it is made    the store holds ...
                                               last     sent     a later one of its own   another's
    sure      unsure             -             -        -        sure of that             -
    unsure    unsure of the new  sure of sent  sure     sure     sure of that             -

A checkpoint is the poller's own if it has the poller's mark, a random text in all that it saves:
versions are counts, and two pollers may have counted to the same number after a failover or a
restore from a backup.
"""

from collections.abc import Mapping
from typing import Final

from attrs import evolve, frozen

from income_client.checkpoints import StoredCheckpoint

from .checkpoint import Checkpoint, read_checkpoint


@frozen
class Save:
    """A save, and what the store holds once it is made."""

    checkpoint: Checkpoint
    stored: StoredCheckpoint
    sent_at: float

    @classmethod
    def following(cls, stored: StoredCheckpoint, checkpoint: Checkpoint, now: float) -> "Save":
        """Return the save that follows on what is stored."""
        new = StoredCheckpoint(checkpoint=checkpoint.text, version=stored.version + 1)
        return cls(checkpoint, new, now)


@frozen
class Held:
    """The poller works."""


@frozen
class Abandoned:
    """The poller was left without a word: a standby takes over once the lease has expired."""


@frozen
class Released:
    """The lease was given up: a standby takes over at once."""


@frozen
class Overdue:
    """The lease was given up because the consumer had held a batch for so many seconds."""

    seconds: float


@frozen
class Lost:
    """Another poller has taken over, or the store has no checkpoint any more."""

    has_vanished: bool


Hold = Held | Abandoned | Released | Overdue | Lost

_CHANGES: Final[Mapping[type[Hold], frozenset[type[Hold]]]] = {
    Held: frozenset({Abandoned, Released, Overdue, Lost}),
    Abandoned: frozenset({Released, Overdue, Lost}),
    Released: frozenset(),
    Overdue: frozenset(),
    Lost: frozenset({Lost}),
}
"""The first table."""


@frozen
class Ownership:
    """What a poller knows of its name."""

    last: Save
    """The last save that was made, as far as is known."""
    sent: Save | None = None
    """One more save, of which nothing has told whether it was made."""
    hold: Hold = Held()

    @property
    def is_held(self) -> bool:
        """Whether the poller holds the lease."""
        return isinstance(self.hold, Held)

    def changed_to(self, hold: Hold) -> "Ownership":
        """Return it after a change of the lease, if the table has that change."""
        is_change = type(hold) in _CHANGES[type(self.hold)]
        return evolve(self, hold=hold) if is_change else self

    def sending(self, save: Save) -> "Ownership":
        """Return it once a save was sent."""
        return evolve(self, sent=save)

    def made(self) -> "Ownership":
        """Return it once the save that was sent is known to be made."""
        return self if self.sent is None else evolve(self, last=self.sent, sent=None)

    def seen(self, stored: StoredCheckpoint) -> "Ownership | None":
        """Return it once the store was seen to hold this; None if that is another's."""
        if self.sent is not None and stored == self.sent.stored:
            return self.made()
        last, known = self.last, self.last.stored
        if stored != known:
            checkpoint = self._read_own(stored)
            if checkpoint is None:
                return None
            # A store of the user's may give back the members of a text in another order.
            if stored.version > known.version:
                last = Save(checkpoint, stored, last.sent_at)  # made after the store was asked
        return evolve(self, last=last, sent=None)

    def lost_to(self, stored: StoredCheckpoint) -> "Ownership":
        """Return it once the store was seen to hold what is another's, or nothing."""
        without = evolve(self, sent=None)
        return without.changed_to(Lost(has_vanished=stored.checkpoint is None))

    def _read_own(self, stored: StoredCheckpoint) -> Checkpoint | None:
        """Return a checkpoint that this poller has saved, the last one or a later one."""
        mark = self.last.checkpoint.holder
        if stored.checkpoint is None or stored.version < self.last.stored.version or mark is None:
            return None
        checkpoint = read_checkpoint(stored.checkpoint)
        return checkpoint if checkpoint.holder == mark else None
