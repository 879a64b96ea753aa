"""A checkpoint store of any author, called so that only errors of ours come out of it.

The errors and frames of a database driver may hold an address with its password.
"""

import inspect
import traceback
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from attrs import evolve, field, frozen

from income_client.checkpoints import CheckpointStore, SQLiteCheckpointStore, StoredCheckpoint
from income_client.checkpoints.store import check_name
from income_client.errors import CheckpointError, IncomeClientError, leaving
from income_client.records.dead_letters import DeadLetter
from income_client.settings import invalid

T = TypeVar("T")

_METHODS: Final = ("load", "save", "dead_letters")
_MOST_PLACES: Final = 4
_MISTAKES: Final = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError,
    NotImplementedError, TypeError, ValueError,
)  # fmt: skip
"""What code raises that is wrong: the same call would raise it again. A driver's errors have
classes of their own, or are an `OSError`."""


def check_store(store: object, name: object) -> None:
    """Raise `ConfigurationError` unless these can be a store and the name of a poller."""
    is_made = not isinstance(store, type)
    if not is_made or not all(callable(getattr(store, one, None)) for one in _METHODS):
        allowed = f"an object with the methods {', '.join(_METHODS)}"
        raise invalid("checkpoints", allowed, store)
    check_name(name)


@frozen
class ForeignStore:
    """A checkpoint store, and the name under which one poller uses it."""

    store: CheckpointStore = field(repr=False)  # its text may hold a password
    name: str
    compares_texts: bool = field(init=False)
    """Whether its ``save`` takes the text that it is to replace."""

    @compares_texts.default
    def _has_replaces(self) -> bool:
        try:
            return "replaces" in inspect.signature(self.store.save).parameters
        except (TypeError, ValueError):
            return False

    @property
    def log_name(self) -> str:
        """What the store is called in a log."""
        is_file = isinstance(self.store, SQLiteCheckpointStore)
        return repr(self.store) if is_file else type(self.store).__name__

    async def load(self) -> StoredCheckpoint:
        """Return what is stored."""
        stored = await _call_store(self.store.load, self.name)
        is_one = isinstance(stored, StoredCheckpoint)  # the store may be untyped code
        if not is_one:
            raise CheckpointError("the checkpoint store must return a StoredCheckpoint")
        return stored

    async def load_letters(self) -> tuple[DeadLetter, ...]:
        """Return the dead letters that are stored."""
        letters = await _call_store(self._load_letters)
        if not all(isinstance(letter, DeadLetter) for letter in letters):
            raise CheckpointError("the checkpoint store must return DeadLetter values")
        return letters

    async def save(
        self,
        new: StoredCheckpoint,
        *,
        over: StoredCheckpoint,
        letters: Sequence[DeadLetter] = (),
        resolved: Sequence[str] = (),
    ) -> None:
        """Replace what is stored; raise `CheckpointConflictError` if it is something else."""
        more = {"replaces": over.checkpoint} if self.compares_texts else {}
        version = await _call_store(
            self.store.save,
            self.name,
            new.checkpoint,
            version=over.version,
            dead_letters=letters,
            resolved=resolved,
            **more,
        )
        if version != new.version:
            raise CheckpointError("the checkpoint store must return the next version")

    async def check_rights(self) -> None:
        """Raise what a save would raise, if the store can tell."""
        check_rights = getattr(self.store, "check_rights", None)
        if check_rights is not None:
            await _call_store(check_rights, self.name)

    def begin_transaction(self, connection: Any) -> AbstractAsyncContextManager[CheckpointStore]:
        """Return a transaction of the store; raise `ConfigurationError` if it has none."""
        begin = getattr(self.store, "transaction", None)
        if begin is None:
            raise invalid("checkpoints", "a store with the method transaction", self.store)
        return cast("AbstractAsyncContextManager[CheckpointStore]", begin(connection))

    def bound_to(self, transaction: CheckpointStore) -> "ForeignStore":
        """Return the store bound to a transaction of it."""
        return evolve(self, store=transaction)

    async def end_when_idle(self, seconds: float) -> None:
        """Have a database end the transaction whose process is lost between save and commit."""
        end_when_idle = getattr(self.store, "end_when_idle", None)
        if end_when_idle is not None:
            await _call_store(end_when_idle, seconds)

    async def _load_letters(self) -> tuple[DeadLetter, ...]:
        return tuple(await self.store.dead_letters(self.name))


async def _call_store(method: Callable[..., Awaitable[T]], *args: Any, **options: Any) -> T:
    with leaving():
        try:
            return await method(*args, **options)
        except IncomeClientError:
            raise
        except Exception as error:
            raise _failure_of(error) from error


def _failure_of(error: Exception) -> CheckpointError:
    name = type(error).__name__
    if is_mistake(error):
        return CheckpointError(f"mistake in the checkpoint store: {name}{_store_lines(error)}")
    return CheckpointError(f"the checkpoint store failed: {name}", retryable=True)


def is_mistake(error: Exception) -> bool:
    """Say whether foreign code that raised this would do it again."""
    return isinstance(error, _MISTAKES) and not isinstance(error, OSError)


def _store_lines(error: Exception) -> str:
    """Name the lines of the store that an error passed, for its author."""
    walked = traceback.walk_tb(error.__traceback__)
    files = [(frame.f_code.co_filename, line) for frame, line in walked]
    places = [f"{Path(file).name}:{line}" for file, line in files if file != __file__]
    return f" ({' > '.join(places[-_MOST_PLACES:])})" if places else ""
