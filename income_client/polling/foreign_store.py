"""A checkpoint store of any author, called so that only errors of ours come out of it.

The errors and frames of a database driver may hold an address with its password.
"""

import inspect
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, Self, TypeVar, cast

from attrs import evolve, field, frozen

from income_client.checkpoints import CheckpointStore, StoredCheckpoint
from income_client.checkpoints.store import check_name
from income_client.errors import CheckpointConflictError, CheckpointError
from income_client.records.dead_letters import DeadLetter
from income_client.settings import invalid
from income_client.system import frames
from income_client.system.frames import places_of, replace_errors

from .checkpoint import read_checkpoint

T = TypeVar("T")

_METHODS: Final = ("load", "save", "dead_letters")
_CALLING: Final = frozenset({__file__, frames.__file__})
"""Files of the package through which a store is called."""
_MISTAKES: Final = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError,
    NotImplementedError, TypeError, ValueError,
)  # fmt: skip
"""Errors of wrong code, which would fail again. A driver's errors have classes of their own, or
are an `OSError`."""


@frozen
class ForeignStore:
    """A checkpoint store, and the name under which one poller uses it."""

    store: CheckpointStore = field(repr=False)  # its text may hold a password
    name: str

    @classmethod
    def checked(cls, store: object, name: str) -> Self:
        """Check a store and the name of a poller; raise `ConfigurationError` for invalid ones."""
        is_made = not isinstance(store, type)
        if not is_made or not all(callable(getattr(store, method, None)) for method in _METHODS):
            allowed = f"a CheckpointStore, or an object with the methods {', '.join(_METHODS)}"
            raise invalid("store", allowed, store)
        check_name(name)
        if not isinstance(store, CheckpointStore) or not _takes_replaces(store):
            warnings.warn(
                f"{type(store).__name__}: derive the store from CheckpointStore, and let its "
                "save() compare the text in replaces= as well; 0.4.0 will require it",
                DeprecationWarning,
                stacklevel=4,
            )
            store = _StoreOfVersions(store)
        return cls(store, name)

    @property
    def log_name(self) -> str:
        """The name of the store in logs."""
        return self.store.log_name

    @property
    def has_bell(self) -> bool:
        """Whether the store has a counter of rings."""
        return self.store.has_bell

    async def load(self) -> StoredCheckpoint:
        """Return the stored checkpoint."""
        stored = await _call_store(lambda: self.store.load(self.name))
        is_one = isinstance(stored, StoredCheckpoint)  # the store may be untyped code
        if not is_one:
            raise CheckpointError("the checkpoint store must return a StoredCheckpoint")
        return stored

    async def load_letters(self) -> tuple[DeadLetter, ...]:
        """Return the stored dead letters."""
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
        """Replace the stored checkpoint; raise `CheckpointConflictError` if it has changed."""
        version = await _call_store(
            lambda: self.store.save(
                self.name,
                cast("str", new.checkpoint),
                version=over.version,
                dead_letters=letters,
                resolved=resolved,
                replaces=over.checkpoint,
            )
        )
        if version != new.version:
            raise CheckpointError("the checkpoint store must return the next version")

    async def check_rights(self) -> None:
        """Raise the error that a save would raise, if the store can tell without a save."""
        await _call_store(lambda: self.store.check_rights(self.name))

    async def ring(self) -> None:
        """Wake the poller that holds the lease."""
        await _call_store(lambda: self.store.ring(self.name))

    async def count_rings(self) -> int:
        """Return the counter that each ring changes."""
        return await _call_store(lambda: self.store.count_rings(self.name))

    def begin_transaction(self, connection: Any) -> AbstractAsyncContextManager[CheckpointStore]:
        """Return a transaction of the store; raise `ConfigurationError` if it has none."""
        return self.store.transaction(connection)

    def bound_to(self, transaction: CheckpointStore) -> "ForeignStore":
        """Return the store bound to a transaction of it."""
        return evolve(self, store=transaction)

    async def end_when_idle(self, seconds: float) -> None:
        """Let the database end the transaction if the process dies between save and commit."""
        await _call_store(lambda: self.store.end_when_idle(seconds))

    async def _load_letters(self) -> tuple[DeadLetter, ...]:
        return tuple(await self.store.dead_letters(self.name))


class _StoreOfVersions(CheckpointStore):
    """A store written for version 0.2.0, which compares versions and no texts."""

    def __init__(self, store: Any) -> None:
        self._store = store

    @property
    def log_name(self) -> str:
        return type(self._store).__name__

    async def load(self, name: str) -> StoredCheckpoint:
        stored: StoredCheckpoint = await self._store.load(name)
        return stored

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
        stored: StoredCheckpoint = await self._store.load(name)
        if stored.version == version and not _have_same_holder(stored.checkpoint, replaces):
            raise CheckpointConflictError(f"checkpoint {name!r} was saved by another poller")
        saved: int = await self._store.save(
            name, checkpoint, version=version, dead_letters=dead_letters, resolved=resolved
        )
        return saved

    async def dead_letters(self, name: str) -> Sequence[DeadLetter]:
        letters: Sequence[DeadLetter] = await self._store.dead_letters(name)
        return letters

    @asynccontextmanager
    async def transaction(self, connection: Any) -> AsyncIterator[CheckpointStore]:
        begin = getattr(self._store, "transaction", super().transaction)
        async with begin(connection) as bound:
            yield _StoreOfVersions(bound)


def _have_same_holder(text: str | None, other: str | None) -> bool:
    """Return whether one poller made both saves; a store may reorder a text's members."""
    if text is None or other is None or text == other:
        return text == other
    holder = read_checkpoint(text).holder
    return holder is not None and holder == read_checkpoint(other).holder


def _takes_replaces(store: CheckpointStore) -> bool:
    parameters = inspect.signature(store.save).parameters.values()
    return any(
        parameter.name == "replaces" or parameter.kind is parameter.VAR_KEYWORD
        for parameter in parameters
    )


async def _call_store(call: Callable[[], Awaitable[T]]) -> T:
    # The repr of a function, unlike that of a bound method, does not show the store.
    return await replace_errors(call, _failure_of)


def _failure_of(error: Exception) -> CheckpointError:
    name = type(error).__name__
    if is_mistake(error):
        places = places_of(error, excluded=_CALLING)
        where = f" ({places})" if places else ""
        return CheckpointError(f"mistake in the checkpoint store: {name}{where}")
    return CheckpointError(f"the checkpoint store failed: {name}", retryable=True)


def is_mistake(error: Exception) -> bool:
    """Return whether an exception of foreign code shows a bug, which would fail again."""
    return isinstance(error, _MISTAKES) and not isinstance(error, OSError)
