"""State of an unfinished export: a folder beside its target, with lines and an SQLite file."""

import os
import shutil
import sqlite3
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final, Self

from income_client import IncomeClientError
from income_client.system.disk import (
    check_folder,
    is_open_to_others,
    is_ours,
    new_file,
    publish_file,
    sync_descriptor,
    sync_folder,
    write_file,
)

_LINES: Final = "records.jsonl"
_TABLES: Final = "tables"
_MANIFEST: Final = "manifest.json"
_DATABASE: Final = "export.db"
_PRAGMAS: Final = ("locking_mode = EXCLUSIVE", "journal_mode = DELETE", "synchronous = FULL")
_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID",
    # With a reason, the application could not be read; without one, its line is there.
    "CREATE TABLE IF NOT EXISTS applications (id TEXT PRIMARY KEY, reason TEXT) WITHOUT ROWID",
)
_ADD: Final = (
    "INSERT INTO applications VALUES (?, ?)"
    " ON CONFLICT DO UPDATE SET reason = excluded.reason WHERE reason IS NOT NULL"
)
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


class Workspace:
    """The folder of an unfinished export, used by this process alone during the block.

    Lines are on the disk before the SQLite file counts them: what a crash leaves behind the
    last that is counted is cut off. Nothing at the target is ever replaced.
    """

    def __init__(self, target: Path, *, has_manifest_beside: bool) -> None:
        self.folder: Path = target.with_name(f"{target.name}.part")
        self.lines: Path = self.folder / _LINES
        self._target = target
        self._manifest = target.with_name(f"{target.name}.{_MANIFEST}")
        self._has_manifest_beside = has_manifest_beside
        self._facts: dict[str, Any] = {}
        self._turn = Lock()
        path = self.folder / _DATABASE
        self._make_folder()
        with suppress(FileExistsError):
            os.close(new_file(path))
        self._database = sqlite3.connect(
            path, timeout=0, isolation_level=None, check_same_thread=False
        )
        try:
            self._lock()
            self._facts.update(self._database.execute("SELECT name, value FROM facts"))
            count = "SELECT count(*) FROM applications WHERE reason IS NULL"
            self.records: int = self._database.execute(count).fetchone()[0]
            self.size: int = self._facts.get("size", 0)
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._facts:
            self.remove()  # nothing has begun
        self._database.close()

    @property
    def is_published(self) -> bool:
        """Whether an earlier run has published this export before it was killed."""
        name = self._facts.get("published")
        if name is None or not _is_there(self._target):
            return False
        source = self.folder / name
        # A file that was linked is there twice; what was renamed is not here any more.
        return not _is_there(source) or os.path.samestat(source.lstat(), self._target.lstat())

    def fact(self, name: str) -> Any:
        """Return the stored value of a name; None without one."""
        return self._facts.get(name)

    def note(
        self, rows: Sequence[tuple[str, str | None]] = (), **facts: str | float | None
    ) -> None:
        """Store facts and rows of applications in the SQLite file, in one transaction."""
        with self._database:
            self._database.execute("BEGIN")
            self._database.executemany(_ADD, rows)
            self._database.executemany("REPLACE INTO facts VALUES (?, ?)", facts.items())
        self._facts.update(facts)

    def resume(self) -> None:
        """Prepare for more lines; raise if the target exists, or stored lines are damaged."""
        self._check_free()
        if self.fact("published") is not None:
            self.note(published=None)
        with suppress(FileExistsError):
            os.close(new_file(self.lines))
        if self.lines.stat().st_nlink > 1:
            # A killed run has put them at the target, and somebody has renamed that since.
            copy = self.folder / f"{_LINES}.copy"
            shutil.copy2(self.lines, copy)
            copy.replace(self.lines)
        if self.lines.stat().st_size < self.size:
            raise IncomeClientError(f"{self.folder} is damaged: delete it to begin again")
        self._write(b"")

    def new(self, application_ids: Sequence[str]) -> list[str]:
        """Return the ids that are neither stored nor recorded as missing."""
        query = "SELECT 1 FROM applications WHERE id = ?"
        with self._turn:
            return [
                application_id
                for application_id in application_ids
                if self._database.execute(query, (application_id,)).fetchone() is None
            ]

    def missing(self) -> dict[str, str]:
        """Return the unreadable applications so far, with the reasons."""
        query = "SELECT id, reason FROM applications WHERE reason IS NOT NULL ORDER BY id"
        return dict(self._database.execute(query))

    def keep(
        self,
        lines: Mapping[str, bytes],
        missing: Mapping[str, str],
        *,
        checkpoint: str | None,
        **facts: str | float | None,
    ) -> None:
        """Write lines to the disk, all or none, so that they survive a loss of power.

        An application that has a line already keeps that. The checkpoint is the walk's, and
        covers nothing but what is kept by now. The facts are noted with it.
        """
        query = "SELECT 1 FROM applications WHERE id = ? AND reason IS NULL"
        with self._turn:
            there = {
                application_id
                for application_id in lines
                if self._database.execute(query, (application_id,)).fetchone()
            }
            fresh = {
                application_id: line
                for application_id, line in lines.items()
                if application_id not in there
            }
            written = b"".join(line + b"\n" for line in fresh.values())
            self._write(written)
            size = self.size + len(written)
            rows = [*((application_id, None) for application_id in fresh), *missing.items()]
            self.note(rows, size=size, checkpoint=checkpoint, **facts)
            self.size = size
            self.records += len(fresh)

    def empty_tables(self) -> Path:
        """Return an empty folder for the Parquet files; remove the files of an earlier run."""
        for path in self.folder.iterdir():
            if path.name.lstrip(".").startswith(_TABLES):
                shutil.rmtree(path)
        return self.folder / _TABLES

    def publish_lines(self, manifest: bytes) -> None:
        """Move the JSON lines to the target, and the manifest to ``<target>.manifest.json``."""
        self._check_free()
        self._manifest.unlink(missing_ok=True)
        # Noted first, so that the next run knows what it finds there after a kill.
        self.note(manifest=manifest.decode(), published=_LINES)
        source = self.folder / _MANIFEST
        write_file(source, manifest)
        publish_file(source, self._manifest)
        publish_file(self.lines, self._target)
        sync_folder(self._target.parent)

    def publish_tables(self, manifest: bytes) -> None:
        """Move the Parquet files to the target, with the manifest among them."""
        source = self.folder / _TABLES
        write_file(source / _MANIFEST, manifest)
        sync_folder(source)
        self.note(published=_TABLES)
        self._check_free()
        source.rename(self._target)
        sync_folder(self._target.parent)

    def remove(self) -> None:
        """Remove the folder; files that cannot be removed stay for the next run."""
        with suppress(OSError):
            # Last the SQLite file, which says what the rest is.
            for path in sorted(self.folder.iterdir(), key=lambda path: path.name == _DATABASE):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()
            self.folder.rmdir()

    def _make_folder(self) -> None:
        check_folder(self.folder.parent)
        with suppress(FileExistsError):
            self.folder.mkdir(0o700)
            self.folder.chmod(0o700)  # the umask may have taken from it
        facts = self.folder.lstat()
        if not stat.S_ISDIR(facts.st_mode) or not is_ours(facts) or is_open_to_others(facts):
            raise IncomeClientError(
                f"{self.folder} is not a folder that only you can use: choose another place"
            )
        names = {path.name for path in self.folder.iterdir()}
        if _DATABASE in names:
            return
        if names:
            raise IncomeClientError(
                f"{self.folder} is not what this version keeps of an export: "
                "delete it, or choose another place"
            )
        try:
            self._check_free()
        except (IncomeClientError, OSError):
            with suppress(OSError):
                self.folder.rmdir()
            raise

    def _lock(self) -> None:
        """Lock the SQLite file for this process."""
        try:
            for pragma in _PRAGMAS:
                self._database.execute(f"PRAGMA {pragma}")
            self._database.execute("BEGIN EXCLUSIVE")
            for statement in _SCHEMA:
                self._database.execute(statement)
            self._database.execute("COMMIT")
            # The process that had it may have removed it just now.
            is_ours = (self.folder / _DATABASE).exists()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode not in _BUSY:
                raise
            is_ours = False
        if not is_ours:
            raise IncomeClientError(f"another export is at work in {self.folder}")

    def _write(self, content: bytes) -> None:
        """Write lines after the counted ones, over the rest of a failed write."""
        with self.lines.open("r+b") as file:
            file.truncate(self.size)
            file.seek(self.size)
            file.write(content)
            file.flush()
            sync_descriptor(file.fileno())

    def _check_free(self) -> None:
        """Raise if a file would be replaced, except the manifest of an earlier run."""
        if _is_there(self._target):
            raise IncomeClientError(f"{self._target} exists already, and is not overwritten")
        if self._has_manifest_beside and _is_there(self._manifest) and not self._is_ours():
            raise IncomeClientError(f"{self._manifest} exists already, and is not overwritten")

    def _is_ours(self) -> bool:
        noted = self._facts.get("manifest")
        return noted is not None and self._manifest.read_bytes() == noted.encode()


def _is_there(path: Path) -> bool:
    """Return whether a path exists, even as a broken link; raise if no file can be there."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    return True
