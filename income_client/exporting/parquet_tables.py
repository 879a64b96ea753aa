"""Records written as Parquet while they come; knows no service and no line of JSON."""

import enum
import os
import shutil
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from income_client.disk import sync_folder
from income_client.errors import ConfigurationError
from income_client.records.documents import ApplicationRecord
from income_client.settings import check_count

from .columns import TABLES
from .libraries import check_installed
from .misfits import check_record
from .tables import AT_A_TIME

if TYPE_CHECKING:
    from .parquet_file import ParquetFile

_TAKEN: Final = "something is at the folder's place already"


class _State(enum.Enum):
    NEW = "the tables are written within a with block"
    OPEN = "the tables are open"
    FINISHED = "the tables are finished"
    GIVEN_UP = "the tables were given up"


class ParquetTables:
    """Five Parquet files in a new folder, whole or not there.

    A context manager: the folder stands at its place once the block has ended
    without an error, with the files of mode 0600 and on the disk. A record that is
    refused changes nothing; once writing has failed in another way, all is given
    up. The columns are those of `to_arrow`. Row groups are written as records
    come, so that memory does not grow with them; in an event loop, write in a thread.

    Args:
        folder: where it is to stand; nothing may be there.
        rows_per_group: rows of a row group at the most, about; fewer where they are long.

    Raises:
        ConfigurationError: pyarrow is not installed, an argument cannot be meant, or
            something is at ``folder``.
        OSError: from the block's beginning: the folder cannot be made.
    """

    def __init__(self, folder: Path | str, rows_per_group: int = 65_536) -> None:
        check_installed("pyarrow")
        self._rows_per_group = check_count("rows_per_group", rows_per_group)
        self._folder = _place(folder)
        if os.path.lexists(self._folder):
            raise ConfigurationError(_TAKEN)
        self._state = _State.NEW
        self._reason = ""
        self._records: list[ApplicationRecord] = []
        self._files = ExitStack()
        self._tables: dict[str, ParquetFile] = {}

    @property
    def rows(self) -> dict[str, int]:
        """Rows written so far, by table."""
        return dict.fromkeys(TABLES, 0) | {name: file.rows for name, file in self._tables.items()}

    def write(self, record: ApplicationRecord) -> None:
        """Write what a record becomes in each table.

        Args:
            record: an application with its documents.

        Raises:
            ConfigurationError: it is no record, or holds what a column cannot hold
                exactly, and is left out; or the tables are not open.
            OSError: the disk is full, or fails.
        """
        self._check_open()
        check_record(record)
        self._records.append(record)
        if len(self._records) >= AT_A_TIME:
            try:
                self._convert()
            except BaseException as error:
                self._give_up(type(error).__name__)
                raise

    def __enter__(self) -> Self:
        from .parquet_file import ParquetFile  # noqa: PLC0415 - loads pyarrow

        if self._state is not _State.NEW:
            raise ConfigurationError("tables are written in one with block only")
        hidden = tempfile.mkdtemp(prefix=f".{self._folder.name}.", dir=self._folder.parent)
        self._unfinished = Path(hidden)
        self._state = _State.OPEN
        try:
            for name in TABLES:
                file = ParquetFile(name, self._unfinished, self._rows_per_group, self._files)
                self._tables[name] = file
        except BaseException as error:
            self._give_up(type(error).__name__)
            raise
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc_type is None:
            self.close()
        elif self._state is _State.OPEN:
            self._give_up(exc_type.__name__)

    def close(self) -> None:
        """Finish the files and put the folder at its place; again does nothing.

        Raises:
            ConfigurationError: something has come to the folder's place, or the
                tables were given up before.
            OSError: the disk is full, or fails.
        """
        if self._state is _State.FINISHED:
            return
        self._check_open()
        try:
            self._convert()
            for file in self._tables.values():
                file.finish()
            self._files.close()
            self._publish()
        except BaseException as error:
            self._give_up(type(error).__name__)
            raise
        self._state = _State.FINISHED

    def _check_open(self) -> None:
        if self._state is not _State.OPEN:
            raise ConfigurationError(f"{self._state.value}{self._reason}")

    def _convert(self) -> None:
        from .arrow_batches import batches_of  # noqa: PLC0415 - loads pyarrow

        for name, batch in batches_of(self._records).items():
            self._tables[name].take(batch)
        self._records.clear()

    def _publish(self) -> None:
        sync_folder(self._unfinished)
        # Looked at before, since an empty folder would be replaced.
        if os.path.lexists(self._folder):
            raise ConfigurationError(_TAKEN)
        self._unfinished.rename(self._folder)
        sync_folder(self._folder.parent)

    def _give_up(self, error: str) -> None:
        self._state = _State.GIVEN_UP
        self._reason = f" after {error}"
        self._records.clear()
        with suppress(Exception):
            self._files.close()
        shutil.rmtree(self._unfinished, ignore_errors=True)


def _place(folder: object) -> Path:
    if isinstance(folder, str | os.PathLike):
        try:
            return Path(folder).absolute()
        except TypeError:  # a path of bytes
            pass
    raise ConfigurationError(f"folder is a path, not {type(folder).__name__}")
