"""The file of an SQLite store: how it comes to be, and what is looked at before it is used.

Knows nothing of what stands in it. The file itself is opened by SQLite alone:
closing any other descriptor of it would drop the locks that SQLite holds on
it for another thread of this process.
"""

import errno
import os
import re
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from income_client.disk import sync_descriptor, sync_folder
from income_client.errors import CheckpointError

from . import sqlite_schema as schema

_PRIVATE: Final = 0o600
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_BESIDE: Final = ("-wal", "-shm", "-journal")
_DRAFT: Final = "store"
_DRAFTS: Final = ".creating"
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EACCES, errno.ENOSYS, errno.ENOTSUP})

# In force for one connection. A commit is on the disk when it returns.
_SETTINGS: Final = """
PRAGMA synchronous = FULL;
PRAGMA fullfsync = ON;
PRAGMA checkpoint_fullfsync = ON;
PRAGMA cell_size_check = ON;
"""


class StoreFile:
    """A store's file, found again for every operation.

    Attributes:
        path: where it is, or will be.
        busy_seconds: how long others are waited for.
    """

    def __init__(self, path: Path, busy_seconds: float) -> None:
        self.path = path
        self.busy_seconds = busy_seconds
        self._checked: os.stat_result | None = None

    @property
    def true_path(self) -> Path:
        """Where it is, without symbolic links: SQLite puts its other files beside it."""
        return Path(os.path.realpath(self.path))

    @contextmanager
    def opened(self, *, create: bool) -> Iterator[sqlite3.Connection | None]:
        """Lend a connection for one operation.

        Args:
            create: whether to make a store where none is.

        Yields:
            The connection, in autocommit mode; None where no store is.

        Raises:
            CheckpointError: what is there is no store of ours, or half of one.
            sqlite3.Error: SQLite cannot use it.
            OSError: the file system refuses.
        """
        path = self.true_path
        found = _find(path)
        if found is None and create and self._checked is None:
            _create(path)
            found = _find(path)
        if found is None:
            if create or self._checked is not None:
                raise CheckpointError("is gone since it was used last")
            yield None
            return
        if self._checked is None or not os.path.samestat(self._checked, found):
            self._check(path)
            self._checked = found
        _narrow(path, found)
        with self._connected(path, "rw") as connection:
            # A copy made by VACUUM INTO is no longer in this mode; without change this is free.
            connection.execute("PRAGMA journal_mode = WAL")
            yield connection

    def _check(self, path: Path) -> None:
        # The last connection to leave empties the -wal file into the store, and if that is
        # damaged it stays as it is found; one that may only read leaves an empty -wal behind.
        mode = "ro" if _size(_beside(path, "-wal")) else "rw"
        with self._connected(path, mode) as connection:
            schema.check_content(connection)
        _clear_drafts(path)

    @contextmanager
    def _connected(self, path: Path, mode: str) -> Iterator[sqlite3.Connection]:
        address = f"{path.as_uri()}?mode={mode}"
        with closing(
            sqlite3.connect(address, uri=True, timeout=self.busy_seconds, isolation_level=None),
        ) as connection:
            connection.executescript(_SETTINGS)
            schema.check_owner(connection)
            yield connection


def _find(path: Path) -> os.stat_result | None:
    # Looked for first: whoever creates a store puts its file there before it has a -wal.
    has_wal = _beside(path, "-wal").exists()
    try:
        found = path.stat()
    except FileNotFoundError:
        if has_wal:
            reason = "is gone, but its -wal file is there: bring it back, or remove that too"
            raise CheckpointError(reason) from None
        path.parent.stat()
        return None
    if not stat.S_ISREG(found.st_mode):
        raise CheckpointError("is no regular file")
    if found.st_size == 0:
        raise CheckpointError("is damaged: the file is empty")
    return found


def _narrow(path: Path, found: os.stat_result) -> None:
    if found.st_mode & _OTHERS:
        path.chmod(_PRIVATE)
        for suffix in _BESIDE:
            with suppress(FileNotFoundError):
                _beside(path, suffix).chmod(_PRIVATE)


def _create(path: Path) -> None:
    """Put a whole and empty store where nothing is; never replace anything."""
    try:
        drafts = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=_DRAFTS, dir=path.parent))
        try:
            _publish(_draft(drafts), path)
        finally:
            _clear(drafts)
    except (OSError, sqlite3.Error):
        # Another process was faster, and may have cleared our draft away already.
        if not path.exists():
            raise
    sync_folder(path.parent)


def _draft(folder: Path) -> Path:
    draft = folder / _DRAFT
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _PRIVATE))
    with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
        connection.executescript(_SETTINGS)
        connection.execute("PRAGMA journal_mode = WAL")
        schema.lay_out(connection)
    _sync_file(draft)
    return draft


def _publish(draft: Path, path: Path) -> None:
    try:
        path.hardlink_to(draft)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # Whoever gets to make the empty file may replace it. Killed in between, an empty
        # file is left, which the next start reports; a plain rename could replace a store.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _PRIVATE))
        draft.replace(path)


def _clear_drafts(path: Path) -> None:
    """Remove what killed processes left; where a store is, no draft can become one."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.[a-z0-9_]{{8}}{re.escape(_DRAFTS)}")
    with suppress(OSError):
        for folder in [one for one in path.parent.iterdir() if pattern.fullmatch(one.name)]:
            _clear(folder)


def _clear(folder: Path) -> None:
    draft = folder / _DRAFT
    for file in (draft, *(_beside(draft, suffix) for suffix in _BESIDE)):
        with suppress(OSError):
            file.unlink()
    with suppress(OSError):
        folder.rmdir()


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)  # Windows syncs only what may be written
    try:
        sync_descriptor(descriptor)
    finally:
        os.close(descriptor)
