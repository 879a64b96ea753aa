"""A poller's lease of its name in a store: taken at its start, lost to the next that takes it.

A save that was cancelled or has failed may have been made all the same; so the store is
asked before the next one.
"""

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from attrs import evolve

from income_client.checkpoints import CheckpointStore, StoredCheckpoint
from income_client.checkpoints.store import check_name
from income_client.errors import (
    CheckpointConflictError,
    CheckpointError,
    IncomeClientError,
)
from income_client.records.dead_letters import DeadLetter
from income_client.settings import invalid

from .checkpoint import Checkpoint, read_checkpoint

T = TypeVar("T")

_MOST_RIVALS: Final = 20
_MOST_PLACES: Final = 4
_METHODS: Final = ("load", "save", "dead_letters")
_MISTAKES: Final = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError,
    NotImplementedError, TypeError, ValueError,
)  # fmt: skip
"""What code raises that is wrong: the same call would raise it again. A driver's errors have
classes of their own, or are an `OSError`."""


class Lease:
    """The lease of one poller; raises `ConfigurationError` for an invalid store or name."""

    def __init__(self, store: CheckpointStore, name: str) -> None:
        is_made = not isinstance(store, type)
        if not is_made or not all(callable(getattr(store, one, None)) for one in _METHODS):
            allowed = f"an object with the methods {', '.join(_METHODS)}"
            raise invalid("checkpoints", allowed, store)
        check_name(name)
        self._store = store
        self._name = name
        self._version = 0
        self._text = ""
        self._unsure: str | None = None
        self.progress: tuple[int, int] = (0, 0)
        """Of what was saved last."""
        self._lock = asyncio.Lock()

    async def take(
        self, given: Checkpoint | None, begin: Callable[[], Awaitable[int]]
    ) -> tuple[Checkpoint, tuple[DeadLetter, ...]]:
        """Take the name over, from every older poller; return where to begin, and dead letters."""
        for _ in range(_MOST_RIVALS):
            stored = await self._load()
            known = None if stored.checkpoint is None else read_checkpoint(stored.checkpoint)
            takeovers = 0 if known is None else known.takeovers
            if given is not None and (known is None or given.progress > known.progress):
                known = given
            if known is None:
                second = await begin()
                known = Checkpoint(since=second, reached=second)
            taken = evolve(known, takeovers=max(known.takeovers, takeovers) + 1)
            self._version = stored.version
            try:
                await self.save(taken)
            except CheckpointConflictError:
                continue
            return taken, await _asked(self._letters)
        raise CheckpointConflictError("other pollers keep taking over this name")

    async def check(self) -> None:
        """Raise `CheckpointConflictError` if another poller has taken over."""
        async with self._lock:
            await self._check()

    async def save(self, checkpoint: Checkpoint, resolved: Sequence[str] = ()) -> None:
        """Store a checkpoint, and remove dead letters by their keys."""
        async with self._lock:
            await self._save(checkpoint.text, (), resolved)
            self.progress = checkpoint.progress

    async def save_letters(self, letters: Sequence[DeadLetter]) -> None:
        """Store dead letters, and leave the checkpoint as it is."""
        async with self._lock:
            await self._save(self._text, letters, ())

    async def _check(self) -> None:
        stored = await self._load()
        text, self._unsure = self._unsure, None
        # Texts of two pollers differ, since each counts one takeover more.
        is_saved = (stored.version, stored.checkpoint) == (self._version + 1, text)
        if text is not None and is_saved:
            self._version, self._text = stored.version, text
        if stored.version != self._version:
            raise CheckpointConflictError("another poller has taken over this name")

    async def _letters(self) -> tuple[DeadLetter, ...]:
        letters = tuple(await self._store.dead_letters(self._name))
        if not all(isinstance(letter, DeadLetter) for letter in letters):
            raise CheckpointError("the checkpoint store must return DeadLetter values")
        return letters

    async def _load(self) -> StoredCheckpoint:
        stored = await _asked(lambda: self._store.load(self._name))
        is_one = isinstance(stored, StoredCheckpoint)  # the store may be untyped code
        if not is_one:
            raise CheckpointError("the checkpoint store must return a StoredCheckpoint")
        return stored

    async def _save(
        self, text: str, letters: Sequence[DeadLetter], resolved: Sequence[str]
    ) -> None:
        if self._unsure is not None:
            await self._check()
        self._unsure = text
        try:
            version = await _asked(
                lambda: self._store.save(
                    self._name,
                    text,
                    version=self._version,
                    dead_letters=letters,
                    resolved=resolved,
                )
            )
        except CheckpointConflictError:
            self._unsure = None
            raise
        if version != self._version + 1:
            raise CheckpointError("the checkpoint store must return the next version")
        self._version = version
        self._text, self._unsure = text, None


async def _asked(ask: Callable[[], Awaitable[T]]) -> T:
    """Call a store, and raise what it raises as an error of ours without its frames."""
    # The errors and frames of a database driver may hold an address with its password.
    failure: IncomeClientError
    try:
        return await ask()
    except asyncio.CancelledError as cancelled:
        cancelled.__context__ = None
        raise cancelled.with_traceback(None) from None
    except IncomeClientError as error:
        failure = error.again()
    except Exception as error:  # noqa: BLE001 - foreign code
        name = type(error).__name__
        if isinstance(error, _MISTAKES) and not isinstance(error, OSError):
            where = _places(error)
            failure = CheckpointError(f"mistake in the checkpoint store: {name}{where}")
        else:
            failure = CheckpointError(f"the checkpoint store failed: {name}", retryable=True)
    del ask
    try:
        raise failure
    finally:
        del failure


def _places(error: Exception) -> str:
    """Name the lines of the store that an error passed, for its author."""
    walked = traceback.walk_tb(error.__traceback__)
    files = [(frame.f_code.co_filename, line) for frame, line in walked]
    places = [f"{Path(file).name}:{line}" for file, line in files if file != __file__]
    return f" ({' > '.join(places[-_MOST_PLACES:])})" if places else ""
