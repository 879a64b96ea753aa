"""The tables of an SQLite store and what stands in them; knows no file and no transaction's end.

Every row carries a digest of itself, since SQLite notices a torn page and not
a changed letter: a damaged time or name would otherwise be a quiet loss.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

from income_client.errors import CheckpointError
from income_client.records.dead_letters import DeadLetter
from income_client.records.window import EPOCH, Window

from .change import Change, in_order
from .sqlite_faults import DAMAGED
from .store import StoredCheckpoint

APPLICATION_ID: Final = int.from_bytes(b"incC", "big")
SCHEMA_VERSION: Final = 1

# No STRICT: a store made by a new SQLite could not be read by one before 3.37.
_TABLES: Final = f"""
BEGIN;
CREATE TABLE checkpoints (
    name TEXT NOT NULL CHECK (typeof(name) = 'text'),
    checkpoint TEXT NOT NULL CHECK (typeof(checkpoint) = 'text'),
    version INTEGER NOT NULL CHECK (typeof(version) = 'integer' AND version > 0),
    digest TEXT NOT NULL,
    PRIMARY KEY (name)
) WITHOUT ROWID;
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
) WITHOUT ROWID;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""
_CHECKPOINTS: Final = "SELECT name, checkpoint, version, digest FROM checkpoints"
_LETTERS: Final = (
    "SELECT name, key, application_id, after, before, reason, attempts, "
    "first_tried_at, last_tried_at, digest FROM dead_letters"
)
_PUT_CHECKPOINT: Final = "INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?)"
_PUT_LETTER: Final = "INSERT OR REPLACE INTO dead_letters VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_DROP_LETTER: Final = "DELETE FROM dead_letters WHERE name = ? AND key = ?"


def lay_out(connection: sqlite3.Connection) -> None:
    """Make an empty database a store."""
    connection.executescript(_TABLES)


def check_owner(connection: sqlite3.Connection) -> None:
    """Look whose database it is.

    Raises:
        CheckpointError: another program's, or that of a newer version of this package.
    """
    if _pragma(connection, "application_id") != APPLICATION_ID:
        raise CheckpointError("is another program's database, or a damaged one")
    version = _pragma(connection, "user_version")
    if version > SCHEMA_VERSION:
        raise CheckpointError("was written by a newer version of this package")
    if version < SCHEMA_VERSION:
        raise CheckpointError(DAMAGED)


def check_content(connection: sqlite3.Connection) -> None:
    """Look at every page and every row.

    Raises:
        CheckpointError: something is not as it was written.
        sqlite3.Error: SQLite cannot even read it.
    """
    if _pragma(connection, "quick_check") != "ok":
        raise CheckpointError(DAMAGED)
    for query in (_CHECKPOINTS, _LETTERS):
        for _ in _rows(connection, query):
            pass


def load(connection: sqlite3.Connection, name: str) -> StoredCheckpoint:
    """Return what is stored under a name."""
    for _, checkpoint, version in _rows(connection, f"{_CHECKPOINTS} WHERE name = ?", name):
        return StoredCheckpoint(checkpoint=checkpoint, version=version)
    return StoredCheckpoint(checkpoint=None, version=0)


def letters(connection: sqlite3.Connection, name: str) -> tuple[DeadLetter, ...]:
    """Return the dead letters that are stored under a name."""
    rows = _rows(connection, f"{_LETTERS} WHERE name = ?", name)
    return in_order(_letter(*columns) for _, _, *columns in rows)


def put(connection: sqlite3.Connection, change: Change) -> None:
    """Write a change, whatever version is stored."""
    name = change.name
    version = change.version + 1
    connection.execute(_PUT_CHECKPOINT, _signed(name, change.checkpoint, version))
    connection.executemany(_DROP_LETTER, ((name, key) for key in change.resolved))
    connection.executemany(_PUT_LETTER, (_row(name, letter) for letter in change.dead_letters))


def _pragma(connection: sqlite3.Connection, name: str) -> Any:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def _rows(connection: sqlite3.Connection, query: str, *values: str) -> Iterator[list[Any]]:
    """Yield rows that are as they were written, without their digests."""
    for *columns, digest in connection.execute(query, values):
        if digest != _digest(*columns):
            raise CheckpointError(f"{DAMAGED}, or was edited by hand")
        yield columns


def _row(name: str, letter: DeadLetter) -> tuple[Any, ...]:
    return _signed(
        name,
        letter.key,
        letter.application_id,
        letter.window.after,
        letter.window.before,
        letter.reason,
        letter.attempts,
        _seconds(letter.first_tried_at),
        _seconds(letter.last_tried_at),
    )


def _letter(
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


def _seconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(seconds=1)


def _signed(*columns: Any) -> tuple[Any, ...]:
    return (*columns, _digest(*columns))


def _digest(*columns: Any) -> str:
    return hashlib.sha256(json.dumps(columns, default=repr).encode()).hexdigest()
