"""Records written as Parquet while they come; knows no service and no line of JSON."""

import os
import shutil
import tempfile
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from income_client.checks import check_count
from income_client.errors import ClientClosedError, ConfigurationError
from income_client.records.documents import ApplicationRecord

from .columns import TABLES
from .libraries import library
from .tables import AT_A_TIME

_PRIVATE: Final = 0o600
_COMPRESSION: Final = "zstd"
_MOST_BYTES: Final = 32 * 2**20
"""Of a row group before it is compressed: five of these are what is held at the most."""


class ParquetTables:
    """Five Parquet files in a new folder, whole or not there.

    A context manager: the folder stands at its place once the block has ended
    without an error, with the files of mode 0600 and on the disk. The columns are
    those of `to_arrow`. Row groups are written as records come, so that memory
    does not grow with them; in an event loop, write in a thread.

    Args:
        folder: where it is to stand; nothing may be there.
        rows_per_group: rows of a row group at the most, about; fewer where they are long.

    Raises:
        ConfigurationError: pyarrow is not installed, or something is at ``folder``.
        OSError: the folder cannot be made.
    """

    def __init__(self, folder: Path | str, rows_per_group: int = 65_536) -> None:
        library("pyarrow")
        self._rows_per_group = check_count("rows_per_group", rows_per_group)
        self._folder = Path(folder).absolute()
        if os.path.lexists(self._folder):
            raise ConfigurationError("something is at the folder's place already")
        unfinished = tempfile.mkdtemp(prefix=f".{self._folder.name}.", dir=self._folder.parent)
        self._unfinished = Path(unfinished)
        self._records: list[ApplicationRecord] = []
        self._is_over = False
        self._files = ExitStack()
        try:
            self._tables = {name: self._table(name) for name in TABLES}
        except BaseException:
            self._discard()
            raise

    @property
    def rows(self) -> dict[str, int]:
        """Rows written so far, by table."""
        return {name: table.rows for name, table in self._tables.items()}

    def write(self, record: ApplicationRecord) -> None:
        """Write what a record becomes in each table.

        Args:
            record: an application with its documents.

        Raises:
            ConfigurationError: the record, or one of those shortly before it, holds
                what a column cannot hold exactly.
            ClientClosedError: the folder is finished, or given up.
            OSError: the disk is full, or fails.
        """
        if self._is_over:
            raise ClientClosedError("the tables are closed")
        self._records.append(record)
        if len(self._records) >= AT_A_TIME:
            self._convert()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc_type is None:
            self.close()
        else:
            self._discard()

    def close(self) -> None:
        """Finish the files and put the folder at its place; again does nothing.

        Raises:
            ConfigurationError: a record holds what a column cannot hold exactly, or
                something has come to the folder's place.
            OSError: the disk is full, or fails.
        """
        if self._is_over:
            return
        try:
            self._convert()
            for table in self._tables.values():
                table.finish()
            self._files.close()
            _sync(self._unfinished)
            is_free = _moved(self._unfinished, self._folder)
        except BaseException:
            self._discard()
            raise
        if not is_free:
            self._discard()
            raise ConfigurationError("something is at the folder's place already")
        self._is_over = True

    def _table(self, name: str) -> "_Table":
        return _Table(name, self._unfinished / f"{name}.parquet", self._rows_per_group, self._files)

    def _convert(self) -> None:
        arrow: Any = import_module(f"{__package__}.arrow_batches")
        records, self._records = self._records, []
        for name, batch in arrow.batches_of(records).items():
            self._tables[name].take(batch)

    def _discard(self) -> None:
        if not self._is_over:
            self._is_over = True
            with suppress(Exception):
                self._files.close()
            shutil.rmtree(self._unfinished, ignore_errors=True)


class _Table:
    """One file, and the rows that wait to become its next row group."""

    def __init__(self, name: str, path: Path, rows_per_group: int, files: ExitStack) -> None:
        arrow: Any = import_module(f"{__package__}.arrow_batches")
        self.rows = 0
        self._schema = arrow.SCHEMAS[name]
        self._rows_per_group = rows_per_group
        self._waiting: list[Any] = []
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = files.enter_context(os.fdopen(os.open(path, flags, _PRIVATE), "wb"))
        parquet = library("pyarrow.parquet")
        self._writer = files.enter_context(
            parquet.ParquetWriter(self._file, self._schema, compression=_COMPRESSION)
        )

    def take(self, batch: Any) -> None:
        self.rows += batch.num_rows
        self._waiting.append(batch)
        rows = sum(one.num_rows for one in self._waiting)
        if rows >= self._rows_per_group or sum(one.nbytes for one in self._waiting) >= _MOST_BYTES:
            self._write()

    def finish(self) -> None:
        self._write()
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, []
        table = library("pyarrow").Table.from_batches(waiting, schema=self._schema)
        if table.num_rows:
            self._writer.write_table(table, row_group_size=self._rows_per_group)


def _moved(folder: Path, to: Path) -> bool:
    # Looked at before, since an empty folder would be replaced.
    if os.path.lexists(to):
        return False
    folder.rename(to)
    _sync(to.parent)
    return True


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
