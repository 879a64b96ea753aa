"""The state of a lease and of the last save, as one poller knows them; two tables have all changes.

The lease. Only a poller in the state Held names the lease in its saves; after a save in any other
state, a standby takes over at once.

               consumer left   released   batch overdue   checkpoint of another poller, or none
    Held       Abandoned       Released   Overdue         Lost
    Abandoned  -               Released   Overdue         Lost
    Released   -               -          -               -
    Overdue    -               -          -               -
    Lost       -               -          -               Lost

The last save. The outcome of a save is unknown after a cancellation or a lost reply, until the
store's content shows it.

               save sent   save confirmed   the store holds ...
                                            the last save   the sent save   a later own save
    known      unknown     -                known           -               known: that save
    unknown    unknown     known: sent one  known: last     known: sent     known: that save

A checkpoint is a poller's own if it contains the poller's mark, a random text in all its saves. A
version cannot tell: versions are counts, and after a failover or a restore from a backup two
pollers may have counted to the same number.
"""

from collections.abc import Mapping
from typing import Final

from attrs import evolve, frozen

from income_client.checkpoints import StoredCheckpoint

from .checkpoint import Checkpoint, read_checkpoint


@frozen
class Save:
    """A checkpoint that is sent to the store, and the content of the store after that save."""

    checkpoint: Checkpoint
    stored: StoredCheckpoint
    sent_at: float

    @classmethod
    def following(cls, stored: StoredCheckpoint, checkpoint: Checkpoint, now: float) -> "Save":
        """Return the save that replaces the stored checkpoint."""
        new = StoredCheckpoint(checkpoint=checkpoint.text, version=stored.version + 1)
        return cls(checkpoint, new, now)


@frozen
class Held:
    """The poller holds the lease, and polls."""


@frozen
class Abandoned:
    """The consumer stopped without releasing the lease; a standby takes over when it expires."""


@frozen
class Released:
    """The poller released the lease; a standby takes over at once."""


@frozen
class Overdue:
    """The poller released the lease because its consumer worked on one batch for too long."""

    seconds: float
    """Duration of the consumer's work on the batch."""


@frozen
class Lost:
    """Another poller has taken over, or the checkpoint has vanished from the store."""

    has_vanished: bool
    """Whether the store has no checkpoint of the name any more."""


Hold = Held | Abandoned | Released | Overdue | Lost

_CHANGES: Final[Mapping[type[Hold], frozenset[type[Hold]]]] = {
    Held: frozenset({Abandoned, Released, Overdue, Lost}),
    Abandoned: frozenset({Released, Overdue, Lost}),
    Released: frozenset(),
    Overdue: frozenset(),
    Lost: frozenset({Lost}),
}
"""The changes of a lease, as in the first table."""


@frozen
class Ownership:
    """The lease and the last save of one poller."""

    last: Save
    """The last save that is known to be made."""
    sent: Save | None = None
    """A later save with an unknown outcome; None if there is none."""
    hold: Hold = Held()

    @property
    def is_held(self) -> bool:
        """Whether the poller holds the lease."""
        return isinstance(self.hold, Held)

    def after_change(self, hold: Hold) -> "Ownership":
        """Return the ownership after a change of the lease; unchanged if the table has a dash."""
        is_change = type(hold) in _CHANGES[type(self.hold)]
        return evolve(self, hold=hold) if is_change else self

    def after_sending(self, save: Save) -> "Ownership":
        """Return the ownership after a save was sent."""
        return evolve(self, sent=save)

    def after_confirmation(self) -> "Ownership":
        """Return the ownership after the sent save was confirmed."""
        return self if self.sent is None else evolve(self, last=self.sent, sent=None)

    def after_load(self, stored: StoredCheckpoint) -> "Ownership | None":
        """Return the ownership after a load from the store; None if another poller has saved."""
        if self.sent is not None and stored == self.sent.stored:
            return self.after_confirmation()
        last, last_stored = self.last, self.last.stored
        if stored != last_stored:
            checkpoint = self._read_own(stored)
            if checkpoint is None:
                return None
            # With an equal version, the store has only reordered the members of the text.
            if stored.version > last_stored.version:
                last = Save(checkpoint, stored, last.sent_at)  # a save that the store made late
        return evolve(self, last=last, sent=None)

    def after_loss(self, stored: StoredCheckpoint) -> "Ownership":
        """Return the ownership after the store has shown another poller's checkpoint, or none."""
        without = evolve(self, sent=None)
        return without.after_change(Lost(has_vanished=stored.checkpoint is None))

    def _read_own(self, stored: StoredCheckpoint) -> Checkpoint | None:
        """Return the stored checkpoint if this poller made that save, or None."""
        mark = self.last.checkpoint.holder
        if stored.checkpoint is None or stored.version < self.last.stored.version or mark is None:
            return None
        checkpoint = read_checkpoint(stored.checkpoint)
        return checkpoint if checkpoint.holder == mark else None
