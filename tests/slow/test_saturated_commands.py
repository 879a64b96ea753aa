"""Commands over more applications in one second than a page can hold: a thousand reads each."""

import pytest

from tests.support.cli import Cli, cli, shell
from tests.support.downloading import Download
from tests.support.exporting import Export

__all__ = ["cli", "shell"]


@pytest.mark.income_service(applications=[20 * 86_400] * 1001, file_bytes=10)
def test_a_download_reports_it(shell: Cli) -> None:
    """Where a second holds more than can be listed, the rest comes, and the status is 1."""
    ran = Download(shell)("--updated-after", "beginning", "--type", "none")
    assert ran.status == 1
    assert "1970-01-21T00:00:00" in ran.stderr


@pytest.mark.income_service(applications=[1_780_302_600] * 1030)
def test_an_export_does_not_pass_over_it(shell: Cli) -> None:
    """Rows that cannot be listed are missing too: no file, unless that is allowed."""
    export = Export(shell)
    ran = export("--no-documents")
    assert ran.status == 1
    assert "2026-06-01T08:30:00" in ran.stderr
    assert export("--no-documents", "--allow-missing").status == 0
    assert len(set(export.ids)) == len(export.ids) >= 1000
    assert export.manifest["saturated_seconds"] == ["2026-06-01T08:30:00"]
