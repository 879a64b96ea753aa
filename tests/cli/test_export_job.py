"""One call of ``export`` from its first question to its file: what is said, and what is not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

import pytest

from income_client import ConfigurationError, IncomeClient
from income_client.cli.exports import end
from income_client.cli.exports.job import ExportJob
from income_client.cli.exports.part import Part
from income_client.cli.exports.request import Request
from income_client.cli.output.status_line import StatusLine
from income_client.cli.stopping.stoppable import Stoppable
from income_client.emulator import Emulator

_HINT: Final = "--format jsonl, with the same other arguments, loses nothing"


class UnnotablePart(Part):
    """A part whose notes take no more once all lines are there."""

    def note(self, **facts: object) -> None:
        """Fail as where the disk does."""
        raise ConfigurationError("the notes cannot be kept or read (SQLITE_FULL)")


class MisfitTables:
    """Tables with a column that cannot hold a value."""

    def __init__(self, _: Path) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def write(self, _: object) -> None:
        """Refuse it."""
        raise ConfigurationError("a column cannot hold it")


async def fails(folder: Path, part_of: Callable[[Path], Part]) -> ConfigurationError | OSError:
    """Export a small service as tables, and return why that fails."""
    async with (
        Emulator(2) as service,
        IncomeClient(service.url, auth=service.oauth2) as client,
    ):
        request = Request(
            service=service.url,
            updated_after=None,
            updated_before=None,
            documents=True,
            pages=False,
        )
        with part_of(folder / "all.part") as part:
            job = ExportJob(
                client, part, request, folder / "all", "parquet", StatusLine(), Stoppable()
            )
            with pytest.raises((ConfigurationError, OSError)) as caught:
                await job.run(4, allow_missing=False)
    assert isinstance(caught.value, ConfigurationError | OSError)
    return caught.value


class FullTables(MisfitTables):
    """Tables on a disk that is full."""

    def write(self, _: object) -> None:
        """Fail as there."""
        raise OSError(28, "No space left on device")


async def test_another_format_is_no_help_against_a_full_disk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The hint is for what a column cannot hold, and not for notes that cannot be kept."""
    error = await fails(tmp_path, UnnotablePart)
    assert "cannot be kept" in str(error)
    assert _HINT not in capsys.readouterr().err


async def test_another_format_holds_what_a_column_cannot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is said, since nothing of what has come need be read again."""
    tables: Any = MisfitTables
    monkeypatch.setattr(end, "ParquetTables", tables)
    error = await fails(tmp_path, Part)
    assert "cannot hold" in str(error)
    assert _HINT in capsys.readouterr().err


async def test_tables_without_room_tell_what_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All lines are there: with room again, the tables are made of these."""
    tables: Any = FullTables
    monkeypatch.setattr(end, "ParquetTables", tables)
    assert isinstance(await fails(tmp_path, Part), OSError)
    assert "all.part keeps 2 applications: run it again" in capsys.readouterr().err
