"""What an export has noted of itself, in a file of SQLite's; knows no line and no service."""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from attrs import frozen

from income_client import ConfigurationError

_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS there (application_id TEXT PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS missing (application_id TEXT PRIMARY KEY, reason TEXT NOT NULL)",
)
_PRAGMAS: Final = ("locking_mode = EXCLUSIVE", "journal_mode = DELETE", "synchronous = FULL")
_TAKEN: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


@frozen
class Missing:
    """An application that could not be read."""

    application_id: str
    """Which one."""
    reason: str
    """Why, without any content."""


class Notes:
    """The notes in one file, for this process alone until they are closed.

    Args:
        path: the file; an empty one becomes notes.

    Raises:
        ConfigurationError: another process has it, or it holds something else.
    """

    def __init__(self, path: Path) -> None:
        self._folder = path.parent
        self._turn = threading.Lock()
        with self._explained():
            self._database = sqlite3.connect(
                path, timeout=0, isolation_level=None, check_same_thread=False
            )
        try:
            with self._explained():
                for pragma in _PRAGMAS:
                    self._database.execute(f"PRAGMA {pragma}")
                with self._transaction():
                    for statement in _SCHEMA:
                        self._database.execute(statement)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let other processes have it."""
        with self._turn:  # a thread may be asking still
            self._database.close()

    def fact(self, name: str) -> str | None:
        """Return what is noted under a name, None for nothing."""
        query = "SELECT value FROM facts WHERE name = ?"
        with self._explained():
            row = self._database.execute(query, (name,)).fetchone()
        return None if row is None else str(row[0])

    def missing(self) -> list[Missing]:
        """Return what could not be read so far."""
        with self._explained():
            rows = self._database.execute("SELECT application_id, reason FROM missing ORDER BY 1")
            return [Missing(*row) for row in rows]

    def known(self, application_ids: Sequence[str]) -> set[str]:
        """Return those that are there, or missing."""
        query = (
            "SELECT 1 FROM there WHERE application_id = :id"
            " UNION SELECT 1 FROM missing WHERE application_id = :id"
        )
        with self._explained():
            return {
                one
                for one in application_ids
                if self._database.execute(query, {"id": one}).fetchone() is not None
            }

    def add(
        self,
        facts: dict[str, object],
        there: Sequence[str] = (),
        missing: Sequence[Missing] = (),
    ) -> None:
        """Note all of this, or nothing.

        Args:
            facts: texts and numbers by name, in place of earlier ones.
            there: applications whose lines are there now, for the first time.
            missing: applications that could not be read.
        """
        ids = [(one,) for one in there]
        with self._explained(), self._transaction():
            self._database.executemany("INSERT INTO there VALUES (?)", ids)
            self._database.executemany("DELETE FROM missing WHERE application_id = ?", ids)
            self._database.executemany(
                "REPLACE INTO missing VALUES (?, ?)",
                [(one.application_id, one.reason) for one in missing],
            )
            self._database.executemany(
                "REPLACE INTO facts VALUES (?, ?)",
                [(name, str(value)) for name, value in facts.items()],
            )

    def clear(self) -> None:
        """Forget all that is noted."""
        with self._explained(), self._transaction():
            for table in ("facts", "there", "missing"):
                self._database.execute(f"DELETE FROM {table}")  # noqa: S608 - names of our own

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN EXCLUSIVE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise what SQLite says as an error of ours, without the values that it is about."""
        reason = None
        try:
            with self._turn:
                yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None)
            name = getattr(error, "sqlite_errorname", type(error).__name__)
            reason = (
                f"another export is at work in {self._folder}"
                if code in _TAKEN
                else f"the notes in {self._folder} cannot be kept or read ({name})"
            )
        if reason is not None:
            raise ConfigurationError(reason)
