"""One table written as a Parquet file, in row groups; loaded only where tables are wanted."""

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from income_client.disk import sync_descriptor

from .arrow_batches import SCHEMAS, table_of

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL  # follows no link
_PRIVATE: Final = 0o600
_COMPRESSION: Final = "zstd"
_MOST_BYTES: Final = 32 * 2**20
"""Of a row group before it is compressed: five of these are what is held at the most."""


class ParquetFile:
    """One file, and the rows that wait to become its next row group.

    Args:
        name: of the table.
        folder: where the file is made.
        rows_per_group: rows of a row group at the most, about.
        files: closes it, whole or not.

    Attributes:
        rows: that it was given.
    """

    def __init__(self, name: str, folder: Path, rows_per_group: int, files: ExitStack) -> None:
        self.rows: int = 0
        self._name = name
        self._rows_per_group = rows_per_group
        self._waiting: list[pa.RecordBatch] = []
        descriptor = os.open(folder / f"{name}.parquet", _NEW, _PRIVATE)
        self._file = files.enter_context(os.fdopen(descriptor, "wb"))
        self._writer = files.enter_context(
            pq.ParquetWriter(self._file, SCHEMAS[name], compression=_COMPRESSION)
        )

    def take(self, batch: pa.RecordBatch) -> None:
        """Write more rows, or keep them for the next row group."""
        self.rows += batch.num_rows
        self._waiting.append(batch)
        rows = sum(one.num_rows for one in self._waiting)
        if rows >= self._rows_per_group or sum(one.nbytes for one in self._waiting) >= _MOST_BYTES:
            self._write()

    def finish(self) -> None:
        """Write the rest, and bring the file to the disk."""
        self._write()
        self._writer.close()
        self._file.flush()
        sync_descriptor(self._file.fileno())

    def _write(self) -> None:
        table = table_of(self._name, self._waiting)
        self._waiting = []
        if table.num_rows:
            self._writer.write_table(table, row_group_size=self._rows_per_group)
