"""A checkpoint store in an SQLite file."""

import asyncio
import errno
import os
import re
import secrets
import shlex
import sqlite3
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from income_client.errors import CheckpointError, InvalidArgumentError
from income_client.records.dead_letters import DeadLetter
from income_client.records.window import EPOCH, Window
from income_client.system.concurrency import run_to_the_end
from income_client.system.descriptors import find_shortage, shortage_in
from income_client.system.disk import (
    chown_command,
    is_foreign,
    is_writable_by_others,
    locked_folder,
    new_file,
)
from income_client.system.frames import replace_errors

from .store import (
    Change,
    CheckpointStore,
    StoredCheckpoint,
    check_name,
    checked_keys,
    in_order,
)

T = TypeVar("T")

_APPLICATION_ID: Final = int.from_bytes(b"incC", "big")
_SCHEMA_VERSION: Final = 1

# Earlier versions of this package stored a digest of each row: it is written empty and not
# read. No STRICT: SQLite before 3.37 could not read the file.
_TABLES: Final = (
    """
    CREATE TABLE checkpoints (
        name TEXT NOT NULL CHECK (typeof(name) = 'text'),
        checkpoint TEXT NOT NULL CHECK (typeof(checkpoint) = 'text'),
        version INTEGER NOT NULL CHECK (typeof(version) = 'integer' AND version > 0),
        digest TEXT NOT NULL,
        PRIMARY KEY (name)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE dead_letters (
        name TEXT NOT NULL CHECK (typeof(name) = 'text'),
        key TEXT NOT NULL CHECK (typeof(key) = 'text'),
        application_id TEXT CHECK (typeof(application_id) IN ('text', 'null')),
        after INTEGER NOT NULL CHECK (typeof(after) = 'integer'),
        before INTEGER NOT NULL CHECK (typeof(before) = 'integer'),
        reason TEXT NOT NULL CHECK (typeof(reason) = 'text'),
        attempts INTEGER NOT NULL CHECK (typeof(attempts) = 'integer'),
        first_tried_at INTEGER NOT NULL CHECK (typeof(first_tried_at) = 'integer'),
        last_tried_at INTEGER NOT NULL CHECK (typeof(last_tried_at) = 'integer'),
        digest TEXT NOT NULL,
        PRIMARY KEY (name, key)
    ) WITHOUT ROWID
    """,
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {_SCHEMA_VERSION}",
)
_LOAD: Final = "SELECT checkpoint, version FROM checkpoints WHERE name = ?"
_SAVE: Final = "INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, '')"
_LOAD_LETTERS: Final = (
    "SELECT application_id, after, before, reason, attempts, first_tried_at, last_tried_at "
    "FROM dead_letters WHERE name = ?"
)
_SAVE_LETTER: Final = "INSERT OR REPLACE INTO dead_letters VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, '')"
_REMOVE_LETTER: Final = "DELETE FROM dead_letters WHERE name = ? AND key = ?"
_RETRY_LETTER: Final = "UPDATE dead_letters SET attempts = 0 WHERE name = ? AND key = ?"
_NAMES: Final = "SELECT name FROM checkpoints ORDER BY name"

# Made by the first ring, since files of earlier versions have no such table; those ignore it.
_MAKE_BELLS: Final = """
    CREATE TABLE IF NOT EXISTS bells (
        name TEXT NOT NULL, rings INTEGER NOT NULL, PRIMARY KEY (name)
    ) WITHOUT ROWID
"""
_HAS_BELLS: Final = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'bells'"
_RING: Final = """
    INSERT INTO bells VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET rings = rings + 1
"""
_COUNT_RINGS: Final = "SELECT rings FROM bells WHERE name = ?"

_BUSY_SECONDS: Final = 0.5
"""Seconds that a call waits for a lock; a stop or a cancellation waits no longer either."""
_TRY_SECONDS: Final = 0.003
_RETRYABLE_CODES: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PROTOCOL,
    }
)  # fmt: skip
_RETRYABLE_ERRNOS: Final = frozenset(
    {
        errno.EAGAIN, errno.EDQUOT, errno.EINTR, errno.EIO, errno.EMFILE, errno.ENFILE,
        errno.ENOMEM, errno.ENOSPC, errno.ESTALE,
    }
)  # fmt: skip
_DAMAGE_CODES: Final = frozenset(
    {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_NOTADB}
)
_ADVICE: Final = (
    "restore it from a backup, or remove it to begin anew, which skips the updates since its "
    "last checkpoint unless start lies before them"
)
_SIDE_FILES: Final = ("-journal", "-wal")
"""Suffixes of SQLite's side files; an old one would be written into a new database."""
_BESIDE: Final = (*_SIDE_FILES, "-shm")


class SQLiteCheckpointStore(CheckpointStore):
    """Keep checkpoints in an SQLite file; see `CheckpointStore`.

    A save that has returned survives the end of the process. A power failure may undo the
    last one: then its batch is delivered again. Pollers of several names, in several threads
    and processes of one machine, may share a file; do not put it on a network file system,
    where SQLite's locks are unreliable. The first save makes the file, whole or not at all,
    readable by its owner alone; a file that is there but empty or damaged is a
    `CheckpointError`, never a new beginning. Nothing is held open between two calls, so there
    is nothing to close, and any event loop may use it.

    A file that others keep locked for longer than half a second is a `CheckpointError`
    that is ``retryable``; a poller retries it. A call that is cancelled ends its work in
    the file first: a load shows whether a cancelled save was made.

    Args:
        path: of the file; its folder must exist.

    Raises:
        ConfigurationError: the path is not that of a file. For a store without a file, use
            `MemoryCheckpointStore`.
    """

    has_bell = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = _check_path(path).absolute()
        self._busy_seconds = _BUSY_SECONDS
        self._was_used = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._path)!r})"

    @property
    def log_name(self) -> str:
        """Name of the store in logs, with its path."""
        return repr(self)

    async def load(self, name: str) -> StoredCheckpoint:  # noqa: D102 - as the base class says
        check_name(name)
        return await self._run_statements(partial(self._load_checkpoint, name))

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
        return await self._run_statements(partial(self._save_checkpoint, change))

    async def dead_letters(self, name: str) -> tuple[DeadLetter, ...]:  # noqa: D102 - likewise
        check_name(name)
        return await self._run_statements(partial(self._load_letters, name))

    async def forget(  # noqa: D102 - likewise
        self, name: str, keys: Iterable[str]
    ) -> tuple[str, ...]:
        check_name(name)
        return await self._run_statements(
            partial(self._change_letters, _REMOVE_LETTER, name, checked_keys(keys))
        )

    async def retry(  # noqa: D102 - likewise
        self, name: str, keys: Iterable[str]
    ) -> tuple[str, ...]:
        check_name(name)
        return await self._run_statements(
            partial(self._change_letters, _RETRY_LETTER, name, checked_keys(keys))
        )

    async def names(self) -> tuple[str, ...]:  # noqa: D102 - likewise
        return await self._run_statements(self._load_names)

    async def ring(self, name: str) -> bool:  # noqa: D102 - likewise
        check_name(name)
        return await self._run_statements(partial(self._ring_bell, name))

    async def count_rings(self, name: str) -> int:  # noqa: D102 - likewise
        check_name(name)
        return await self._run_statements(partial(self._count_rings, name))

    async def _run_statements(self, work: Callable[[], T]) -> T:
        return await replace_errors(lambda: self._retry_while_locked(work), self._translate_error)

    async def _retry_while_locked(self, work: Callable[[], T]) -> T:
        """Repeat work while the file is locked; a locked attempt has changed nothing."""
        # The wait is not SQLite's: that would hold one of the event loop's few threads, which
        # DNS lookups need, and be slower than others between two tries.
        until = time.monotonic() + self._busy_seconds
        while True:
            try:
                return await run_to_the_end(work)
            except (sqlite3.OperationalError, BlockingIOError) as error:
                if not _is_lock(error) or time.monotonic() > until:
                    raise
            await asyncio.sleep(_TRY_SECONDS)

    def _load_checkpoint(self, name: str) -> StoredCheckpoint:
        with self._open_transaction("BEGIN") as connection:
            return _select_checkpoint(connection, name)

    def _load_letters(self, name: str) -> tuple[DeadLetter, ...]:
        with self._open_transaction("BEGIN") as connection:
            rows = [] if connection is None else connection.execute(_LOAD_LETTERS, (name,))
            return in_order(_read_letter(*row) for row in rows)

    def _save_checkpoint(self, change: Change) -> int:
        name, version = change.name, change.version + 1
        with self._open_transaction("BEGIN IMMEDIATE", create=change.version == 0) as connection:
            stored = _select_checkpoint(connection, name)
            if connection is None or not change.follows(stored):
                raise change.conflict_error(stored.version)
            connection.execute(_SAVE, (name, change.checkpoint, version))
            for key in change.resolved:
                connection.execute(_REMOVE_LETTER, (name, key))
            for letter in change.dead_letters:
                connection.execute(_SAVE_LETTER, _letter_row(name, letter))
            connection.execute("COMMIT")
        return version

    def _load_names(self) -> tuple[str, ...]:
        with self._open_transaction("BEGIN") as connection:
            rows = [] if connection is None else connection.execute(_NAMES)
            return tuple(name for (name,) in rows)

    def _change_letters(self, statement: str, name: str, keys: Sequence[str]) -> tuple[str, ...]:
        """Run a statement for each key; return the keys that had a dead letter."""
        with self._open_transaction("BEGIN IMMEDIATE") as connection:
            if connection is None:
                return ()
            changed = [key for key in keys if connection.execute(statement, (name, key)).rowcount]
            connection.execute("COMMIT")
        return tuple(changed)

    def _ring_bell(self, name: str) -> bool:
        with self._open_transaction("BEGIN IMMEDIATE") as connection:
            if connection is None:  # nobody has taken the name, so nobody waits
                return False
            connection.execute(_MAKE_BELLS)
            connection.execute(_RING, (name,))
            is_known = _select_checkpoint(connection, name).checkpoint is not None
            connection.execute("COMMIT")
        return is_known

    def _count_rings(self, name: str) -> int:
        with self._open_transaction("BEGIN") as connection:
            if connection is None or connection.execute(_HAS_BELLS).fetchone() is None:
                return 0
            row = connection.execute(_COUNT_RINGS, (name,)).fetchone()
            return 0 if row is None else int(row[0])

    @contextmanager
    def _open_transaction(
        self, begin: str, *, create: bool = False
    ) -> Iterator[sqlite3.Connection | None]:
        """Yield a connection in a transaction; None if nothing was ever saved."""
        path = Path(os.path.realpath(self._path))  # where SQLite keeps its journal
        if not self._is_there(path):
            if not create:
                yield None
                return
            _make_database(path)
        with _open_connection(path) as connection:
            if begin == "BEGIN IMMEDIATE":
                # Earlier versions of this package left their files in WAL mode.
                connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute(begin)
            self._check_layout(connection)
            self._was_used = True
            yield connection

    def _is_there(self, path: Path) -> bool:
        was_used = self._was_used  # before the look: another call may make it right after that
        try:
            status = path.stat()
        except FileNotFoundError:
            self._check_owners(path)
            if was_used:
                raise self._store_error("is gone since it was used last") from None
            self._check_side_files(path)
            return False
        if not stat.S_ISREG(status.st_mode):
            raise self._store_error("is not a regular file")
        self._check_owners(path)
        if status.st_nlink > 1:  # a process was killed when it had just made it
            _remove_leftovers(path)
        return True

    def _check_owners(self, path: Path) -> None:
        """Refuse what another user can forge: the file, its folder, a link to it or a side file.

        SQLite would write the side file of another user into the store.
        """
        if is_foreign(path.parent.stat()):
            advice = f"choose another folder, or {chown_command(path.parent)}"
            raise self._store_error(f"its folder belongs to another user: {advice}")
        for place in (
            self._path,
            path,
            *(path.with_name(path.name + suffix) for suffix in _BESIDE),
        ):
            try:
                status = place.lstat()
            except FileNotFoundError:
                continue
            if is_foreign(status):
                advice = f"run this as that user, or {chown_command(place)}"
                raise self._store_error(f"{place.name} belongs to user {status.st_uid}: {advice}")
            if stat.S_ISREG(status.st_mode) and is_writable_by_others(status):
                command = f"chmod go-w {shlex.quote(str(place))}"
                raise self._store_error(f"{place.name} can be written by other users: {command}")

    def _check_side_files(self, path: Path) -> None:
        side_files = [
            name for name in map(path.name.__add__, _SIDE_FILES) if (path.parent / name).exists()
        ]
        # Another process may have made the store, and begun a save, since it was looked for.
        if side_files and not path.exists():
            advice = "restore both from a backup, or remove that too to begin anew"
            raise self._store_error(f"is gone, but {side_files[0]!r} is left of it; {advice}")

    def _check_layout(self, connection: sqlite3.Connection) -> None:
        application_id, schema, version = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "schema_version", "user_version")
        )
        if application_id == schema == 0:
            reason = "was emptied since it was used last" if self._was_used else "is empty"
            cause = "as after a full disk, a failed copy or a redirection to it"
            raise self._store_error(f"{reason}, {cause}; {_ADVICE}")
        if application_id != _APPLICATION_ID:
            raise self._store_error("is the database of another program")
        if version != _SCHEMA_VERSION:
            raise self._store_error("was written by a newer version of this package")

    def _translate_error(self, error: Exception) -> CheckpointError | None:
        """Return an error of the package for one of SQLite, whose text contains no stored value."""
        if isinstance(error, OSError):
            reason = shortage_in(error) or error.strerror or type(error).__name__
            return self._store_error(reason, retryable=error.errno in _RETRYABLE_ERRNOS)
        if not isinstance(error, sqlite3.Error):
            return None
        code = _code_of(error)
        if code is None:  # sqlite3's own error: it shows a text that is not UTF-8, for example
            return self._store_error(f"cannot be read: {type(error).__name__}")
        # SQLite does not pass on why a file could not be opened.
        shortage = find_shortage() if code == sqlite3.SQLITE_CANTOPEN else None
        if code == sqlite3.SQLITE_CANTOPEN and shortage is None and not _may_open(self._path):
            return self._store_error(os.strerror(errno.EACCES))
        if code in _DAMAGE_CODES:
            return self._store_error(f"{error}; {_ADVICE}")
        return self._store_error(shortage or str(error), retryable=code in _RETRYABLE_CODES)

    def _store_error(self, reason: str, *, retryable: bool = False) -> CheckpointError:
        return CheckpointError(
            f"checkpoint store {str(self._path)!r}: {reason}", retryable=retryable
        )


def _check_path(path: object) -> Path:
    text: object = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str) or "\0" in text:
        raise InvalidArgumentError("path must be a str or an os.PathLike of str", argument="path")
    if text in ("", ":memory:") or text.lower().startswith(("file:", "sqlite:")):
        raise InvalidArgumentError(
            "path must be that of a file, not a URI; without a file, use MemoryCheckpointStore",
            argument="path",
        )
    return Path(text)


@contextmanager
def _open_connection(path: Path) -> Iterator[sqlite3.Connection]:
    address = f"{path.as_uri()}?mode=rw"
    with closing(sqlite3.connect(address, uri=True, timeout=0, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")
        yield connection


def _make_database(path: Path) -> None:
    """Create an empty store atomically, unless another process creates it."""
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    try:
        os.close(new_file(new))
        with _open_connection(new) as connection:
            # What is left by a kill is removed, and not repaired.
            connection.execute("PRAGMA journal_mode = OFF")
            connection.execute("BEGIN")
            for statement in _TABLES:
                connection.execute(statement)
            connection.execute("COMMIT")
        # Closed before others can open it: closing a descriptor drops the locks that SQLite
        # holds on the same file for another thread of this process.
        _link_database(new, path)
    except (OSError, sqlite3.Error):
        with suppress(OSError):
            new.unlink(missing_ok=True)
        # The first of those who make it tidies up behind all.
        if not path.exists():
            raise
    else:
        _remove_leftovers(path)


def _link_database(new: Path, path: Path) -> None:
    """Link a new store to its final path without replacing a file; it may keep its own name too."""
    try:
        # Unlike a rename, a link replaces nothing.
        os.link(new, path)
    except FileExistsError:
        raise
    except OSError:
        # Some file systems have no second names. There a lock keeps others out.
        with locked_folder(path.parent):
            if not os.path.lexists(path):
                new.rename(path)


def _remove_leftovers(path: Path) -> None:
    """Remove the files of processes that died while they created a store that exists now."""
    is_left = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}\.new").fullmatch
    with suppress(OSError):
        for entry in path.parent.iterdir():
            if is_left(entry.name):
                entry.unlink(missing_ok=True)


def _is_lock(error: Exception) -> bool:
    """Return whether an error means that another connection has locked the file or its folder."""
    return not isinstance(error, sqlite3.Error) or _code_of(error) == sqlite3.SQLITE_BUSY


def _code_of(error: sqlite3.Error) -> int | None:
    """Return SQLite's primary error code."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _may_open(path: Path) -> bool:
    is_effective = os.access in os.supports_effective_ids
    return os.access(path, os.R_OK | os.W_OK, effective_ids=is_effective)


def _select_checkpoint(connection: sqlite3.Connection | None, name: str) -> StoredCheckpoint:
    row = None if connection is None else connection.execute(_LOAD, (name,)).fetchone()
    checkpoint, version = row or (None, 0)
    return StoredCheckpoint(checkpoint=checkpoint, version=version)


def _letter_row(name: str, letter: DeadLetter) -> tuple[Any, ...]:
    return (
        name,
        letter.key,
        letter.application_id,
        letter.window.after,
        letter.window.before,
        letter.reason,
        letter.attempts,
        _whole_seconds(letter.first_tried_at),
        _whole_seconds(letter.last_tried_at),
    )


def _read_letter(
    application_id: str | None,
    after: int,
    before: int,
    reason: str,
    attempts: int,
    first_tried_at: int,
    last_tried_at: int,
) -> DeadLetter:
    return DeadLetter(
        application_id=application_id,
        window=Window(after, before),
        reason=reason,
        attempts=attempts,
        first_tried_at=EPOCH + timedelta(seconds=first_tried_at),
        last_tried_at=EPOCH + timedelta(seconds=last_tried_at),
    )


def _whole_seconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(seconds=1)
