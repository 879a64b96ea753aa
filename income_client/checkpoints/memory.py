"""A checkpoint store in memory, for tests and for pollers that may begin anew."""

from collections.abc import Sequence

from income_client.records.dead_letters import DeadLetter

from .store import Change, StoredCheckpoint, check_name, in_order, in_whole_seconds

_NOTHING = StoredCheckpoint(checkpoint=None, version=0)


class MemoryCheckpointStore:
    """Keep checkpoints as long as this object lives; see `CheckpointStore`."""

    def __init__(self) -> None:
        self._stored: dict[str, StoredCheckpoint] = {}
        self._letters: dict[str, dict[str, DeadLetter]] = {}

    async def load(self, name: str) -> StoredCheckpoint:
        """Return what is stored.

        Args:
            name: the poller's.

        Raises:
            ConfigurationError: the name is invalid.
        """
        check_name(name)
        return self._stored.get(name, _NOTHING)

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
            version: the version that the caller has loaded; 0 if nothing was stored.
            dead_letters: to be stored, each in place of the one with the same key.
            resolved: keys of dead letters to remove, before others are stored.

        Returns:
            The new version, one more than before.

        Raises:
            CheckpointConflictError: the store is at another version; nothing was changed.
            ConfigurationError: an argument is invalid.
        """
        change = Change(name, checkpoint, version, dead_letters, resolved)
        del checkpoint  # no frame of an error shows it
        change.check()
        stored = self._stored.get(name, _NOTHING).version
        if stored != version:
            raise change.conflict(stored)
        letters = self._letters.setdefault(name, {})
        for key in resolved:
            letters.pop(key, None)
        letters.update({letter.key: in_whole_seconds(letter) for letter in dead_letters})
        self._stored[name] = StoredCheckpoint(checkpoint=change.checkpoint, version=stored + 1)
        return stored + 1

    async def dead_letters(self, name: str) -> tuple[DeadLetter, ...]:
        """Return the dead letters, by the time of their first attempt.

        Args:
            name: the poller's.

        Raises:
            ConfigurationError: the name is invalid.
        """
        check_name(name)
        return in_order(self._letters.get(name, {}).values())
