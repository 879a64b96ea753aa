"""A store that forgets with its process: for tests, and where a restart may begin anew."""

from collections.abc import Sequence

from income_client.errors import ConfigurationError
from income_client.records.dead_letters import DeadLetter

from .change import change_of, conflict, in_order, is_name, wrong_name
from .store import StoredCheckpoint

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
            ConfigurationError: the name is none.
        """
        if not is_name(name):
            raise wrong_name()
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
            version: the version that the caller knows; 0 where nothing was stored.
            dead_letters: to be put in, each in place of the one with the same key.
            resolved: keys of dead letters to be taken out, before others are put in.

        Returns:
            The new version, one more than before.

        Raises:
            CheckpointConflictError: the store is at another version; nothing was changed.
            ConfigurationError: an argument cannot be meant.
        """
        change = change_of(
            name,
            checkpoint,
            version=version,
            dead_letters=dead_letters,
            resolved=resolved,
        )
        del checkpoint  # a raising frame does not show it
        if isinstance(change, ConfigurationError):
            raise change
        stored = self._stored.get(name, _NOTHING).version
        if change.version != stored:
            raise conflict(change, stored=stored)
        letters = self._letters.setdefault(name, {})
        for key in change.resolved:
            letters.pop(key, None)
        letters.update({letter.key: letter for letter in change.dead_letters})
        self._stored[name] = StoredCheckpoint(checkpoint=change.checkpoint, version=stored + 1)
        return stored + 1

    async def dead_letters(self, name: str) -> tuple[DeadLetter, ...]:
        """Return what could not be read so far, in the order of the first attempts.

        Args:
            name: the poller's.

        Raises:
            ConfigurationError: the name is none.
        """
        if not is_name(name):
            raise wrong_name()
        return in_order(self._letters.get(name, {}).values())
