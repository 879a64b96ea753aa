"""What a poller asks of the place where its progress is kept; knows no such place."""

from collections.abc import Sequence
from typing import Protocol

from attrs import field, frozen

from income_client.records.dead_letters import DeadLetter


@frozen(kw_only=True)
class StoredCheckpoint:
    """What a store holds under a name."""

    checkpoint: str | None = field(repr=False)
    """The text of the last commit; None where there was none."""
    version: int
    """How often something was saved under this name; 0 where nothing was."""


class CheckpointStore(Protocol):
    """Keeps how far pollers have come, each by its name, and what they could not read.

    Every change is one compare-and-set: it is made as a whole, and only on the
    version that it was meant for. Whoever claims a name saves once; from then on
    every older claimant is refused.
    """

    async def load(self, name: str) -> StoredCheckpoint:
        """Return what is stored.

        Args:
            name: the poller's.

        Raises:
            CheckpointError: the store cannot be read, or is not one.
        """
        ...

    async def save(
        self,
        name: str,
        checkpoint: str,
        *,
        version: int,
        dead_letters: Sequence[DeadLetter] = (),
        resolved: Sequence[str] = (),
    ) -> int:
        """Replace the checkpoint and change the dead letters, all of it or nothing.

        Args:
            name: the poller's.
            checkpoint: the new text.
            version: the version that the caller knows; 0 where nothing was stored.
            dead_letters: to be put in, each in place of the one with the same key.
            resolved: keys of dead letters to be taken out, before others are put in.

        Returns:
            The new version, one more than before.

        Raises:
            CheckpointConflictError: the store is at another version; nothing was changed.
            CheckpointError: the store cannot be written; it is as it was, unless the
                error says otherwise.
        """
        ...

    async def dead_letters(self, name: str) -> Sequence[DeadLetter]:
        """Return what could not be read so far, in the order of the first attempts.

        Args:
            name: the poller's.

        Raises:
            CheckpointError: the store cannot be read, or is not one.
        """
        ...
