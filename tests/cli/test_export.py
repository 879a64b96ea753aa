"""``income-client export``: what is in the file, and when there is one."""

import json
from collections import Counter
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from income_client import ApplicationRecord, from_json, to_json
from income_client.emulator import Emulator, Fault
from income_client.emulator.seconds import stamp
from tests.cli.entry import run
from tests.cli.exporting import Command
from tests.cli.polling import served, without_addresses
from tests.cli.running import ended


async def test_a_file_holds_everything(tmp_path: Path) -> None:
    """Each application is one line, the service's own JSON, with its documents."""
    async with Emulator(120) as service:
        command = Command(service, tmp_path / "all.jsonl")
        ended = await command.run()
        assert (ended.returncode, ended.stdout) == (0, f"{command.target}\n")
        assert Counter(command.ids) == Counter(service.world.ids)
        for line in command.target.read_bytes().splitlines()[:3]:
            held = json.loads(line, parse_float=Decimal)
            application_id = held["application"]["application_id"]
            assert held["application"] == served(service, application_id)
            documents = served(service, application_id, "/documents")
            assert without_addresses(held["documents"]) == without_addresses(documents)
            assert to_json(from_json(ApplicationRecord, line)) == line
    assert command.target.stat().st_mode & 0o777 == 0o600
    assert command.left == {"all.jsonl", "all.jsonl.manifest.json"}
    assert "120 applications updated from the beginning to 2026-06-30T12:00:00" in ended.stderr


async def test_the_manifest_tells_the_span(tmp_path: Path) -> None:
    """It says what the file is of, and where the next one begins."""
    async with Emulator(40) as service:
        command = Command(service, tmp_path / "some.jsonl")
        await command.run("--updated-after", "2026-05-01", "--no-documents")
        after = service.world.truth(1_777_593_600, None)
        assert set(command.ids) == after
        assert all(line["documents"] is None for line in command.lines)
    assert command.manifest == {
        "service": service.url,
        "updated_after": "2026-05-01T00:00:00",
        "updated_before": "2026-06-30T12:00:00",
        "next_updated_after": "2026-06-30T11:59:55",
        "documents": False,
        "pages": False,
        "whole": True,
        "missing": [],
        "saturated_seconds": [],
        "format": "jsonl",
        "records": len(after),
        "size": command.target.stat().st_size,
    }


async def test_the_next_export_goes_on(tmp_path: Path) -> None:
    """What is updated after the end of one span is in the file of the next."""
    async with Emulator(30) as service:
        command = Command(service, tmp_path / "first")
        await command.run()
        service.advance(60)
        service.touch(service.world.ids[7])
        service.advance(60)
        following = Command(service, tmp_path / "second")
        after = command.manifest["next_updated_after"]
        await following.run("--updated-after", after, "--pages")
        assert service.world.ids[7] in following.ids
        assert len(following.ids) < 5
        documents = [
            one for each in following.lines[0]["documents"]["documents"].values() for one in each
        ]
        assert all("pages" in document for document in documents)


async def test_an_end_in_the_future_is_the_present(tmp_path: Path) -> None:
    """A span that is not over would be no snapshot; its end is told."""
    async with Emulator(10) as service:
        command = Command(service, tmp_path / "all")
        await command.run("--updated-before", "2030-01-01T00:00:00Z")
    assert command.manifest["updated_before"] == "2026-06-30T12:00:00"


async def test_parquet_is_a_folder_of_tables(tmp_path: Path) -> None:
    """Five files and the manifest, with a row for each application."""
    async with Emulator(60) as service:
        command = Command(service, tmp_path / "tables")
        ended = await command.run("--format", "parquet")
        assert (ended.returncode, ended.stdout) == (0, f"{command.target}\n")
        applications = pq.read_table(command.target / "applications.parquet")
        assert Counter(applications["application_id"].to_pylist()) == Counter(service.world.ids)
    names = {path.name for path in command.target.iterdir()}
    assert {path.stat().st_mode & 0o777 for path in command.target.iterdir()} == {0o600}
    tables = ("applications", "applicants", "income_sources", "documents", "paystub_amounts")
    assert names == {"manifest.json", *(f"{table}.parquet" for table in tables)}
    manifest = json.loads((command.target / "manifest.json").read_text("utf-8"))
    assert manifest["rows"]["applications"] == manifest["records"] == 60
    assert command.left == {"tables"}


@pytest.mark.parametrize("name", ["all", "all.manifest.json"])
async def test_nothing_is_overwritten(tmp_path: Path, name: str) -> None:
    """Neither the file nor its manifest; nothing is asked, and nothing left."""
    (tmp_path / name).write_text("mine", "utf-8")
    async with Emulator(3) as service:
        ended = await Command(service, tmp_path / "all").run()
        assert service.requests == []
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"{name} exists already, and is not overwritten" in ended.stderr
    assert Command(service, tmp_path / "all").left == {name}
    assert (tmp_path / name).read_text("utf-8") == "mine"


async def test_what_cannot_be_read_keeps_the_file_from_being_made(tmp_path: Path) -> None:
    """It is said; the next run tries it again alone, and then the file is whole."""
    async with Emulator(50) as service:
        one = service.world.ids[11]
        service.faults.add(Fault("status", status=404, times=1, path=f"*/{one}"))
        command = Command(service, tmp_path / "all")
        ended = await command.run()
        assert (ended.returncode, ended.stdout) == (1, "")
        said, not_exported = ended.stderr.splitlines()
        assert one in said
        assert "not exported, as 1 application could not be read" in not_exported
        assert command.left == {"all.part"}
        before = len(service.requests)
        assert (await command.run()).returncode == 0
        asked = [
            request for request in service.requests[before:] if "applications/" in request.path
        ]
        assert {request.path.split("/")[4] for request in asked} == {one}
        assert Counter(command.ids) == Counter(service.world.ids)
        assert command.manifest["whole"] is True


async def test_what_is_missing_may_be_allowed(tmp_path: Path) -> None:
    """The file is made without it, and its manifest says what is missing and why."""
    async with Emulator(20) as service:
        one = service.world.ids[3]
        service.faults.add(Fault("status", status=404, times=None, path=f"*/{one}"))
        command = Command(service, tmp_path / "all")
        ended = await command.run("--allow-missing")
        assert ended.returncode == 0
        assert "though 1 application could not be read" in ended.stderr
        assert set(command.ids) == set(service.world.ids) - {one}
    (missing,) = command.manifest["missing"]
    assert missing["application_id"] == one
    assert "404" in missing["reason"]
    assert command.manifest["whole"] is False


async def test_a_saturated_second_is_not_passed_over(tmp_path: Path) -> None:
    """Rows that cannot be listed are missing too: no file, unless that is allowed."""
    async with Emulator(1030) as service:
        service.advance(60)
        for application_id in service.world.ids:
            service.touch(application_id)
        service.advance(60)
        command = Command(service, tmp_path / "all")
        ended = await command.run("--no-documents")
        assert ended.returncode == 1
        assert "2026-06-30T12:01:00: more applications were updated in this second" in ended.stderr
        assert "1 second could not be listed whole" in ended.stderr
        assert (await command.run("--no-documents", "--allow-missing")).returncode == 0
        assert len(set(command.ids)) == len(command.ids) >= 1000
    assert command.manifest["saturated_seconds"] == ["2026-06-30T12:01:00"]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--pages", "--no-documents"), 2, "--pages is about documents"),
        (("--updated-after", "2027-01-01"), 1, "it is 2026-06-30T12:00:00 at the service"),
        (("--updated-after", "yesterday"), 2, "this is no time"),
        (("--format", "csv"), 2, "csv"),
    ],
)
async def test_what_cannot_be_meant_leaves_nothing(
    tmp_path: Path, arguments: tuple[str, ...], status: int, said: str
) -> None:
    """It is said, and there is neither a file nor a part."""
    async with Emulator(3) as service:
        ended = await Command(service, tmp_path / "all").run(*arguments)
    assert (ended.returncode, ended.stdout) == (status, "")
    assert said in ended.stderr
    assert Command(service, tmp_path / "all").left == set()


async def test_an_amount_that_fits_no_column_leaves_the_lines(tmp_path: Path) -> None:
    """Nothing is rounded: lines of JSON can still be made of what came."""
    async with Emulator(5) as service:
        one = service.world.ids[2]
        reply = served(service, one)
        calculation = reply["income_calculations"]["applicant1"]
        calculation["incomes"][0]["income_sources"][0]["calculated_income_amount"] = 1.25e-19
        body = json.dumps(reply, default=float).encode()
        service.faults.add(Fault("body", body=body, times=None, path=f"*/{one}"))
        command = Command(service, tmp_path / "all")
        ended = await command.run("--format", "parquet")
        assert ended.returncode == 1
        assert f"application {one}: a calculated_income_amount has more digits" in ended.stderr
        assert "1.25" not in ended.stderr
        assert command.left == {"all.part"}
        assert (await command.run("--format", "jsonl")).returncode == 0
        assert Counter(command.ids) == Counter(service.world.ids)


async def test_a_span_of_hours_has_its_zone_taken_in(tmp_path: Path) -> None:
    """Times with a zone become the service's own."""
    async with Emulator(5) as service:
        command = Command(service, tmp_path / "all")
        await command.run("--updated-after", "2026-06-01T02:00:00+02:00")
    assert command.manifest["updated_after"] == "2026-06-01T00:00:00"


@pytest.mark.parametrize("end", ["beginning", "99999999w"])
async def test_a_span_may_end_where_time_begins(tmp_path: Path, end: str) -> None:
    """However far back its end is, that is its end; nothing was updated before it."""
    async with Emulator(5) as service:
        command = Command(service, tmp_path / "none")
        assert (await command.run("--updated-before", end)).returncode == 0
    assert command.lines == []
    assert command.manifest["updated_before"] == "1970-01-01T00:00:00"


@pytest.mark.parametrize(
    ("after", "before"), [("2026-06-02", "2026-06-01"), ("1d", "7d"), ("now", "1s")]
)
async def test_a_span_that_ends_before_it_begins_is_a_wrong_argument(
    tmp_path: Path, after: str, before: str
) -> None:
    """That is plain before anybody is asked."""
    async with Emulator(3) as service:
        command = Command(service, tmp_path / "none")
        ended = await command.run("--updated-after", after, "--updated-before", before)
        assert (ended.returncode, service.requests) == (2, [])
    assert ended.stderr == "income-client: --updated-after is later than --updated-before\n"
    assert command.left == set()


async def test_a_span_goes_back_from_the_present_of_the_first_run(tmp_path: Path) -> None:
    """The runs after it keep to that, though the service's time has moved on."""
    async with Emulator(5) as service:
        command = Command(service, tmp_path / "all")
        service.faults.add(
            Fault("status", status=404, path=f"*/{service.world.ids[0]}", times=None)
        )
        began = datetime.fromisoformat(stamp(service.now))
        assert (await command.run("--updated-after", "200d")).returncode == 1
        service.faults.clear()
        service.advance(3600)
        other = await command.run("--updated-after", "1d")
        assert "was begun with --updated-after 200d, and not --updated-after 1d" in other.stderr
        assert (await command.run("--updated-after", "200d")).returncode == 0
    begins, ends = (
        datetime.fromisoformat(command.manifest[bound])
        for bound in ("updated_after", "updated_before")
    )
    assert ends - begins == timedelta(days=200)
    assert ends - began < timedelta(minutes=1)


async def test_a_missing_library_is_said_before_anything_is_read(tmp_path: Path) -> None:
    """Hours of reading would be a bad moment to find out."""
    (tmp_path / "pyarrow.py").write_text("raise ModuleNotFoundError(name='pyarrow')", "utf-8")
    async with Emulator(3) as service:
        command = Command(service, tmp_path / "folder" / "all")
        command.target.parent.mkdir()
        with command.started("--format", "parquet", PYTHONPATH=str(tmp_path)) as process:
            output, errors = await ended(process)
        assert service.requests == []
    assert (process.returncode, output) == (1, "")
    assert errors == "income-client: this needs pyarrow: pip install 'income-client[parquet]'\n"
    assert command.left == set()


def test_help_says_that_addresses_expire() -> None:
    """Whoever keeps the lines for years learns what in them is good for minutes."""
    said = " ".join(run("export", "--help").stdout.replace("│", " ").split())
    assert "addresses of their files, which let anybody read these until they expire" in said
