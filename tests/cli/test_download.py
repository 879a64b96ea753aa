"""``income-client download``: the files, their paths, and what a person sees meanwhile."""

import errno
import os
import re
import stat
from pathlib import Path
from typing import Final

import pytest

from income_client.emulator import Fault
from income_client.testing import IncomeService
from tests.cli.commands import FILES, Download, counts_of
from tests.support.cli import FULL, Cli, Running, when, when_shown
from tests.support.disk import room_for
from tests.support.emulated import documents_of, served
from tests.support.processes import Terminal, closed_pipe

MiB: Final = 2**20
NOWHERE: Final = Path(os.devnull)
STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")
HALF_WAY: Final = "/300.0 kB"
pytestmark = pytest.mark.income_service(applications=2)


@pytest.fixture
def download(shell: Cli) -> Download:
    """Downloads into a folder of its own."""
    return Download(shell)


def document_of(path: Path) -> str:
    """Return the id of a file's document."""
    return path.stem.removesuffix("-0")


def application_of(path: Path) -> str:
    """Return the id of a file's application."""
    return path.parent.parent.name


# Files


def test_files_are_complete_private_and_printed(download: Download) -> None:
    ran = download()
    documents = documents_of(download.service)
    assert ran.status == 0
    assert counts_of(ran.stderr) == {"new": len(documents), "there": 0, "failed": 0}
    assert sorted(map(Path, ran.lines)) == download.files
    assert {document_of(path): application_of(path) for path in download.files} == documents
    for path in download.files:
        assert path.read_bytes() == download.service.content_of(document_of(path))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    modes = {stat.S_IMODE(path.stat().st_mode) for path in download.folder.rglob("*/")}
    assert modes == {0o700}
    # Neither names of people nor addresses of files are printed.
    text = ran.stdout + ran.stderr
    assert "http" not in text
    for one in download.service.ids:
        application = served(download.service, one)
        people = application["applicants"].values()
        assert application["application_reference_id"] not in text
        assert not any(person["last_name"] in text for person in people)


def test_a_second_run_downloads_what_is_missing(download: Download) -> None:
    """A file that is there is compared by one short request, and its path is printed again."""
    first = download()
    assert download.file_requests == len(first.lines)
    ran = download()
    assert ran.status == 0
    assert counts_of(ran.stderr) == {"new": 0, "there": len(first.lines), "failed": 0}
    assert sorted(ran.lines) == sorted(first.lines)
    compared = [one for one in download.service.requests if "range" in one.headers]
    assert len(compared) == len(first.lines)
    assert download.file_requests == 2 * len(first.lines)
    path = download.files[1]
    path.unlink()
    ran = download()
    assert ran.status == 0
    assert counts_of(ran.stderr) == {"new": 1, "there": len(first.lines) - 1, "failed": 0}
    assert sorted(ran.lines) == sorted(first.lines)
    assert download.is_whole(document_of(path))


def test_paths_are_relative_where_the_folder_is(download: Download) -> None:
    folder = download.folder
    download.folder = Path("files")
    ran = download()
    assert ran.status == 0
    download.folder = folder
    assert sorted(map(Path, ran.lines)) == [
        path.relative_to(folder.parent) for path in download.files
    ]


def test_another_file_is_replaced_only_on_request(download: Download) -> None:
    download()
    path, *others = download.files
    content = path.read_bytes()
    path.write_bytes(content.swapcase())
    ran = download()
    assert (ran.status, path.read_bytes()) == (1, content.swapcase())
    assert sorted(map(Path, ran.lines)) == others
    assert document_of(path) in ran.stderr.splitlines()[0]
    ran = download("--overwrite")
    assert ran.status == 0
    assert sorted(map(Path, ran.lines)) == [path, *others]
    assert counts_of(ran.stderr) == {"new": 1, "there": len(others), "failed": 0}
    assert download.is_whole(document_of(path))


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
    assert {document_of(path) for path in download.files} == set(rest)
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
    assert all(download.is_whole(document_of(path)) for path in download.files)
    assert (len(ran.lines), len(download.files)) == (5, 5)
    # A name that is too long for the disk, say, is a failure of one file.
    with room_for(2, errno.ENAMETOOLONG):
        ran = download()
    assert counts_of(ran.stderr) == {"new": 2, "there": 5, "failed": len(documents) - 7}
    ran = download()
    assert ran.status == 0
    assert counts_of(ran.stderr) == {"new": len(documents) - 7, "there": 7, "failed": 0}


def test_names_can_be_chosen(download: Download) -> None:
    ran = download("--names", "all/{document_id}.{ext}")
    assert ran.status == 0
    assert {path.parent for path in download.files} == {download.folder / "all"}
    assert {path.stem for path in download.files} == set(documents_of(download.service))


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
    """Hosts on this machine get no request without the option; each refusal is reported once."""
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
    assert {application_of(path) for path in download.files} == expected


# Interrupted


@pytest.mark.income_service(applications=2, file_bytes=3 * MiB)
def test_an_interrupted_file_begins_anew(download: Download) -> None:
    download.service.faults.add(Fault("stall", times=None, keep=2 * MiB, path=FILES))

    def are_begun() -> bool:
        return any(part.stat().st_size >= MiB for part in download.unfinished)

    ran = download(during=when(are_begun, "terminate"))
    assert (ran.status, ran.stdout) == (143, "")
    assert counts_of(ran.stderr)["new"] == 0
    assert download.files == []
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
    """The run ends with the first path that cannot be printed; the next run prints it again."""
    with closed_pipe() as pipe:
        assert download(stdout=pipe).status == 141
    ran = download(stdout=FULL)
    assert ran.status == 1
    assert "no space left on device" in ran.stderr
    ran = download()
    assert (ran.status, len(ran.lines)) == (0, len(documents_of(download.service)))


# The folder


def test_what_is_no_file_is_not_taken_for_one(download: Download) -> None:
    ran = download()
    link, pipe, folder, *others = download.files
    link.rename(link.with_name("elsewhere"))
    link.symlink_to("elsewhere")
    pipe.unlink()
    os.mkfifo(pipe)
    folder.unlink()
    folder.mkdir()
    ran = download()
    assert counts_of(ran.stderr) == {"new": 0, "there": len(others), "failed": 3}
    assert sorted(map(Path, ran.lines)) == others


@pytest.mark.parametrize("inner", ["", "inner"], ids=["place", "way"])
def test_a_file_in_the_place_of_the_folder_is_refused_at_once(
    inner: str, download: Download
) -> None:
    download.folder.touch()
    download.folder /= inner
    ran = download()
    assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    assert "not a directory" in ran.stderr
    assert len(download.service.requests) == 0


@pytest.mark.income_service(applications=1)
@pytest.mark.parametrize(("name", "kind"), [("..", "../x"), ("a/\u2028\n\x0bb", "CON")])
def test_any_name_stays_in_the_folder_and_is_found_again(
    name: str, kind: str, download: Download
) -> None:
    download.serve_one(kind, document_id=name, extracted_data={})
    first = download()
    assert first.status == 0
    (path,) = download.files
    assert path.resolve().is_relative_to(download.folder)
    again = download()
    assert (again.status, again.stdout) == (0, first.stdout)
    assert counts_of(again.stderr) == {"new": 0, "there": 1, "failed": 0}


# On a terminal


@pytest.fixture
def stalled(income_service: IncomeService) -> None:
    """Make every file stop half-way."""
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
    assert sorted(map(Path, paths)) == download.files
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
