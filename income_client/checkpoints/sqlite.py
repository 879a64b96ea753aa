"""Checkpoints in an SQLite file; knows neither the tables nor how the file comes to be.

Whatever goes wrong in a thread comes back as a value, and is raised in a
frame that has seen neither a row nor an error of SQLite.
"""

import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from income_client.concurrency import run_to_the_end
from income_client.errors import CheckpointError, ConfigurationError
from income_client.records.dead_letters import DeadLetter

from . import sqlite_schema as schema
from .change import Change, change_of, conflict, is_name, wrong_name
from .sqlite_faults import as_checkpoint_error, fault_of
from .sqlite_file import StoreFile
from .store import StoredCheckpoint

T = TypeVar("T")

_BUSY_SECONDS: Final = 0.5
"""How long a lock is waited for: a stop or a cancellation waits no longer."""


class SQLiteCheckpointStore:
    """Keep checkpoints in an SQLite file; see `CheckpointStore`.

    A save that has returned is on the disk. Pollers of several names, in
    several threads and processes of one machine, may share a file; on network
    file systems SQLite's locks are not to be relied on. The file is made by
    the first save, readable by its owner alone. Nothing is held open between
    two calls, so there is nothing to close, and any event loop may use it.

    A file that others keep locked for longer than half a second is a `CheckpointError`
    that is ``retryable``; a poller retries it. A call that is cancelled ends its work in
    the file first: whether a cancelled save was made, a load tells.

    Args:
        path: of the file; its folder must exist.

    Raises:
        ConfigurationError: the path names no file: a store that forgets is
            `MemoryCheckpointStore`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = StoreFile(_checked(path).absolute(), _BUSY_SECONDS)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._file.path)!r})"

    async def load(self, name: str) -> StoredCheckpoint:
        """Return what is stored; make no file where none is.

        Args:
            name: the poller's.

        Raises:
            CheckpointError: the store cannot be read, or is not one.
            ConfigurationError: the name is none.
        """
        if not is_name(name):
            raise wrong_name()
        return await self._done(partial(_load, self._file, name))

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
        return await self._done(partial(_save, self._file, change))

    async def dead_letters(self, name: str) -> tuple[DeadLetter, ...]:
        """Return what could not be read so far, in the order of the first attempts.

        Args:
            name: the poller's.

        Raises:
            CheckpointError: the store cannot be read, or is not one.
            ConfigurationError: the name is none.
        """
        if not is_name(name):
            raise wrong_name()
        return await self._done(partial(_letters, self._file, name))

    async def _done(self, work: Callable[[], T | CheckpointError]) -> T:
        # A thread of its own: a locked file would hold the loop's few, which DNS lookups share.
        with ThreadPoolExecutor(1, "income_client checkpoints") as executor:
            outcome = await run_to_the_end(partial(_outcome, work, self._file), executor=executor)
        if isinstance(outcome, CheckpointError):
            raise outcome
        return outcome


def _checked(path: object) -> Path:
    text: object = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str) or "\0" in text:
        raise ConfigurationError("path is a str or an os.PathLike of str")
    if text in ("", ":memory:") or text.lower().startswith("file:"):
        raise ConfigurationError(
            "path names a file, in no URI; a store that forgets is MemoryCheckpointStore",
        )
    return Path(text)


def _load(file: StoreFile, name: str) -> StoredCheckpoint:
    with file.opened(create=False) as connection:
        if connection is None:
            return StoredCheckpoint(checkpoint=None, version=0)
        return schema.load(connection, name)


def _letters(file: StoreFile, name: str) -> tuple[DeadLetter, ...]:
    with file.opened(create=False) as connection:
        return () if connection is None else schema.letters(connection, name)


def _save(file: StoreFile, change: Change) -> int | CheckpointError:
    with file.opened(create=change.version == 0) as connection:
        if connection is None:
            return conflict(change, stored=0)
        connection.execute("BEGIN IMMEDIATE")
        stored = schema.load(connection, change.name).version
        if stored != change.version:
            return conflict(change, stored=stored)
        schema.put(connection, change)
        _commit(connection, file)
    return stored + 1


def _commit(connection: sqlite3.Connection, file: StoreFile) -> None:
    try:
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        fault = fault_of(error, file.true_path)
        reason = f"{fault.reason}; whether the checkpoint was saved, a load tells"
        raise CheckpointError(reason, retryable=fault.is_passing) from None


def _outcome(work: Callable[[], T | CheckpointError], file: StoreFile) -> T | CheckpointError:
    try:
        return work()
    except (sqlite3.Error, OSError, UnicodeError, CheckpointError) as error:
        return as_checkpoint_error(error, file.true_path)
