"""The base class of checkpoint stores, what every store checks, and the store in memory."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from operator import attrgetter
from typing import Any, ClassVar, Final

from attrs import evolve, field, frozen

from income_client.errors import CheckpointConflictError, ConfigurationError, InvalidArgumentError
from income_client.records.dead_letters import DeadLetter
from income_client.system.texts import has_surrogate

_INTEGERS: Final = range(-(2**63), 2**63)


@frozen(kw_only=True)
class StoredCheckpoint:
    """The checkpoint and the facts that a store keeps under a poller's name."""

    checkpoint: str | None = field(repr=False)
    """The text of the last save; None if nothing was saved."""
    version: int
    """Number of saves under this name; 0 if there was none."""


_NOTHING: Final = StoredCheckpoint(checkpoint=None, version=0)


class CheckpointStore(ABC):
    """Keeps the checkpoints of pollers, each under its name, and their dead letters.

    Every save is one atomic compare-and-set: it changes everything or nothing, and only if
    the store is still at the version, and has the text, that the caller has loaded. A poller
    saves once at its start; from then on every older poller of the name gets a conflict.

    A store of your own derives from this class and defines ``load``, ``save`` and
    ``dead_letters``. The other methods have defaults, for a store that cannot do more.
    """

    is_of_event_loop: bool = False
    """Whether the store belongs to one event loop, as its connections may; `SyncIncomeClient`
    refuses such a store."""
    has_bell: ClassVar[bool] = False
    """Whether the store counts rings, by which ``Poller.wake`` reaches the poller that works."""

    @property
    def log_name(self) -> str:
        """Name of the store in logs."""
        return type(self).__name__

    @abstractmethod
    async def load(self, name: str) -> StoredCheckpoint:
        """Return the stored checkpoint.

        Args:
            name: the poller's.

        Raises:
            CheckpointError: the store cannot be read.
            ConfigurationError: the name is invalid.
        """

    @abstractmethod
    async def save(
        self,
        name: str,
        checkpoint: str,
        *,
        version: int,
        dead_letters: Sequence[DeadLetter] = (),
        resolved: Sequence[str] = (),
        replaces: str | None = None,
    ) -> int:
        """Replace the checkpoint and change the dead letters, atomically.

        Versions are counts, and counts can meet: after a failover or a restore from a backup,
        two pollers may each have counted to the same number. The texts of two pollers differ,
        since each holds a mark of the poller that has saved it: so both are compared.

        Args:
            name: the poller's.
            checkpoint: the new text.
            version: the version that the caller has loaded; 0 if nothing was stored.
            dead_letters: to be stored, each in place of the one with the same key.
            resolved: keys of dead letters to remove, before others are stored.
            replaces: the text that must be stored, beside that version; None for any.

        Returns:
            The new version, one more than before.

        Raises:
            CheckpointConflictError: the store is at another version, or has another text;
                nothing was changed.
            CheckpointError: the store failed; only a load shows whether it was changed.
            ConfigurationError: an argument is invalid.
        """

    @abstractmethod
    async def dead_letters(self, name: str) -> Sequence[DeadLetter]:
        """Return the dead letters, by the time of their first attempt.

        Args:
            name: the poller's.

        Raises:
            CheckpointError: the store cannot be read.
            ConfigurationError: the name is invalid.
        """

    async def forget(self, name: str, keys: Iterable[str]) -> tuple[str, ...]:
        """Remove dead letters whose applications need not be read any more.

        The checkpoint and its version stay as they are, so that it disturbs no poller of the
        name. One that runs forgets them when its next poll begins; if it is storing one of them
        at this very moment, that one may come back once. An application that is listed later
        and cannot be read becomes a new dead letter.

        Args:
            name: the poller's.
            keys: of the dead letters, as `DeadLetter.key` has them; unknown ones are ignored.

        Returns:
            The keys of those that it has removed; together, but for stores without transactions.

        Raises:
            CheckpointError: the store failed; only `dead_letters` shows what was removed.
            ConfigurationError: the name is invalid, or the store cannot forget.
        """
        raise self._cannot("forget dead letters")

    async def retry(self, name: str, keys: Iterable[str]) -> tuple[str, ...]:
        """Make dead letters due at once, by setting their numbers of attempts to zero.

        The checkpoint and its version stay as they are, so that it disturbs no poller of the
        name. One that runs tries them in its next poll, which ``ring`` begins at once; otherwise
        the next poller of the name does. If a poller has tried one of them and is storing that at
        this very moment, its attempt counts, and the pause after it stays.

        Args:
            name: the poller's.
            keys: of the dead letters, as `DeadLetter.key` has them; unknown ones are ignored.

        Returns:
            The keys of those that are due now; together, but for stores without transactions.

        Raises:
            CheckpointError: the store failed; only `dead_letters` shows what was changed.
            ConfigurationError: the name is invalid, or the store cannot change dead letters.
        """
        raise self._cannot("retry dead letters")

    async def names(self) -> Sequence[str]:
        """Return the names under which a checkpoint is stored, in alphabetical order.

        Raises:
            CheckpointError: the store cannot be read.
            ConfigurationError: the store cannot list its names.
        """
        raise self._cannot("list its names")

    async def ring(self, name: str) -> bool:
        """Wake the poller that works under a name: it polls within two seconds.

        It need not be made with ``standby``.

        Args:
            name: the poller's.

        Returns:
            Whether a poller has ever stored a checkpoint under the name here. False is the sign of
            a mistyped name, or of another store; whether the poller runs now is not known.

        Raises:
            CheckpointError: the store failed, and the poller may not be woken.
            ConfigurationError: the name is invalid, or the store has no bell.
        """
        raise self._cannot("wake a poller")

    async def count_rings(self, name: str) -> int:
        """Return a number that each ring of a name changes; a poller in its pause looks at it.

        Args:
            name: the poller's.

        Raises:
            CheckpointError: the store cannot be read.
            ConfigurationError: the name is invalid, or the store has no bell.
        """
        raise self._cannot("count rings")

    async def check_rights(self, name: str) -> None:
        """Raise the error that a save would raise, without a change.

        A poller that begins to stand by calls it, to find out now whether it could save.

        Args:
            name: the poller's.

        Raises:
            CheckpointError: nothing can be saved under the name.
            ConfigurationError: the name is invalid.
        """

    def transaction(self, connection: Any) -> AbstractAsyncContextManager["CheckpointStore"]:
        """Begin a transaction; see ``Batch.transaction``.

        Args:
            connection: of the store's database.

        Returns:
            A context manager that gives a store bound to the transaction, and commits it at the
            end of the block.

        Raises:
            ConfigurationError: the store has no transactions.
        """
        raise self._cannot("save in a transaction")

    async def end_when_idle(self, seconds: float) -> None:
        """Make the database end this store's transaction after a number of idle seconds.

        A poller calls it right before its save, of a store that ``transaction`` has given.

        Args:
            seconds: of silence, after which the caller's process counts as lost.

        Raises:
            CheckpointError: the database has refused it.
        """

    def _cannot(self, what: str) -> ConfigurationError:
        return InvalidArgumentError(f"{self.log_name} cannot {what}", argument="store")


@frozen
class Change:
    """The arguments of one save."""

    name: str
    checkpoint: str = field(repr=False)
    version: int
    dead_letters: Sequence[DeadLetter]
    resolved: Sequence[str]
    replaces: str | None = field(default=None, repr=False)

    def check_arguments(self) -> None:
        """Raise `ConfigurationError` for an argument that no store could save."""
        check_name(self.name)
        if not _is_text(self.checkpoint):
            raise InvalidArgumentError(
                "checkpoint must be a str of valid Unicode without NUL", argument="checkpoint"
            )
        if type(self.version) is not int or self.version < 0:
            raise InvalidArgumentError("version must be an int, 0 or more", argument="version")
        if not all(map(_is_sound, self.dead_letters)):
            raise InvalidArgumentError(
                "dead_letters must be DeadLetter values with naive times", argument="dead_letters"
            )
        if isinstance(self.resolved, str) or not all(map(_is_text, self.resolved)):
            raise InvalidArgumentError("resolved must be keys of dead letters", argument="resolved")
        if self.replaces is not None and not _is_text(self.replaces):
            raise InvalidArgumentError(
                "replaces must be None, or the text of a checkpoint", argument="replaces"
            )

    def follows(self, stored: StoredCheckpoint) -> bool:
        """Return whether the stored checkpoint is the one that the change replaces."""
        is_text = self.replaces is None or stored.checkpoint == self.replaces
        return stored.version == self.version and is_text

    def conflict_error(self, stored: int) -> CheckpointConflictError:
        """Return the error for a store that is at another version, or has another text."""
        if stored == self.version:
            return CheckpointConflictError(
                f"checkpoint {self.name!r} was saved by another process or poller"
            )
        return CheckpointConflictError(
            f"checkpoint {self.name!r} is at version {stored}, not at {self.version}: "
            f"{reason_of_conflict(stored, self.version)}"
        )


def reason_of_conflict(stored_version: int, own_version: int) -> str:
    """Return why a store may be at another version than the one that a poller has saved."""
    if stored_version >= own_version:
        return "another process or poller has taken over"
    return (
        "the store is older than what this poller has saved, as after a restore from a backup; "
        "start the poller again to resume from there"
    )


def check_name(name: object, argument: str = "name") -> None:
    """Raise `ConfigurationError` unless a value can be the name of a poller."""
    if not _is_text(name) or name == "":
        raise InvalidArgumentError(f"{argument} must be a str that is not empty", argument=argument)


def checked_keys(keys: object) -> tuple[str, ...]:
    """Return keys of dead letters, each once; raise `ConfigurationError` for anything else."""
    if isinstance(keys, Iterable) and not isinstance(keys, str):
        texts = tuple(keys)
        if all(map(_is_text, texts)):
            return tuple(dict.fromkeys(texts))
    raise InvalidArgumentError("keys must be keys of dead letters", argument="keys")


def in_order(letters: Iterable[DeadLetter]) -> tuple[DeadLetter, ...]:
    """Return dead letters by the time of their first attempt."""
    return tuple(sorted(letters, key=attrgetter("first_tried_at", "key")))


def is_storable(text: str) -> bool:
    """Return whether every database accepts a text; a database's error would show the text."""
    return "\0" not in text and not has_surrogate(text)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and is_storable(value)


def _is_sound(letter: object) -> bool:
    return (
        isinstance(letter, DeadLetter)
        and (letter.application_id is None or _is_text(letter.application_id))
        and _is_text(letter.reason)
        and all(map(_is_integer, (letter.window.after, letter.window.before, letter.attempts)))
        and letter.first_tried_at.tzinfo is None
        and letter.last_tried_at.tzinfo is None
    )


def _is_integer(value: object) -> bool:
    return type(value) is int and value in _INTEGERS


def in_whole_seconds(letter: DeadLetter) -> DeadLetter:
    """Return a dead letter as every store keeps its times."""
    return evolve(
        letter,
        first_tried_at=letter.first_tried_at.replace(microsecond=0),
        last_tried_at=letter.last_tried_at.replace(microsecond=0),
    )


class MemoryCheckpointStore(CheckpointStore):
    """Keep checkpoints as long as this object lives: for tests, and pollers that may begin anew."""

    has_bell = True

    def __init__(self) -> None:
        self._stored: dict[str, StoredCheckpoint] = {}
        self._letters: dict[str, dict[str, DeadLetter]] = {}
        self._rings: Counter[str] = Counter()

    async def load(self, name: str) -> StoredCheckpoint:  # noqa: D102 - as the base class says
        check_name(name)
        return self._stored.get(name, _NOTHING)

    async def save(  # noqa: D102 - as the base class says
        self,
        name: str,
        checkpoint: str,
        *,
        version: int,
        dead_letters: Sequence[DeadLetter] = (),
        resolved: Sequence[str] = (),
        replaces: str | None = None,
    ) -> int:
        change = Change(name, checkpoint, version, dead_letters, resolved, replaces)
        change.check_arguments()
        stored = self._stored.get(name, _NOTHING)
        if not change.follows(stored):
            raise change.conflict_error(stored.version)
        letters = self._letters.setdefault(name, {})
        for key in resolved:
            letters.pop(key, None)
        letters.update({letter.key: in_whole_seconds(letter) for letter in dead_letters})
        self._stored[name] = StoredCheckpoint(checkpoint=change.checkpoint, version=version + 1)
        return version + 1

    async def dead_letters(self, name: str) -> tuple[DeadLetter, ...]:  # noqa: D102 - likewise
        check_name(name)
        return in_order(self._letters.get(name, {}).values())

    async def forget(  # noqa: D102 - likewise
        self, name: str, keys: Iterable[str]
    ) -> tuple[str, ...]:
        check_name(name)
        keys = checked_keys(keys)
        letters = self._letters.get(name, {})
        return tuple(key for key in keys if letters.pop(key, None) is not None)

    async def retry(  # noqa: D102 - likewise
        self, name: str, keys: Iterable[str]
    ) -> tuple[str, ...]:
        check_name(name)
        letters = self._letters.get(name, {})
        due = tuple(key for key in checked_keys(keys) if key in letters)
        letters.update({key: evolve(letters[key], attempts=0) for key in due})
        return due

    async def names(self) -> tuple[str, ...]:  # noqa: D102 - likewise
        return tuple(sorted(self._stored))

    async def ring(self, name: str) -> bool:  # noqa: D102 - likewise
        check_name(name)
        self._rings[name] += 1
        return name in self._stored

    async def count_rings(self, name: str) -> int:  # noqa: D102 - likewise
        check_name(name)
        return self._rings[name]
