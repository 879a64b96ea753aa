"""``income-client download``: the files, their list, and what a person sees meanwhile."""

import errno
import json
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from income_client.emulator import Fault
from income_client.testing import IncomeService
from tests.support.cli import FULL, Cli, Running, when, when_shown
from tests.support.disk_faults import no_room_above, room_for
from tests.support.downloading import FILES, Download, counts_of, sha256_of
from tests.support.served import documents_of, served
from tests.support.streams import Terminal, closed_pipe

MiB: Final = 2**20
NOWHERE: Final = Path(os.devnull)
STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")
HALF_WAY: Final = "/300.0 kB"
pytestmark = pytest.mark.income_service(applications=2)


@pytest.fixture
def download(shell: Cli) -> Download:
    """Downloads into a folder of its own."""
    return Download(shell)


# Files and their list


def test_files_come_whole_and_are_listed(download: Download) -> None:
    ran = download()
    documents = documents_of(download.service)
    assert ran.status == 0
    assert counts_of(ran.stderr) == {"new": len(documents), "there": 0, "failed": 0}
    paths = [Path(line) for line in ran.lines]
    assert paths == [download.folder / entry["path"] for entry in download.listed]
    assert {each["document_id"]: each["application_id"] for each in download.listed} == documents
    for path, entry in zip(paths, download.listed, strict=True):
        content = path.read_bytes()
        assert content == download.service.content_of(entry["document_id"])
        assert (entry["size"], entry["sha256"]) == (len(content), sha256_of(content))
        assert (stat.S_IMODE(path.stat().st_mode), entry["file"]) == (0o600, 0)
        assert entry["path"].startswith(f"{entry['application_id']}/{entry['document_type']}/")
        assert entry["content_type"] in ("application/pdf", "image/png")
        assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", entry["time"])
    assert download.unfinished == []
    # Folders that are made are private as well, and a list that was open is closed.
    modes = {stat.S_IMODE(path.stat().st_mode) for path in download.folder.rglob("*/")}
    assert (modes, stat.S_IMODE(download.manifest.stat().st_mode)) == ({0o700}, 0o600)
    download.manifest.chmod(0o644)
    download()
    assert stat.S_IMODE(download.manifest.stat().st_mode) == 0o600
    # The list names nobody, and no address of a file.
    text = download.manifest.read_text("utf-8") + ran.stdout + ran.stderr
    assert "http" not in text
    for one in download.service.ids:
        application = served(download.service, one)
        people = application["applicants"].values()
        assert application["application_reference_id"] not in text
        assert not any(person["last_name"] in text for person in people)


def test_a_second_run_asks_for_what_is_missing(download: Download) -> None:
    """What is listed costs no request and is not printed again; a file that is gone comes again."""
    first = download()
    listed, before = download.listed, download.file_requests
    ran = download()
    assert (ran.status, ran.stdout) == (0, "")
    assert counts_of(ran.stderr) == {"new": 0, "there": len(listed), "failed": 0}
    assert (download.listed, download.file_requests) == (listed, before)
    path = download.folder / listed[1]["path"]
    path.unlink()
    ran = download()
    assert (ran.status, ran.stdout) == (0, f"{path}\n")
    assert download.listed[-1]["sha256"] == listed[1]["sha256"]
    assert download.is_whole(listed[1]["document_id"])
    # Without its list a folder is read again: what is there is compared, listed and printed.
    download.manifest.unlink()
    ran = download()
    assert ran.status == 0
    assert counts_of(ran.stderr) == {"new": 0, "there": len(listed), "failed": 0}
    assert sorted(ran.lines) == sorted(first.lines)
    sums = {each["document_id"]: each["sha256"] for each in listed}
    assert {each["document_id"]: each["sha256"] for each in download.listed} == sums


def test_another_file_is_replaced_only_on_request(download: Download) -> None:
    download()
    one, *others = download.listed
    path = download.folder / one["path"]
    content = path.read_bytes()
    path.write_bytes(content.swapcase())
    ran = download()
    assert (ran.status, ran.stdout, path.read_bytes()) == (1, "", content.swapcase())
    assert one["document_id"] in ran.stderr.splitlines()[0]
    ran = download("--overwrite")
    assert (ran.status, ran.stdout) == (0, f"{path}\n")
    assert counts_of(ran.stderr) == {"new": 1, "there": len(others), "failed": 0}
    assert download.is_whole(one["document_id"])
    assert len(download.listed) == len(others) + 2


def test_failures_leave_the_others_alone(download: Download) -> None:
    bad, *good = download.service.ids
    documents = documents_of(download.service)
    lost, *rest = (one for one, owner in documents.items() if owner in good)
    download.service.faults.add(
        Fault("status", status=404, times=None, path=f"*/{bad}/documents"),
        Fault("status", status=404, times=None, path=f"*/{lost}*"),
    )
    ran = download()
    assert ran.status == 1
    *reported, summary = ran.stderr.splitlines()
    assert len(reported) == 2
    assert any(bad in line and "404" in line for line in reported)
    assert any(lost in line and documents[lost] in line for line in reported)
    assert counts_of(ran.stderr) == {"new": len(rest), "there": 0, "failed": 1}
    assert "1 application not read" in summary
    assert {entry["document_id"] for entry in download.listed} == set(rest)
    ran = download("app-\x1b[2J\x07\u202e")
    assert ran.status == 1
    assert ran.stderr.replace("\n", "").isprintable()


def test_a_failing_disk_ends_it(download: Download) -> None:
    """The first file that the disk does not take is named, and no further one is asked for."""
    documents = documents_of(download.service)
    with room_for(5, errno.EIO):
        ran = download("--concurrency", "1")
    assert ran.status == 1
    failed, summary = ran.stderr.splitlines()
    assert failed.lower().endswith(f"cannot be kept: {os.strerror(errno.EIO)}".lower())
    assert summary.endswith("stopped by the disk, run it again to resume")
    assert counts_of(summary) == {"new": 5, "there": 0, "failed": 1}
    assert download.file_requests == 6 < len(documents)
    assert all(download.is_whole(entry["document_id"]) for entry in download.listed)
    assert (len(ran.lines), len(download.listed), download.unfinished) == (5, 5, [])
    # A name that is too long for the disk, say, is a failure of one file.
    with room_for(2, errno.ENAMETOOLONG):
        ran = download()
    assert counts_of(ran.stderr) == {"new": 2, "there": 5, "failed": len(documents) - 7}
    ran = download()
    assert ran.status == 0
    assert counts_of(ran.stderr) == {"new": len(documents) - 7, "there": 7, "failed": 0}


def test_names_can_be_chosen(download: Download) -> None:
    """A template says where files are; it moves no file that is listed already."""
    ran = download("--names", "all/{document_id}.{ext}")
    assert ran.status == 0
    assert {Path(entry["path"]).parent for entry in download.listed} == {Path("all")}
    (gone, *kept), before = download.listed, download.file_requests
    ran = download()
    assert (ran.status, ran.stdout, download.file_requests) == (0, "", before)
    (download.folder / gone["path"]).unlink()
    assert download().status == 0
    assert Path(download.listed[-1]["path"]).parent != Path("all")
    assert all((download.folder / one["path"]).exists() for one in kept)


@pytest.mark.income_service(applications=1)
def test_quiet_reports_failures_only(download: Download) -> None:
    ran = download("--quiet", terminal=Terminal(), stdout=NOWHERE)
    assert (ran.status, ran.screen) == (0, "")
    download.service.faults.add(Fault("status", status=404, times=None, path=FILES))
    documents = documents_of(download.service)
    download.folder = download.folder.with_name("other")
    ran = download("--quiet", "--concurrency", "1")
    assert (ran.status, len(ran.stderr.splitlines())) == (1, len(documents))


# Hosts


@pytest.mark.parametrize("host", ["", "files.example", "127.0.0.1:1"])
def test_files_come_from_allowed_hosts_only(host: str, download: Download) -> None:
    """Nothing on this machine is asked without the option; each refusal is reported once."""
    download.hosts = ("--allow-host", host) if host else ()
    ran = download()
    assert (ran.status, ran.stdout, download.file_requests) == (1, "", 0)
    files = len(documents_of(download.service))
    assert counts_of(ran.stderr)["failed"] == files
    assert f"{files - 1} more files" in ran.stderr
    assert ran.stderr.count("--allow-host") == 1
    assert "Policy" not in ran.stderr


@pytest.mark.income_service(applications=1)
@pytest.mark.parametrize(
    ("url", "host", "hint"),
    [
        ("https://files.example/x", None, "--allow-host"),
        ("http://a.amazonaws.com/x", None, "http"),
        ("https://10.0.0.1/x", "10.0.0.1", "--allow-private-networks"),
        ("https://169.254.169.254/x", "169.254.169.254", None),
    ],
)
def test_a_refused_address_names_the_option(
    url: str, host: str | None, hint: str | None, download: Download
) -> None:
    download.serve_one(url=url)
    download.hosts = ("--allow-host", host) if host else ()
    ran = download()
    refused, *hints, _ = ran.stderr.splitlines()
    assert ran.status == 1
    assert "doc-1" in refused
    assert [line for line in hints if hint and hint in line] == hints
    assert bool(hints) is (hint is not None)


# Which applications


@pytest.mark.income_service(applications=20, days=30)
def test_a_span_chooses_everything_that_changed(download: Download) -> None:
    expected = {
        one
        for one in download.service.ids
        if served(download.service, one)["last_updated_at"] >= "2026-06-20T12:00:00Z"
    }
    assert 0 < len(expected) < 20
    assert download("--updated-after", "10d").status == 0
    assert {entry["application_id"] for entry in download.listed} == expected


# Interrupted


@pytest.mark.income_service(applications=2, file_bytes=3 * MiB)
def test_an_interrupted_file_begins_anew(download: Download) -> None:
    download.service.faults.add(Fault("stall", times=None, keep=2 * MiB, path=FILES))

    def are_begun() -> bool:
        return any(part.stat().st_size >= MiB for part in download.unfinished)

    ran = download(during=when(are_begun, "terminate"))
    assert (ran.status, ran.stdout) == (143, "")
    assert counts_of(ran.stderr)["new"] == 0
    assert download.unfinished == []
    assert download.listed == []
    download.service.faults.clear()
    assert download().status == 0
    assert {each.headers.get("range") for each in download.service.requests} == {None}
    assert all(map(download.is_whole, documents_of(download.service)))


@pytest.mark.income_service(applications=1)
def test_ctrl_c_ends_a_wait_for_input(download: Download) -> None:
    def stop(running: Running) -> None:
        running.write(f"{download.service.ids[0]}\n")
        running.stdout.wait_for_lines(1)
        running.interrupt()
        running.wait()

    ran = download("-", during=stop)
    assert ran.status == 130
    assert "interrupted" in ran.stderr


def test_a_path_that_nobody_reads_comes_again(download: Download) -> None:
    """A file whose path could not be printed is not listed, so that the next run prints it."""
    with closed_pipe() as pipe:
        assert download(stdout=pipe).status == 141
    assert download.listed == []
    ran = download(stdout=FULL)
    assert ran.status == 1
    assert "no space left on device" in ran.stderr
    assert download.listed == []
    ran = download()
    assert (ran.status, len(ran.lines)) == (0, len(documents_of(download.service)))


# The list


def test_what_is_no_entry_is_passed_over(download: Download) -> None:
    """Garbage, wrong types and paths that lead out count for nothing; further fields do no harm."""
    download()
    one, *others = download.listed
    wrong: list[dict[str, Any]] = [
        {"size": "17"}, {"file": None}, {"path": None}, {"path": ""}, {"path": "/etc/passwd"},
        {"path": "../manifest.jsonl"}, {"path": "a\ud800\0"}, {"application_id": 1},
        {"sha256": ["0"]},
    ]  # fmt: skip
    known = [json.dumps({**entry, "more": [1]}).encode() for entry in others]
    bad = [json.dumps({**one, **changes}).encode() for changes in wrong]
    garbage = [b"\xff\xfe", b"[]", b"null", b"[" * 100_000, b"{}", b"", *known, *bad, b"{"]
    download.manifest.write_bytes(b"\n".join(garbage))
    ran = download()
    assert (ran.status, ran.stdout) == (0, f"{download.folder / one['path']}\n")
    text = download.manifest.read_text("utf-8", "replace").splitlines()
    assert {**json.loads(text[-1]), "time": ""} == {**one, "time": ""}
    # An older line that says something else about a file does not matter.
    entries = [{**one, "sha256": "f" * 64}, one, *others]
    lines = "".join(f"{json.dumps(entry)}\n" for entry in entries)
    download.manifest.write_text(lines, "utf-8")
    assert download().stdout == ""


def test_what_is_no_file_is_not_taken_for_one(download: Download) -> None:
    download()
    link, pipe, folder, *_ = (download.folder / entry["path"] for entry in download.listed)
    link.rename(link.with_name("elsewhere"))
    link.symlink_to("elsewhere")
    pipe.unlink()
    os.mkfifo(pipe)
    folder.unlink()
    folder.mkdir()
    assert counts_of(download().stderr)["there"] == len(download.listed) - 3


@pytest.mark.parametrize(
    ("make", "folder"),
    [
        (lambda path: path.symlink_to("target"), "files"),
        (os.mkfifo, "files"),
        (Path.mkdir, "files"),
        (Path.touch, "files/manifest.jsonl/inner"),
    ],
    ids=["link", "pipe", "folder", "file for a folder"],
)
def test_a_list_is_a_file_in_a_folder(
    make: Callable[[Path], None], folder: str, download: Download
) -> None:
    download.folder.mkdir()
    (download.folder / "target").touch()
    make(download.manifest)
    download.folder = download.folder.parent / folder
    ran = download()
    assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    assert "manifest.jsonl" in ran.stderr
    assert len(download.service.requests) == 0


@pytest.mark.income_service(applications=8, file_bytes=100)
def test_a_list_without_room_loses_nothing(download: Download) -> None:
    with no_room_above(2000):
        ran = download()
    assert ran.status == 1
    assert "file too large" in ran.stderr
    printed = set(ran.lines)
    assert download().status == 0
    entries = [json.loads(line) for line in download.manifest.read_text().splitlines()
               if line.endswith("}")]  # fmt: skip
    assert {entry["document_id"] for entry in entries} == set(documents_of(download.service))
    assert printed <= {str(download.folder / entry["path"]) for entry in entries}


@pytest.mark.income_service(applications=1)
@pytest.mark.parametrize(
    ("name", "kind"), [("..", "../x"), ("a/\u2028\n\x0bb", "CON"), ("manifest.jsonl", "." * 300)]
)
def test_any_name_is_listed_and_found_again(name: str, kind: str, download: Download) -> None:
    download.serve_one(kind, document_id=name, extracted_data={})
    assert download().status == 0
    (entry,) = download.listed
    assert (entry["document_id"], entry["document_type"]) == (name, kind)
    assert (download.folder / entry["path"]).resolve().is_relative_to(download.folder)
    assert download().stdout == ""


# On a terminal


@pytest.fixture
def stalled(income_service: IncomeService) -> None:
    """Have every file stop half-way."""
    income_service.faults.add(Fault("stall", times=None, keep=150_000, path=FILES))


@pytest.mark.income_service(applications=2, file_bytes=300_000)
def test_each_file_has_a_bar_and_all_together_one(download: Download) -> None:
    """A failure is a line of its own above them; in the end only that and the summary remain."""
    lost, *documents = documents_of(download.service)
    download.service.faults.add(
        Fault("status", status=404, times=None, path=f"*/{lost}*"),
        Fault("stall", times=None, keep=150_000, path=FILES),
    )
    terminal = Terminal(columns=200)
    shown = download(terminal=terminal, stdout=NOWHERE, during=when_shown(HALF_WAY, lost))
    assert shown.status == 130
    text = STYLE.sub("", shown.screen)
    assert re.search(r"[01] of 2 applications\b", text)
    row = re.search(r"(doc-\S+) .* \d+\.\d/300\.0 kB", text)
    assert row
    assert row[1] in documents
    failed, summary = terminal.standing(shown.screen)
    assert lost in failed
    assert "0 new, 0 there already, 1 failed" in summary


@pytest.mark.income_service(applications=20, file_bytes=300_000)
@pytest.mark.usefixtures("stalled")
@pytest.mark.parametrize(("rows", "columns"), [(3, 80), (8, 20)])
def test_bars_fit_the_terminal(rows: int, columns: int, download: Download) -> None:
    terminal = Terminal(rows=rows, columns=columns)
    shown = download(
        "--concurrency", "40", terminal=terminal, stdout=NOWHERE, during=when_shown("...")
    )
    remaining = "".join(terminal.standing(shown.screen)).replace(" ", "")
    assert remaining.startswith("income-client:0files")
    assert "doc-" not in remaining


def test_paths_on_the_same_terminal_stay_whole(download: Download) -> None:
    terminal = Terminal(columns=300)
    *paths, summary = terminal.standing(download(terminal=terminal).screen)
    assert paths == [str(download.folder / entry["path"]) for entry in download.listed]
    assert summary.startswith("income-client: ")


@pytest.mark.income_service(applications=1, file_bytes=300_000)
@pytest.mark.usefixtures("stalled")
@pytest.mark.parametrize("name", ["doc\x1b[2J\x07\u202e\n", "[red]doc[/red] {task}", "d" * 300])
def test_a_name_cannot_act_on_the_terminal(name: str, download: Download) -> None:
    download.serve_one(document_id=name)
    shown = download(terminal=Terminal(), stdout=NOWHERE, during=when_shown(HALF_WAY))
    text = STYLE.sub("", shown.screen)
    assert name[:4].rstrip("\x1b") in text
    assert "d" * 60 not in text
    assert not any(each in text for each in ("\x1b[2J", "\x07", "\u202e"))


def test_the_manifest_is_no_place_for_the_output(download: Download) -> None:
    """Paths in between its lines would spoil it: nothing is sent."""
    download()
    listed, before = download.manifest.read_bytes(), len(download.service.requests)
    ran = download(stdout=download.manifest)
    assert ran.status == 2
    assert "--to: standard output is written to this very file" in ran.stderr
    assert (download.manifest.read_bytes(), len(download.service.requests)) == (listed, before)
