"""Records as Parquet files, written while the records arrive."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from income_client.errors import ConfigurationError, InvalidArgumentError
from income_client.records.documents import ApplicationRecord
from income_client.settings import check_count
from income_client.system.disk import check_folder, new_file, sync_descriptor, sync_folder

from .rows import ROWS
from .tables import require_pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

_TAKEN: Final = "something is at the folder's place already"
_NEW: Final = "the tables are written within a with block"
_FINISHED: Final = "the tables are finished"
_GROUP_BYTES: Final = 32 * 2**20
"""Largest size of a row group in bytes, before compression; there are five tables."""


def read_columns(path: Path, first: str, second: str) -> Iterator[tuple[object, object]]:
    """Yield the values of two columns of a Parquet file, row by row.

    Args:
        path: the file.
        first: name of a column.
        second: name of another column.

    Raises:
        ConfigurationError: pyarrow is not installed, the file is damaged, or has no such columns.
        OSError: it cannot be read.
    """
    require_pyarrow()
    import pyarrow as pa  # noqa: PLC0415 - an extra
    import pyarrow.parquet as pq  # noqa: PLC0415 - an extra

    try:
        with pq.ParquetFile(path) as file:
            if not {first, second} <= {*file.schema_arrow.names}:
                raise ConfigurationError(f"{path} has no columns {first} and {second}")
            for batch in file.iter_batches(columns=[first, second]):
                yield from zip(
                    batch.column(first).to_pylist(), batch.column(second).to_pylist(), strict=True
                )
    except pa.ArrowException as error:
        raise ConfigurationError(f"{path} is not a Parquet file ({type(error).__name__})") from None


class ParquetTables:
    """Five Parquet files in a new folder, which appears only when all are complete.

    A context manager: the folder appears at its place once the block has ended
    without an error, with the files of mode 0600 and on the disk. A record that is
    refused changes nothing; once writing has failed in another way, all is given
    up. The columns are those of `to_arrow`. Row groups are written as records
    come, so that memory does not grow with them; in an event loop, write in a thread.

    Args:
        folder: where the files are to be; nothing may be there.
        rows_per_group: rows of a row group at the most, about; fewer where they are long.

    Raises:
        ConfigurationError: pyarrow is not installed, an argument is invalid, or
            something is at ``folder``.
        OSError: from the block's beginning: the folder cannot be made.
    """

    def __init__(self, folder: Path | str, rows_per_group: int = 65_536) -> None:
        require_pyarrow()
        self._rows_per_group = check_count("rows_per_group", rows_per_group)
        try:
            self._folder = Path(folder).absolute()
        except TypeError:
            kind = type(folder).__name__
            raise InvalidArgumentError(
                f"folder must be a path, not {kind}", argument="folder"
            ) from None
        if os.path.lexists(self._folder):
            raise ConfigurationError(_TAKEN)
        self._closed: str | None = _NEW
        self._files = ExitStack()
        self._tables: dict[str, _ParquetFile] = {}

    @property
    def rows(self) -> dict[str, int]:
        """Number of rows written, by table."""
        return dict.fromkeys(ROWS, 0) | {name: file.rows for name, file in self._tables.items()}

    def write(self, record: ApplicationRecord) -> None:
        """Write the rows of a record to each table.

        Args:
            record: an application with its documents.

        Raises:
            ConfigurationError: it is not a record, or holds what a column cannot hold
                exactly, and is left out; or the tables are not open.
            OSError: the disk is full, or fails.
        """
        self._check_open()
        self._buffer.add(record)
        if self._buffer.is_full:
            with self._giving_up():
                self._convert_rows()

    def __enter__(self) -> Self:
        from .schema import RowBuffer  # noqa: PLC0415 - loads pyarrow

        if self._closed is not _NEW:
            raise ConfigurationError("tables are written in one with block only")
        self._buffer = RowBuffer()
        check_folder(self._folder.parent)
        hidden = tempfile.mkdtemp(prefix=f".{self._folder.name}.", dir=self._folder.parent)
        self._unfinished = Path(hidden)
        self._closed = None
        with self._giving_up():
            for name in ROWS:
                file = _ParquetFile(name, self._unfinished, self._rows_per_group, self._files)
                self._tables[name] = file
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc_type is None:
            self.close()
        elif self._closed is None:
            self._give_up(exc_type)

    def close(self) -> None:
        """Finish the files and move the folder to its place; a second call does nothing.

        Raises:
            ConfigurationError: something has come to the folder's place, or the
                tables were given up before.
            OSError: the disk is full, or fails.
        """
        if self._closed is _FINISHED:
            return
        self._check_open()
        with self._giving_up():
            self._convert_rows()
            for file in self._tables.values():
                file.finish()
            self._files.close()
            sync_folder(self._unfinished)
            # Looked at before, since an empty folder would be replaced.
            if os.path.lexists(self._folder):
                raise ConfigurationError(_TAKEN)
            self._unfinished.rename(self._folder)
            sync_folder(self._folder.parent)
        self._closed = _FINISHED

    def _check_open(self) -> None:
        if self._closed is not None:
            raise ConfigurationError(self._closed)

    def _convert_rows(self) -> None:
        for name, batch in self._buffer.take_batches().items():
            self._tables[name].write(batch)

    @contextmanager
    def _giving_up(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self._give_up(type(error))
            raise

    def _give_up(self, error: type[BaseException]) -> None:
        self._closed = f"the tables were given up after {error.__name__}"
        del self._buffer
        with suppress(Exception):
            self._files.close()
        shutil.rmtree(self._unfinished, ignore_errors=True)


class _ParquetFile:
    """A Parquet file, and the rows that wait to become its next row group."""

    def __init__(self, table: str, folder: Path, rows_per_group: int, files: ExitStack) -> None:
        import pyarrow.parquet as pq  # noqa: PLC0415 - an extra

        from .schema import SCHEMAS  # noqa: PLC0415 - loads pyarrow

        self.rows = 0
        self._rows_per_group = rows_per_group
        self._waiting: list[pa.RecordBatch] = []
        descriptor = new_file(folder / f"{table}.parquet")
        self._file = files.enter_context(os.fdopen(descriptor, "wb"))
        self._writer = files.enter_context(
            pq.ParquetWriter(self._file, SCHEMAS[table], compression="zstd")
        )

    def write(self, batch: "pa.RecordBatch") -> None:
        self.rows += batch.num_rows
        self._waiting.append(batch)
        rows = sum(waiting.num_rows for waiting in self._waiting)
        size = sum(waiting.nbytes for waiting in self._waiting)
        if rows >= self._rows_per_group or size >= _GROUP_BYTES:
            self._write_group()

    def finish(self) -> None:
        """Write the last rows, and flush the file to the disk."""
        self._write_group()
        self._writer.close()
        self._file.flush()
        sync_descriptor(self._file.fileno())

    def _write_group(self) -> None:
        import pyarrow as pa  # noqa: PLC0415 - an extra

        if self._waiting:
            table = pa.Table.from_batches(self._waiting)
            self._waiting = []
            self._writer.write_table(table, row_group_size=self._rows_per_group)
