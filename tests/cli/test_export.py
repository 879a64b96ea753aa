"""``income-client export``: what it writes, when it does, and how it is resumed."""

import json
import os
import re
import sqlite3
import stat
import sys
from contextlib import closing
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from income_client import (
    ApplicationRecord,
    DeadlineExceededError,
    IncomeClient,
    from_json,
    to_json,
)
from income_client.emulator import Fault
from income_client.testing import IncomeService
from tests.cli.commands import Export
from tests.support.cli import FULL, Cli
from tests.support.disk import no_room_above, owned_by_another_user
from tests.support.emulated import served, without_addresses
from tests.support.processes import Terminal, beside, closed_pipe
from tests.support.proxies import changing, malformed_rows

NAMES_BEHIND: Final = {"jsonl": len(".manifest.json"), "parquet": len(".part")}
FILES: Final = {"all", "all.manifest.json"}
pytestmark = pytest.mark.income_service(applications=8)


@pytest.fixture
def export(shell: Cli) -> Export:
    """Exports into a folder of its own."""
    return Export(shell)


# The file


def test_a_file_holds_everything(export: Export) -> None:
    ran = export()
    assert (ran.status, ran.stdout) == (0, f"{export.target}\n")
    assert export.ids == sorted(export.service.ids)
    for line in export.target.read_bytes().splitlines()[:3]:
        held = json.loads(line, parse_float=Decimal)
        one = held["application"]["application_id"]
        assert held["application"] == served(export.service, one)
        documents = served(export.service, one, "/documents")
        assert without_addresses(held["documents"]) == without_addresses(documents)
        assert to_json(from_json(ApplicationRecord, line)) == line
    assert stat.S_IMODE(export.target.stat().st_mode) == 0o600
    assert export.left == FILES
    assert "8 applications updated from the beginning to 2026-06-30T11:59:00" in ran.stderr


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_folder_of_another_user_gets_no_export(export: Export, kind: str) -> None:
    with owned_by_another_user(export.target.parent):
        ran = export("--format", kind)
    assert (ran.status, ran.stdout, export.left) == (1, "", set())
    assert "its folder belongs to another user: choose another one, or give it" in ran.stderr


def test_the_manifest_has_the_span(export: Export) -> None:
    export("--updated-after", "2026-05-01", "--no-documents")
    expected = [
        one
        for one in export.service.ids
        if served(export.service, one)["last_updated_at"] > "2026-05-01T00:00:00Z"
    ]
    assert 0 < len(expected) < 8
    assert export.ids == sorted(expected)
    assert all(line["documents"] is None for line in export.lines)
    assert export.manifest == {
        "service": export.service.url,
        "updated_after": "2026-05-01T00:00:00",
        "updated_before": "2026-06-30T11:59:00",
        "next_updated_after": "2026-06-30T11:58:59",
        "documents": False,
        "pages": False,
        "addresses": False,
        "whole": True,
        "missing": [],
        "saturated_seconds": [],
        "format": "jsonl",
        "records": len(expected),
        "size": export.target.stat().st_size,
    }
    # The end of a span that is not over is the present.
    export.target = export.target.with_name("b")
    span = ("--updated-after", "200d", "--updated-before", "2030-01-01T00:00:00Z")
    assert export(*span, "--pages").status == 0
    assert export.manifest["updated_after"] == "2025-12-12T12:00:00"
    assert export.manifest["updated_before"] == "2026-06-30T11:59:00"
    kinds = export.lines[0]["documents"]["documents"].values()
    assert export.manifest["pages"]
    assert all("pages" in document for documents in kinds for document in documents)


def test_parquet_is_a_folder_of_tables(export: Export) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    ran = export("--format", "parquet")
    assert (ran.status, ran.stdout) == (0, f"{export.target}\n")
    table = pq.read_table(export.target / "applications.parquet")
    assert sorted(table["application_id"].to_pylist()) == sorted(export.service.ids)
    files = list(export.target.iterdir())
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    tables = ("applications", "applicants", "income_sources", "documents", "paystub_amounts")
    names = {path.name for path in files}
    assert names == {"manifest.json", *(f"{each}.parquet" for each in tables)}
    manifest = json.loads((export.target / "manifest.json").read_text("utf-8"))
    assert manifest["rows"]["applications"] == manifest["records"] == 8
    assert export.left == {"all"}
    assert " rows in 5 tables" in ran.stderr


# What is missing


def test_an_unreadable_application_keeps_the_file_from_being_made(export: Export) -> None:
    """The id is reported; the next run tries only this application, and then writes the file."""
    one = export.service.ids[7]
    export.service.faults.add(Fault("status", status=404, path=f"*/{one}"))
    ran = export()
    assert (ran.status, ran.stdout) == (1, "")
    assert one in ran.stderr
    assert "1 application could not be read" in ran.stderr
    assert export.left == {"all.part"}
    before = len(export.service.requests)
    assert export().status == 0
    asked = {each.path.split("/")[4] for each in export.service.requests[before:]
             if "/applications/" in each.path}  # fmt: skip
    assert asked == {one}
    assert export.ids == sorted(export.service.ids)
    assert export.manifest["whole"] is True


@pytest.mark.income_service(applications=8, max_span=40 * 86_400)
def test_malformed_rows_are_missing_and_hide_no_other(export: Export) -> None:
    """Pages that come after theirs do not hide them from the next run."""
    span = ("--updated-after", "400d")
    two, others = export.service.ids[:2], export.service.ids[2:]
    with malformed_rows(export.service, *two) as row:
        for _ in range(2):
            ran = export(*span, env=row.env)
            assert (ran.status, export.left) == (1, {"all.part"})
            for one in two:
                assert f"list_applications: application {one}: $.applications[" in ran.stderr
            assert "not exported, as 2 rows of the list could not be read; " in ran.stderr
        assert export("--allow-missing", *span, env=row.env).status == 0
        assert (export.ids, export.manifest["whole"]) == (sorted(others), False)
        missing = {one["application_id"]: one["reason"] for one in export.manifest["missing"]}
        assert sorted(missing) == sorted(two)
        assert all("application_date" in reason for reason in missing.values())
        # Without that, they are asked for again.
        export.target = export.target.with_name("b")
        assert export(*span, env=row.env).status == 1
        row.is_mended = True
        assert export(*span, env=row.env).status == 0
    assert (export.ids, export.manifest["whole"]) == (sorted(export.service.ids), True)


def test_an_amount_that_fits_no_column_leaves_the_lines(export: Export) -> None:
    """No amount is rounded, and the received records can still be exported as JSON lines."""
    one = export.service.ids[2]
    spoil_amount(export.service, one)
    ran = export("--format", "parquet")
    assert ran.status == 1
    assert one in ran.stderr
    assert "calculated_income_amount" in ran.stderr
    assert "--format jsonl" in ran.words
    assert "1.25" not in ran.stderr
    assert export.left == {"all.part"}
    assert export("--format", "jsonl").status == 0
    assert export.ids == sorted(export.service.ids)


def spoil_amount(service: IncomeService, application_id: str) -> None:
    """Give an application an amount with more decimals than a column has."""
    reply = served(service, application_id)
    calculation = reply["income_calculations"]["applicant1"]
    calculation["incomes"][0]["income_sources"][0]["calculated_income_amount"] = 1.25e-19
    body = json.dumps(reply, default=float).encode()
    service.faults.add(Fault("body", body=body, times=None, path=f"*/{application_id}"))


@pytest.mark.parametrize("is_kept", [False, True], ids=["read for tables", "kept as lines"])
def test_an_amount_that_fits_no_column_is_listed_as_missing(export: Export, is_kept: bool) -> None:
    """The other applications are exported; the amount is known when its record is read."""
    pytest.importorskip("pyarrow.parquet")
    one, gone = export.service.ids[2:4]
    spoil_amount(export.service, one)
    missing = {one}
    if is_kept:
        export.service.faults.add(Fault("status", status=404, times=None, path=f"*/{gone}"))
        assert export("--format", "jsonl").status == 1
        missing.add(gone)
    else:
        ran = export("--format", "parquet")
        assert ran.stderr.index(f"{one}: a value of income_sources") < ran.stderr.index("keeps 7")
    assert export("--format", "parquet", "--allow-missing").status == 0
    manifest = json.loads((export.target / "manifest.json").read_text())
    assert {entry["application_id"] for entry in manifest["missing"]} == missing
    assert (manifest["whole"], manifest["records"]) == (False, 8 - len(missing))
    assert manifest["rows"]["applications"] == 8 - len(missing)
    [reason] = [each["reason"] for each in manifest["missing"] if each["application_id"] == one]
    assert "calculated_income_amount does not fit decimal128(38, 18); --format jsonl" in reason


@pytest.mark.income_service(applications=8, visibility_delay=30)
@pytest.mark.parametrize(("settle", "is_found"), [("30", True), ("5", False)])
def test_an_update_that_is_listed_late_comes_in_the_next_export(
    export: Export, settle: str, is_found: bool
) -> None:
    """A period ends before the time from which updates may not be listed yet."""
    export.service.advance(86_400)
    export.service.touch(export.service.ids[2])
    export.service.advance(10)
    found, after = set[str](), "1d"
    for name in ("first", "second"):
        export.target = export.target.with_name(name)
        assert export("--updated-after", after, "--settle", settle).status == 0
        found.update(export.ids)
        after = str(export.manifest["next_updated_after"])
        export.service.advance(86_400)
    assert (export.service.ids[2] in found) is is_found


def test_a_run_that_resumes_changes_the_format_only_by_name(export: Export) -> None:
    """Without --format, tables that were begun do not become lines of JSON."""
    pytest.importorskip("pyarrow.parquet")
    export.service.faults.add(Fault("status", status=404, path=f"*/{export.service.ids[2]}"))
    assert export("--format", "parquet").status == 1
    ran = export()
    assert ran.status == 2
    assert "begun with --format parquet, and not --format jsonl" in ran.words
    assert export("--format", "jsonl").status == 0
    assert export.ids == sorted(export.service.ids)


# Where it is to be


@pytest.mark.parametrize("there", ["all", "all.manifest.json", "all.part/", "all.part/notes.db"])
def test_what_is_there_is_left_alone(there: str, export: Export) -> None:
    """A file, a manifest, a folder of others or one that is open to others; nothing is sent."""
    name, is_folder, inner = there.partition("/")
    path = export.target.with_name(name)
    if is_folder:
        path.mkdir()
        path.chmod(0o700 if inner else 0o777)
    if not is_folder or inner:
        (path / inner).write_text("mine", "utf-8")
    ran = export()
    assert (ran.status, ran.stdout, len(export.service.requests)) == (1, "", 0)
    assert str(path) in ran.stderr
    assert export.left == {name}
    assert [each.name for each in path.glob("*")] == ([inner] if inner else [])
    assert path.is_dir() or path.read_text("utf-8") == "mine"


@pytest.mark.parametrize("form", sorted(NAMES_BEHIND))
def test_what_comes_to_its_place_meanwhile_stays(form: str, export: Export) -> None:
    pytest.importorskip("pyarrow")

    def put(piece: bytes) -> bytes:
        if b"/applications/" in piece:
            export.target.write_text("mine", "utf-8")
        return piece

    with beside(changing(export.service.url, requests=put)) as port:
        ran = export("--format", form, env={"INCOME_BASE_URL": f"http://127.0.0.1:{port}"})
    assert (ran.status, ran.stdout) == (1, "")
    assert export.target.read_text("utf-8") == "mine"
    assert sorted(export.kept) == sorted(export.service.ids)


def test_an_object_store_is_no_place(shell: Cli) -> None:
    ran = shell("export", "--to", "s3://lake/incomes")
    assert (ran.status, len(shell.service.requests)) == (2, 0)
    assert "export writes to a local path; copy the result from there" in ran.stderr


@pytest.mark.parametrize("form", sorted(NAMES_BEHIND))
def test_a_place_that_cannot_be_is_reported_at_once(form: str, export: Export) -> None:
    pytest.importorskip("pyarrow")
    longest = "a" * (255 - NAMES_BEHIND[form])
    export.target = export.target.with_name(f"{longest}b")
    ran = export("--format", form)
    assert (ran.status, len(export.service.requests), export.left) == (1, 0, set())
    assert "file name too long" in ran.stderr
    export.target = export.target.with_name(longest)
    assert export("--format", form).status == 0
    before = len(export.service.requests)
    export.target = export.target.parent / "none" / "all"
    ran = export("--format", form)
    assert (ran.status, len(export.service.requests)) == (1, before)
    assert "no such file or directory" in ran.stderr
    assert not export.target.parent.exists()


def test_a_library_that_cannot_be_used_is_reported_at_once(
    export: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hours of reading would be a bad moment to find out; nothing is sent, nothing made."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    for error, said in (
        ("ModuleNotFoundError(name='pyarrow')", "pip install 'income-client[parquet]'"),
        ("AttributeError('_ARRAY_API')", "AttributeError"),
    ):
        (tmp_path / "pyarrow.py").write_text(f"raise {error}\n", "utf-8")
        ran = export("--format", "parquet")
        assert (ran.status, ran.stdout, len(export.service.requests)) == (1, "", 0)
        assert (ran.stderr.count("\n"), said in ran.stderr, export.left) == (1, True, set())


# What is printed


def test_a_path_that_cannot_be_printed_is_no_fault_of_the_file(export: Export) -> None:
    """The file is there before its path is printed to a closed pipe or a full disk."""
    with closed_pipe() as pipe:
        assert export(stdout=pipe).status == 141
    assert export.left == FILES
    export.target = export.target.with_name("b")
    ran = export(stdout=FULL)
    assert ran.status == 1
    assert ran.stderr.splitlines()[-1].endswith("no space left on device")
    assert export.ids == sorted(export.service.ids)
    assert export.left == {*FILES, "b", "b.manifest.json"}


def shares_on(screen: str) -> list[int]:
    """Return the shares in percent that a terminal has shown."""
    text = re.sub(r"\x1b\[[0-9;?]*[mhl]", "", screen)
    return [int(share) for share in re.findall(r"Exporting\D+(\d+)% +[\d,]+ application", text)]


@pytest.mark.income_service(
    applications=[*range(0, 15_000_000, 250_000)], latency=0.005, max_span=80 * 86_400
)
def test_a_terminal_shows_how_far_it_is(export: Export) -> None:
    """The share only grows and never is 100 % with work left; the summary comes last."""
    terminal = Terminal(columns=120)
    shown = export(terminal=terminal)
    assert shown.status == 0
    done = shares_on(shown.screen)
    assert done == sorted(done)
    assert 0 < max(done) <= 99
    remaining = " ".join(terminal.standing(shown.screen))
    assert "Exporting" not in remaining
    assert "--updated-after 2026-06-30T11:58:59" in remaining


@pytest.mark.income_service(applications=[*range(0, 15_000_000, 250_000)], max_span=80 * 86_400)
def test_a_log_shows_each_minute_how_far_it_is(
    export: Export, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard error that is no terminal has a line once records were stored after a minute."""
    monkeypatch.setattr("income_client.cli.export._MOST_LINES", 10)
    monkeypatch.setattr("income_client.cli.export.monotonic", count(step=25).__next__)
    pattern = r"^income-client: exporting: (\d+)%, (\d+) applications$"
    shown = re.findall(pattern, export().stderr, re.MULTILINE)
    (first_share, first), (last_share, last) = ((int(a), int(b)) for a, b in shown)
    assert 0 < first < last <= 60
    assert 0 <= first_share < last_share < 100


# Resumed


@pytest.mark.income_service(applications=60)
def test_interruptions_lose_and_repeat_nothing(export: Export, cli: Cli) -> None:
    """A part belongs to its service and its span; a line that was cut off does no harm."""
    for by, status in (("interrupt", 130), ("terminate", 143)):
        assert export.interrupted("--updated-after", "200d", by=by).status == status
        with (export.part / "records.jsonl").open("ab") as lines:
            lines.write(b'{"application":{"application_id":"app-torn')
        export.service.advance(3600)
    other = export("--updated-after", "1d")
    assert other.status == 2
    assert all(each in other.stderr for each in ("--updated-after 200d", "--updated-after 1d"))
    with IncomeService(3) as elsewhere:
        ran = cli.at(elsewhere)("export", "--to", str(export.target))
        assert ran.status == 2
        assert export.service.url in ran.stderr
        assert elsewhere.url in ran.stderr
        assert len(elsewhere.requests) == 0
    assert export("--updated-after", "200d").status == 0
    assert export.ids == sorted(export.service.ids)
    # It keeps the bounds of the first run, though the service's time has moved on.
    assert export.manifest["updated_after"] == "2025-12-12T12:00:00"
    assert export.manifest["updated_before"] == "2026-06-30T11:59:00"


@pytest.mark.income_service(applications=60, max_span=20 * 86_400)
def test_a_resumed_export_lists_what_is_left(export: Export) -> None:
    """Pages whose applications are kept are not listed again."""
    span = ("--updated-after", "200d")

    def lists() -> int:
        return export.service.requests.count("list_applications")

    assert export.interrupted(*span).status == 143
    before = lists()
    assert export(*span).status == 0
    resumed = lists() - before
    assert export.ids == sorted(export.service.ids)
    export.target = export.target.with_name("b")
    before = lists()
    assert export(*span).status == 0
    assert resumed < lists() - before


@pytest.mark.income_service(applications=[*range(0, 15_000_000, 250_000)], max_span=20 * 86_400)
def test_a_resumed_export_shows_what_was_done_before(export: Export) -> None:
    """The progress begins at the share of the earlier run, and only grows."""
    assert export.interrupted().status == 143
    with closing(sqlite3.connect(export.part / "export.db")) as state:
        query = "SELECT value FROM facts WHERE name = 'share'"
        [before] = state.execute(query).fetchone()
    assert before > 0
    done = shares_on(export(terminal=Terminal(columns=120)).screen)
    assert done[0] >= int(100 * before)
    assert done == sorted(done)


@pytest.mark.income_service(applications=30, max_span=20 * 86_400)
@pytest.mark.usefixtures("without_pauses")
@pytest.mark.parametrize(
    "fault",
    [
        None,
        # Failures in a row that may pass are not the applications' own.
        Fault("status", status=503, times=None, skip=10, path="*/app-*"),
        Fault("status", status=400, times=None, skip=3, path="*/applications"),
    ],
    ids=["a full disk", "the service", "the list"],
)
def test_what_ends_it_loses_nothing(fault: Fault | None, export: Export) -> None:
    span = ("--updated-after", "2026-03-01")
    if fault is None:
        with no_room_above(100_000):
            ran = export(*span)
        assert "file too large" in ran.stderr
    else:
        export.service.faults.add(fault)
        ran = export(*span)
    assert (ran.status, ran.stdout) == (1, "")
    assert str(export.part) in ran.stderr
    assert export.left == {"all.part"}
    export.service.faults.clear()
    assert export(*span).status == 0
    assert export.ids == sorted(export.service.ids)


@pytest.mark.parametrize(
    ("kept", "status"), [(None, 0), ("part 2 of 4, 2026-06-01 to 2026-06-30", 2)]
)
def test_an_export_of_a_part_that_an_earlier_version_began_is_refused(
    kept: str | None, status: int, export: Export
) -> None:
    """Resumed without its part, the export would cover the whole period."""
    export.service.faults.add(Fault("status", status=404, path="*/app-*", times=1))
    assert export().status == 1
    with closing(sqlite3.connect(export.part / "export.db")) as database, database:
        (text,) = database.execute("SELECT value FROM facts WHERE name = 'request'").fetchone()
        request = json.dumps({**json.loads(text), "part": kept})
        database.execute("UPDATE facts SET value = ? WHERE name = 'request'", (request,))
    ran = export()
    assert ran.status == status
    assert ("was begun with --part part 2 of 4" in ran.stderr) == bool(status)


def test_a_resumed_export_replaces_no_foreign_manifest(export: Export) -> None:
    """A file that came between two runs stays, as it would have stopped the first one."""
    export.service.faults.add("get_application: 404")
    assert export().status == 1
    manifest = export.target.with_name("all.manifest.json")
    manifest.write_text("mine", "utf-8")
    ended = export()
    assert (ended.status, ended.stdout) == (1, "")
    assert f"{manifest} exists already, and is not overwritten" in ended.stderr
    assert manifest.read_text("utf-8") == "mine"
    assert export.left == {"all.part", "all.manifest.json"}
    manifest.unlink()
    assert export().status == 0
    assert export.manifest["records"] == 8


def test_an_export_replaces_the_manifest_of_its_own_earlier_run(
    export: Export, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failure between manifest and file, the next run puts both there."""
    export.service.faults.add("get_application: 404")
    link = os.link

    def full(source: Path, place: Path) -> None:
        if place == export.target:
            raise OSError(28, "no space left on device")
        link(source, place)

    with monkeypatch.context() as patch:
        patch.setattr("os.link", full)
        patch.setattr("pathlib.Path.rename", full)
        assert export("--allow-missing").status == 1
    assert (export.manifest["records"], export.left) == (7, {"all.manifest.json", "all.part"})
    assert export().status == 0
    assert (export.manifest["records"], export.left) == (8, FILES)


def test_a_deadline_is_no_fault_of_the_file(
    export: Export, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def late(*_: object) -> None:
        raise DeadlineExceededError("not done within 120 s")

    monkeypatch.setattr(IncomeClient, "service_time", late)
    ran = export()
    assert (ran.status, "not done within 120 s" in ran.stderr) == (1, True)
    assert "cannot write" not in ran.stderr


def test_a_file_system_without_links_gets_the_file(
    export: Export, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(1, "operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    assert export().status == 0
    assert (export.ids, export.left) == (sorted(export.service.ids), FILES)


# Ids in place of a period


def test_ids_choose_what_is_exported(export: Export) -> None:
    chosen = export.service.ids[1:8]
    ran = export(chosen[0], "-", "--no-documents", stdin="\n".join(chosen[1:]))
    assert (ran.status, ran.stdout) == (0, f"{export.target}\n")
    assert export.ids == sorted(chosen)
    assert "7 applications; " in ran.stderr
    assert "updated" not in ran.stderr
    assert export.service.requests.count("list_applications") == 0
    period = dict.fromkeys(("updated_after", "updated_before", "next_updated_after"))
    assert export.manifest.items() >= {**period, "by_id": True, "records": 7}.items()


@pytest.mark.income_service(applications=40)
def test_an_interrupted_export_by_id_is_resumed(export: Export) -> None:
    """Stored records are not requested again, and the export resumes for the same ids only."""
    ids = export.service.ids
    ran = export.interrupted(*ids[:38])
    assert (ran.status, ran.stdout) == (143, "")
    assert f"{export.part} keeps {len(export.kept)} applications" in ran.stderr
    kept, before = set(export.kept), len(export.service.requests)
    assert len(kept) >= 20
    period = export()
    assert period.status == 2
    assert "was begun with ids of applications, and not a period" in period.stderr
    fewer = export("-", stdin="\n".join(sorted(kept)[1:]))
    assert fewer.status == 2
    assert "besides these: resume with the ids that it was begun with" in fewer.stderr
    assert export.left == {"all.part"}
    again = export("-", stdin="\n".join(ids[:38]))
    assert (again.status, f"resuming with {len(kept)} applications" in again.stderr) == (0, True)
    later = [one.path for one in export.service.requests[before:] if "/app-" in one.path]
    assert not {path.split("/")[4] for path in later} & kept
    assert export.ids == sorted(ids[:38])
    assert export.left == FILES
