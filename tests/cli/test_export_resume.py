"""``income-client export`` interrupted, out of room and out of reach: what the next run has."""

import re
from pathlib import Path

import pytest

from income_client.emulator import Fault
from income_client.testing import IncomeService
from tests.support.cli import Cli, Terminal
from tests.support.exporting import Export
from tests.support.limits import no_room_above

FILES = {"all", "all.manifest.json"}
several = pytest.mark.income_service(applications=200)


@pytest.fixture
def export(service_cli: Cli, income_service: IncomeService, tmp_path: Path) -> Export:
    """Exports into a folder of its own."""
    return Export(service_cli, income_service, tmp_path / "exports")


@several
@pytest.mark.parametrize(("signal", "status"), [("interrupt", 130), ("terminate", 143)])
def test_a_signal_keeps_what_has_come(
    signal: str, status: int, export: Export, income_service: IncomeService
) -> None:
    """It says where that is, and the next run asks for none of it again."""
    ran = export.interrupted(by=signal)
    assert (ran.status, ran.stdout) == (status, "")
    assert f"{export.part} keeps {len(export.kept)} applications" in ran.stderr
    kept, before = set(export.kept), len(income_service.requests)
    assert len(kept) > 100
    assert export().status == 0
    later = income_service.requests[before:]
    assert not {each.path.split("/")[4] for each in later if "/app-" in each.path} & kept
    assert export.ids == sorted(income_service.ids)
    assert export.left == FILES


@pytest.mark.income_service(applications=300)
def test_interruptions_lose_and_repeat_nothing(
    export: Export, income_service: IncomeService
) -> None:
    """A line that was cut off is no harm, and the span keeps the end that the first run gave it."""
    for _ in range(2):
        export.interrupted()
        with (export.part / "records.jsonl").open("ab") as lines:
            lines.write(b'{"application":{"application_id":"app-torn')
        income_service.advance(3600)
    ran = export()
    assert ran.status == 0
    assert export.ids == sorted(income_service.ids)
    assert export.manifest["updated_before"] == "2026-06-30T12:00:00"


@several
def test_a_span_back_from_the_present_stays(export: Export, income_service: IncomeService) -> None:
    """The runs after the first keep to its bounds, though the service's time has moved on."""
    export.interrupted("--updated-after", "200d")
    income_service.advance(3600)
    other = export("--updated-after", "1d")
    assert other.status != 0
    assert all(each in other.stderr for each in ("--updated-after 200d", "--updated-after 1d"))
    assert export("--updated-after", "200d").status == 0
    assert export.manifest["updated_after"] == "2025-12-12T12:00:00"
    assert export.manifest["updated_before"] == "2026-06-30T12:00:00"


@several
def test_another_service_is_refused(
    export: Export, income_service: IncomeService, cli: Cli
) -> None:
    """A part belongs to the service that it was begun with, and the difference is named."""
    export.interrupted()
    with IncomeService(3) as other:
        ran = cli.at(other)("export", "--to", str(export.target))
        assert ran.status != 0
        assert income_service.url in ran.stderr
        assert other.url in ran.stderr
        assert len(other.requests) == 0
    assert export().status == 0


@several
def test_a_disk_without_room_loses_nothing(export: Export, income_service: IncomeService) -> None:
    """It is reported; with room again, the export is resumed and whole."""
    with no_room_above(1_000_000):
        ran = export()
    assert (ran.status, ran.stdout) == (1, "")
    assert "file too large" in ran.stderr
    assert str(export.part) in ran.stderr
    assert export().status == 0
    assert export.ids == sorted(income_service.ids)


@pytest.mark.income_service(applications=200)
@pytest.mark.usefixtures("without_pauses")
def test_a_service_that_fails_ends_it(export: Export, income_service: IncomeService) -> None:
    """Failures in a row that may pass are not the applications' own: what came is kept."""
    income_service.faults.add(Fault("status", status=503, times=None, skip=60, path="*/app-*"))
    ran = export()
    assert ran.status == 1
    assert str(export.part) in ran.stderr
    assert export.left == {"all.part"}
    income_service.faults.clear()
    assert export().status == 0
    assert export.ids == sorted(income_service.ids)


@pytest.mark.income_service(applications=150, max_span=20 * 86_400)
def test_a_list_that_fails_ends_it(export: Export, income_service: IncomeService) -> None:
    """What was found before is read and kept, and a later run continues."""
    fault = Fault("status", status=400, times=None, skip=3, path="*/applications")
    income_service.faults.add(fault)
    assert export("--updated-after", "2026-03-01", "--no-documents").status == 1
    assert export.left == {"all.part"}
    income_service.faults.clear()
    assert export("--updated-after", "2026-03-01", "--no-documents").status == 0
    assert export.ids == sorted(income_service.ids)


@several
def test_a_later_run_shows_where_the_first_was(export: Export) -> None:
    """Its progress begins with what is kept, and knows how much there is."""
    export.interrupted()
    kept = len(export.kept)
    shown = export(terminal=Terminal(columns=120))
    assert shown.status == 0
    assert f"{kept} applications" in shown.screen
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown.screen)
    counts = re.findall(r"Exporting +\d+%.*?([\d,]+) of ([\d,]+) applications", text)
    assert {total for _, total in counts} <= {"200"}
    assert all(int(done) >= kept for done, _ in counts)
