"""``income-client audit``: which files it takes, what it prints, and what it ends with."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from income_client import IncomeClientError
from income_client.cli.held import read_pairs
from income_client.emulator import Fault
from income_client.system.frames import strip_frames
from income_client.testing import LoopRunner
from tests.support.cli import Cli
from tests.support.emulated import served
from tests.support.processes import Ran

HEADING: Final = "application_id,last_updated_at"
pytestmark = pytest.mark.income_service(applications=12)
Rows = list[tuple[str, str]]


def times(shell: Cli) -> dict[str, str]:
    """Return the update times of all applications."""
    return {one: served(shell.service, one)["last_updated_at"] for one in shell.service.ids}


def quoted(rows: Rows) -> bytes:
    """Return CSV as a spreadsheet writes it, with a column that an audit does not need."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, quoting=csv.QUOTE_ALL)
    writer.writerow(["Note", "LAST_UPDATED_AT ", "application_id"])
    writer.writerows(('a "note", with a comma', time, key) for key, time in rows)
    return b"\xef\xbb\xbf" + file.getvalue().encode()


def bare(rows: Rows) -> bytes:
    """Return what ``psql --csv --tuples-only`` prints."""
    lines = (f"{key},{time.replace('T', ' ').replace('Z', '+00')}" for key, time in rows)
    return "\n".join(["", *lines]).encode()


def jsonl(rows: Rows) -> bytes:
    """Return lines with other fields."""
    lines = ({"application_id": key, "updated_at": time, "more": [1]} for key, time in rows)
    return b"\xef\xbb\xbf" + "\r\n".join(map(json.dumps, lines)).encode()


def exported(rows: Rows) -> bytes:
    """Return lines as of an export; a time without a zone is in UTC, as the service's own."""
    lines = (
        {
            "application": {"application_id": key, "last_updated_at": time},
            "documents": {"documents": {"paystub": [{"updated_at": time.removesuffix("Z")}]}},
        }
        for key, time in rows
    )
    return "\n".join(map(json.dumps, lines)).encode()


def found(ran: Ran) -> dict[str, set[str]]:
    """Return the ids by finding."""
    rows: dict[str, set[str]] = {}
    for line in ran.lines:
        row = json.loads(line)
        rows.setdefault(row["finding"], set()).add(row["application_id"])
    return rows


@pytest.mark.parametrize("written", [quoted, bare, jsonl, exported])
def test_what_is_held_comes_in_many_forms(written: Callable[[Rows], bytes], shell: Cli) -> None:
    """The status is 0 if nothing differs, and 1 otherwise; ids can be read again."""
    service, file = shell.service, shell.folder / "held"
    held = times(shell)
    service.advance(100)
    file.write_bytes(written([*held.items()]))
    whole = shell("audit", "held", "--margin", "1h")
    assert (whole.status, whole.stdout) == (0, ""), whole.stderr
    assert "0 missing, 0 stale, 0 unlisted; 12 listed" in whole.stderr
    assert "undecided" not in whole.stderr
    lost, stale, *_ = held
    rows = [(key, time) for key, time in held.items() if key != lost]
    file.write_bytes(written([*rows, ("app-gone", "2026-05-01T12:00:00Z")]))
    service.touch(stale)
    service.advance(100)
    ran = shell("audit", "held")
    assert (ran.status, found(ran)) == (
        1, {"missing": {lost}, "stale": {stale}, "unlisted": {"app-gone"}}
    )  # fmt: skip
    assert "1 missing, 1 stale, 1 unlisted" in ran.stderr
    piped = shell("audit", "-", stdin=file.read_bytes())
    assert (piped.status, found(piped)) == (1, found(ran))
    if written is not jsonl:
        return
    # The rest is about ids, whatever they were read from.
    for options in ((), ("--settle", "10")):
        quiet = shell("audit", "held", "-q", *options)
        assert (quiet.status, sorted(quiet.lines)) == (1, sorted([lost, stale]))
    again = shell("export", "-", "--to", "again.jsonl", stdin=quiet.stdout)
    assert again.status == 0, again.stderr
    unjudged = shell("audit", "held", "--updated-before", "2000-01-01")
    assert (unjudged.status, unjudged.stdout) == (0, "")


@pytest.mark.parametrize("options", [(), ("--format", "parquet")], ids=["lines", "tables"])
def test_an_export_is_audited_in_its_period(options: tuple[str, ...], shell: Cli) -> None:
    """Updates after the export are findings only if an option extends the period."""
    service = shell.service
    assert shell("export", "--to", "all", *options).status == 0
    service.advance(1_000)
    service.touch(service.ids[0])
    service.advance(100)
    ran = shell("audit", "all")
    assert (ran.status, ran.stdout) == (0, ""), ran.stderr
    assert "from the beginning to 2026-06-30T11:59:00" in ran.stderr
    later = shell("audit", "all", "--updated-before", "now", "-o", "csv")
    assert later.status == 1
    assert [row["application_id"] for row in csv.DictReader(later.lines)] == [service.ids[0]]


def test_a_machine_is_told_what_is_proved(shell: Cli) -> None:
    """JSON counts what is undecided, which is a failure: it may be stale."""
    service, file = shell.service, shell.folder / "held"
    held = times(shell)
    service.advance(100)
    lost, *others = held
    file.write_text("\n".join(f"{one},{held[one]}" for one in others))
    ran = shell("audit", "held", "-o", "json")
    report = json.loads(ran.stdout)
    assert (ran.status, report["is_complete"], report["findings"]) == (
        1, False, [{"finding": "missing", "application_id": lost}]
    )  # fmt: skip
    counts = ("held", "listed", "missing", "stale", "unlisted", "undecided", "unreadable")
    assert [report[name] for name in counts] == [11, 12, 1, 0, 0, 0, 0]
    assert (report["updated_after"], report["saturated"]) == (None, [])
    assert report["until"].startswith("2026-06-30T12:0")
    assert 3_600 < report["margin_seconds"] <= 86_400
    assert f"{report['list_calls']} requests" in ran.stderr
    assert "undecided" not in ran.stderr
    with_margin = json.loads(shell("audit", "held", "-o", "json", "--margin", "60").stdout)
    assert with_margin["undecided"] == 0
    assert with_margin["margin_seconds"] <= 60
    file.write_text("\n".join(f"{one},{held[one]}" for one in held))
    walked = json.loads(shell("audit", "held", "-o", "json", "--margin", "3650d").stdout)
    refusal = Fault(
        "status", status=400, call="list_applications", skip=walked["list_calls"], times=None
    )
    service.faults.add(refusal)
    refused = shell("audit", "held", "--margin", "1h")
    assert (refused.status, refused.stdout) == (1, ""), refused.stderr
    assert "undecided" in refused.stderr


def test_nothing_is_held_on_purpose_only_on_standard_input(shell: Cli) -> None:
    """An empty file may come from a failed query, and would make the user read everything again."""
    shell.service.advance(100)
    ran = shell("audit", "-", "-q", stdin=b"")
    assert (ran.status, sorted(ran.lines)) == (1, sorted(shell.service.ids))
    for options in ((), ("--format", "parquet")):
        to = "none" + "".join(options)
        period = ("--updated-after", "2000-01-01", "--updated-before", "2000-01-02")
        assert shell("export", "--to", to, *period, *options).status == 0
        exported = shell("audit", to)
        assert (exported.status, exported.stdout) == (0, ""), exported.stderr


BAD: Final[dict[str, tuple[str | bytes, str]]] = {
    "other columns": (b"id,time\nS3CRET,1\n", "line 1 of held has no columns application_id and"),
    "a bad time": ("a,2026-01-31\nb,S3CRET", "line 3 of held has no time"),
    "a short row": ("S3CRET\n", "line 2 of held has 1 cell, the first line has 2"),
    "a long row": ("\na,2026-01-31,S3CRET\n", "line 3 of held has 3 cells, the first line has 2"),
    "no heading": (b"a,2026-01-31\nb,1,S3CRET", "line 2 of held has 3 cells, the first line has 2"),
    "nothing": (b"", "held holds no application"),
    "a heading": ("", "held holds no application"),
    "no id": (",2026-01-31", "line 2 of held has no application_id"),
    "an open quote": ('\na,"S3CRET\nb,c', "line 3 of held is not a row of CSV"),
    "a bad quote": ('a,"2026"S3CRET"\n"', "line 2 of held is not a row of CSV"),
    "Latin-1": ("S3CRET\udce4,2026-01-31", "line 2 of held is not UTF-8"),
    "cut JSON": (b'{"application_id":"S3CRET",', "line 1 of held is not a line of JSON"),
    "JSON without id": (b'{"id":"S3CRET"}', "line 1 of held has no application_id"),
    "JSON without time": (b'{"application_id":"S3CRET"}', "line 1 of held has no time"),
    "deep JSON": (b'{"application_id":' + b"[" * 9_999, "line 1 of held is not a line of JSON"),
    "a table": (b"PAR1\x15\xf4S3CRETPAR1", "line 1 of held is not UTF-8"),
    "zeros": (b"\0" * 99, "line 1 of held has a null character"),
    "a zero in an id": ("S3\0CRET,2026-01-31", "line 2 of held has a null"),
    "sixty minutes": ("S3CRET,2026-01-31T12:00:00+04:60", "line 2 of held has no time"),
    "the first hour": ("S3CRET,0001-01-01T00:00:00+14:00", "line 2 of held has no time"),
    "a long line": (b"S3CRET" * 2_000, "held has a line of over 11,000 bytes"),
}
"""Content of an invalid file of held ids, and the message about it."""


@strip_frames
async def read_all() -> None:
    """Read the file or folder ``held``."""
    async for _ in read_pairs(Path("held")):
        pass


@pytest.mark.shows_private("file", reason="it is what the command is given")
@pytest.mark.parametrize("name", BAD)
def test_a_file_that_cannot_be_read_is_one_line(
    name: str, income_run: LoopRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("income_client.cli.options.LONGEST_LINE", 11_000)
    monkeypatch.chdir(tmp_path)
    content, said = BAD[name]
    if isinstance(content, str):
        content = f"{HEADING}\n{content}".encode(errors="surrogateescape")
    Path("held").write_bytes(content)

    with pytest.raises(IncomeClientError) as caught:
        income_run(read_all())
    assert said in str(caught.value)
    assert "S3CRET" not in str(caught.value)


@pytest.mark.shows_private("file", reason="the command is given the table")
@pytest.mark.parametrize(
    ("ids", "said"),
    [(None, "applications.parquet is not a Parquet file"), (["a", ""], "row 2 of held/app")],
    ids=["damaged", "an empty cell"],
)
def test_a_damaged_folder_is_one_line(
    ids: list[str] | None,
    said: str,
    income_run: LoopRunner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    table = Path("held/applications.parquet")
    table.parent.mkdir()
    if ids is None:
        table.write_bytes(b"PAR1S3CRETPAR1")
    else:
        times = ["2026-01-31", "S3CRET"]
        pq.write_table(pa.table({"application_id": ids, "last_updated_at": times}), table)
    with pytest.raises(IncomeClientError) as caught:
        income_run(read_all())
    assert said in str(caught.value)
    assert "S3CRET" not in str(caught.value)


def test_what_is_not_there_is_said_before_anything_is_sent(shell: Cli) -> None:
    Path(shell.folder / "folder").mkdir()
    asked = len(shell.service.requests)
    for line, said in (
        ("nothing", "nothing cannot be read: no such file"),
        ("folder", "folder"),
    ):
        ran = shell("audit", line)
        assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
        assert said in ran.stderr
    assert len(shell.service.requests) - asked <= 2
