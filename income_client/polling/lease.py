"""A poller's hold on its name in a store: taken once, and lost to whoever takes it later.

Knows texts and versions, and nothing of polling. A save that was cancelled or
has failed may have been made all the same; the store is asked before the next.
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
    ConfigurationError,
    IncomeClientError,
)
from income_client.records.dead_letters import DeadLetter

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


class Claim:
    """One poller's part of a store.

    Args:
        store: keeps what is saved.
        name: the poller's.

    Raises:
        ConfigurationError: the store or the name is none.
    """

    def __init__(self, store: CheckpointStore, name: str) -> None:
        is_made = not isinstance(store, type)
        if not is_made or not all(callable(getattr(store, one, None)) for one in _METHODS):
            raise ConfigurationError(f"a checkpoint store has {', '.join(_METHODS)}")
        check_name(name)
        self._store = store
        self._name = name
        self._version = 0
        self._text = ""
        self._unsure: str | None = None
        self._progress = (0, 0)
        self._lock = asyncio.Lock()

    @property
    def progress(self) -> tuple[int, int]:
        """The progress of what was saved last."""
        return self._progress

    async def take(
        self, given: Checkpoint | None, begin: Callable[[], Awaitable[int]]
    ) -> tuple[Checkpoint, tuple[DeadLetter, ...]]:
        """Claim the name; from now on every earlier claimant is refused.

        Args:
            given: where to begin if the store is not further already.
            begin: gives the second to begin with where there is no checkpoint.

        Returns:
            Where to begin, and what could not be read so far.

        Raises:
            CheckpointError: the store, or what it holds, cannot be used.
            IncomeClientError: there is no second to begin with.
        """
        for _ in range(_MOST_RIVALS):
            stored = await self._load()
            known = None if stored.checkpoint is None else read_checkpoint(stored.checkpoint)
            claims = 0 if known is None else known.claims
            if given is not None and (known is None or given.progress > known.progress):
                known = given
            if known is None:
                second = await begin()
                known = Checkpoint(since=second, reached=second)
            claimed = evolve(known, claims=max(known.claims, claims) + 1)
            self._version = stored.version
            try:
                await self.save(claimed)
            except CheckpointConflictError:
                continue
            return claimed, await _asked(self._letters)
        raise CheckpointConflictError("the name is claimed by others all the time")

    async def check(self) -> None:
        """Find out whether the name is still held.

        Raises:
            CheckpointConflictError: another poller has claimed it.
            CheckpointError: the store cannot be used.
        """
        async with self._lock:
            await self._check()

    async def save(self, checkpoint: Checkpoint, resolved: Sequence[str] = ()) -> None:
        """Store how far the poller has come.

        Args:
            checkpoint: to be stored.
            resolved: keys of dead letters that are none any more.

        Raises:
            CheckpointConflictError: another poller has claimed the name; nothing was stored.
            CheckpointError: the store failed.
        """
        async with self._lock:
            await self._save(checkpoint.text(), (), resolved)
            self._progress = checkpoint.progress

    async def bury(self, letters: Sequence[DeadLetter]) -> None:
        """Store what could not be read, and leave the checkpoint as it is.

        Raises:
            CheckpointConflictError: another poller has claimed the name; nothing was stored.
            CheckpointError: the store failed.
        """
        async with self._lock:
            await self._save(self._text, letters, ())

    async def _check(self) -> None:
        stored = await self._load()
        if self._unsure is not None and self._is_ours(stored, self._unsure):
            self._version, self._text = stored.version, self._unsure
        self._unsure = None
        if stored.version != self._version:
            raise CheckpointConflictError("another poller has claimed this name")

    async def _letters(self) -> tuple[DeadLetter, ...]:
        letters = tuple(await self._store.dead_letters(self._name))
        if not all(isinstance(letter, DeadLetter) for letter in letters):
            raise CheckpointError("the checkpoint store has returned what is not a DeadLetter")
        return letters

    async def _load(self) -> StoredCheckpoint:
        stored = await _asked(lambda: self._store.load(self._name))
        is_one = isinstance(stored, StoredCheckpoint)
        if not is_one:
            raise CheckpointError("the checkpoint store has loaded no StoredCheckpoint")
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
            raise CheckpointError("the checkpoint store has saved, and returned another version")
        self._version = version
        self._text, self._unsure = text, None

    def _is_ours(self, stored: StoredCheckpoint, text: str) -> bool:
        # A text tells claimants apart, since each counts one claim more.
        return stored.version == self._version + 1 and stored.checkpoint == text


async def _asked(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask a store, which may be foreign code: whatever it raises comes out as an error of ours.

    Without cause, context and the frames of the store: a driver's errors and its frames may
    hold an address with its password.
    """
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
            failure = CheckpointError(f"the checkpoint store has a mistake in it: {name}{where}")
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
