"""Files on a file system whose folders cannot be brought to the disk, as some networks' cannot."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from income_client.testing import IncomeService
from tests.support.cli import Cli

COMMANDS: Final[dict[str, Callable[[IncomeService, Path], tuple[str, ...]]]] = {
    "application": lambda service, to: (service.ids[0], "--html", str(to)),
    "download": lambda service, to: (
        service.ids[0], "--to", str(to), "--allow-host", "127.0.0.1",
    ),
    "export": lambda _, to: ("--to", str(to)),
    "export-parquet": lambda _, to: ("--to", str(to), "--format", "parquet"),
    "poll": lambda _, to: ("--store", str(to), "--start", "beginning", "--once"),
}  # fmt: skip


@pytest.fixture(params=[errno.EINVAL, errno.ENOTSUP], ids=["EINVAL", "ENOTSUP"])
def _no_folder_is_synced(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Have the system refuse it for folders, and do it for files."""
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(request.param, os.strerror(request.param))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    yield
    monkeypatch.undo()


@pytest.mark.usefixtures("_no_folder_is_synced")
@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_written_is_a_success(command: str, tmp_path: Path, cli: Cli) -> None:
    """The file is there, so nothing says that it could not be written."""
    with IncomeService(3) as service:
        arguments = COMMANDS[command](service, tmp_path / "there")
        ended = cli.at(service)(command.partition("-")[0], *arguments)
    assert ended.status == 0
    assert "cannot" not in ended.stderr
    assert (tmp_path / "there").exists()
