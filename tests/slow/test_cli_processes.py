"""What only a process can show: kills, second signals, closed streams, and how it is started."""

import signal
from pathlib import Path

import pytest

from income_client.testing import IncomeService
from tests.support.beside import until
from tests.support.processes import environment, file_for, started
from tests.support.served import documents_of

HERE = ("--allow-host", "127.0.0.1")


@pytest.mark.income_service(applications=60)
def test_a_killed_download_leaves_no_file_out(
    income_service: IncomeService, tmp_path: Path
) -> None:
    """After SIGKILL at any moment each path is printed by one of both runs, and all is whole."""
    folder, lines = tmp_path / "files", tmp_path / "lines"
    command = ("download", "--to", str(folder), *HERE, *income_service.ids)
    with file_for(lines) as file:
        with started(*command, env=environment(income_service), stdout=file) as process:
            until(lambda: lines.stat().st_size > 2_000)
            process.send(signal.SIGKILL)
            assert process.wait().status == -signal.SIGKILL
        with started(*command, env=environment(income_service), stdout=file) as process:
            assert process.wait().status == 0
    for document_id in documents_of(income_service):
        (path,) = folder.rglob(f"{document_id}-0.*")
        assert path.read_bytes() == income_service.content_of(document_id)
        assert str(path) in lines.read_text("utf-8").splitlines()
