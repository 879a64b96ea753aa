"""``income-client download``: which files it has, and what it does not ask for again."""

import json
import re
import stat
from pathlib import Path
from typing import Final

import pytest

from income_client.emulator import Fault
from income_client.testing import IncomeService
from tests.support.application_payloads import application_of, paystub
from tests.support.beside import until
from tests.support.cli import FULL, Cli, Running, closed_pipe, spelt
from tests.support.downloading import FILES, Download, counts_of, sha256_of
from tests.support.served import documents_of, served

MiB: Final = 2**20


@pytest.fixture
def download(service_cli: Cli, income_service: IncomeService, tmp_path: Path) -> Download:
    """Downloads into a folder of its own."""
    return Download(service_cli, income_service, tmp_path / "files")


def applications(count: int, **rules: int) -> pytest.MarkDecorator:
    """Have the service hold this many."""
    return pytest.mark.income_service(applications=count, **rules)


# Files and their list


@applications(8)
def test_files_come_whole_and_are_listed(download: Download, income_service: IncomeService) -> None:
    """Every file is there, private, printed and listed with what it is."""
    ran = download()
    documents = documents_of(income_service)
    assert ran.status == 0
    assert counts_of(ran.stderr) == {"new": len(documents), "there": 0, "failed": 0}
    paths = [Path(line) for line in ran.lines]
    assert paths == [download.folder / entry["path"] for entry in download.listed]
    assert {each["document_id"]: each["application_id"] for each in download.listed} == documents
    for path, entry in zip(paths, download.listed, strict=True):
        content = path.read_bytes()
        assert content == income_service.content_of(entry["document_id"])
        assert (entry["size"], entry["sha256"]) == (len(content), sha256_of(content))
        assert (stat.S_IMODE(path.stat().st_mode), entry["file"]) == (0o600, 0)
        assert entry["path"].startswith(f"{entry['application_id']}/{entry['document_type']}/")
        assert entry["content_type"] in ("application/pdf", "image/png")
        assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", entry["time"])
    assert download.parts == []


@applications(3)
def test_the_list_names_nobody(download: Download, income_service: IncomeService) -> None:
    """Neither an address nor a borrower's or lender's name is in the manifest or is shown."""
    ran = download()
    text = download.manifest.read_text("utf-8") + ran.stdout + ran.stderr
    for one in income_service.ids:
        application = served(income_service, one)
        assert application["application_reference_id"] not in text
        for person in application["applicants"].values():
            assert person["last_name"] not in text
    assert "http" not in text
    assert "X-Amz" not in text


@applications(15)
def test_only_the_types_that_are_asked_for(
    download: Download, income_service: IncomeService
) -> None:
    """Other types are left out; a type that no document has is reported."""
    paystubs = documents_of(income_service, "paystub")
    assert 0 < len(paystubs) < len(documents_of(income_service))
    ran = download("--type", "paystub", "--type", "payslip")
    assert {entry["document_id"] for entry in download.listed} == set(paystubs)
    assert "payslip" in ran.stderr
    assert "paystub" in ran.stderr.partition("payslip")[2]


@applications(5)
def test_a_second_run_asks_for_no_file(download: Download) -> None:
    """What is listed and unchanged costs no request, and is neither printed nor listed again."""
    download()
    listed, before = download.listed, download.file_requests
    ran = download()
    assert (ran.status, ran.stdout) == (0, "")
    assert counts_of(ran.stderr) == {"new": 0, "there": len(listed), "failed": 0}
    assert (download.listed, download.file_requests) == (listed, before)


@applications(3)
def test_a_missing_file_comes_again(download: Download) -> None:
    """A listed file that is no longer there is downloaded, printed and listed anew."""
    download()
    one = download.listed[1]
    (download.folder / one["path"]).unlink()
    ran = download()
    assert (ran.status, ran.stdout) == (0, f"{download.folder / one['path']}\n")
    assert download.listed[-1]["sha256"] == one["sha256"]
    assert download.is_whole(one["document_id"])


@applications(3)
def test_a_file_that_is_not_listed_is_found(download: Download) -> None:
    """Without its list a folder is read again: what is there is compared, listed and printed."""
    first = download()
    listed = {entry["document_id"]: entry["sha256"] for entry in download.listed}
    download.manifest.unlink()
    ran = download()
    assert ran.status == 0
    assert counts_of(ran.stderr) == {"new": 0, "there": len(listed), "failed": 0}
    assert sorted(ran.lines) == sorted(first.lines)
    assert {entry["document_id"]: entry["sha256"] for entry in download.listed} == listed


@applications(2)
def test_another_file_is_replaced_only_when_told(download: Download) -> None:
    """A file that differs stays and is reported; with --overwrite it is replaced."""
    download()
    one, *others = download.listed
    path = download.folder / one["path"]
    content = path.read_bytes()
    for changed in (content + b"!", content[:-1], content.swapcase()):
        path.write_bytes(changed)
        ran = download()
        assert (ran.status, ran.stdout, path.read_bytes()) == (1, "", changed)
        assert one["document_id"] in ran.stderr.splitlines()[0]
    ran = download("--overwrite")
    assert (ran.status, ran.stdout) == (0, f"{path}\n")
    assert counts_of(ran.stderr) == {"new": 1, "there": len(others), "failed": 0}
    assert download.is_whole(one["document_id"])
    assert len(download.listed) == len(others) + 2


@applications(2)
def test_a_replaced_document_is_seen_with_overwrite(
    download: Download, income_service: IncomeService
) -> None:
    """What the service has replaced is downloaded only where known files are asked for, too."""
    download()
    one = download.listed[0]["document_id"]
    income_service.replace_file(one)
    assert download().stdout == ""
    assert not download.is_whole(one)
    assert download("--overwrite").status == 0
    assert download.is_whole(one)


@applications(6)
def test_failures_leave_the_others_alone(download: Download, income_service: IncomeService) -> None:
    """An application or a file that cannot be had is named; all others come."""
    bad, *good = income_service.ids
    documents = documents_of(income_service)
    lost, *rest = (one for one, owner in documents.items() if owner in good)
    income_service.faults.add(
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


@applications(200)
def test_wrong_credentials_end_it(download: Download, income_service: IncomeService) -> None:
    """What fails for every application is reported once, and not tried with each."""
    ran = download(env={"INCOME_CLIENT_SECRET": "invented"})
    assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (4, "", 1)
    assert "401" in ran.stderr
    assert len(income_service.requests) < 100


@applications(2)
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


@applications(2)
def test_quiet_reports_failures_only(download: Download, income_service: IncomeService) -> None:
    """With --quiet nothing is said of what went well."""
    ran = download("--quiet")
    assert (ran.status, ran.stderr) == (0, "")
    income_service.faults.add(Fault("status", status=404, times=None, path=FILES))
    documents = documents_of(income_service)
    download.folder = download.folder.with_name("other")
    ran = download("--quiet", "--concurrency", "1")
    assert (ran.status, len(ran.stderr.splitlines())) == (1, len(documents))


# Hosts


@applications(2)
@pytest.mark.parametrize(
    "hosts", [(), ("files.example",), ("127.0.0.1:1",)], ids=["none", "another", "another port"]
)
def test_files_come_from_allowed_hosts_only(
    hosts: tuple[str, ...], download: Download, income_service: IncomeService
) -> None:
    """Nothing on this machine is asked without the option; each refusal is reported once."""
    download.hosts = tuple(part for host in hosts for part in ("--allow-host", host))
    ran = download()
    assert (ran.status, ran.stdout, download.file_requests) == (1, "", 0)
    files = len(documents_of(income_service))
    assert counts_of(ran.stderr)["failed"] == files
    assert f"{files - 1} more files" in ran.stderr
    assert ran.stderr.count("--allow-host") == 1


@applications(2)
@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:*"])
def test_this_machine_is_trusted_with_plain_http(host: str, download: Download) -> None:
    """What names this machine allows http and its own network."""
    download.hosts = ("--allow-host", host)
    assert download().status == 0


@applications(1)
@pytest.mark.parametrize(
    ("url", "hosts", "hint"),
    [
        ("https://files.example/x", (), "--allow-host"),
        ("http://a.amazonaws.com/x", (), "http"),
        ("https://10.0.0.1/x", ("10.0.0.1",), "--allow-private-networks"),
        ("https://169.254.169.254/x", ("169.254.169.254",), None),
    ],
    ids=["host", "plain http", "private network", "metadata of a cloud"],
)
def test_a_refused_address_names_the_option(
    url: str,
    hosts: tuple[str, ...],
    hint: str | None,
    download: Download,
    income_service: IncomeService,
) -> None:
    """What would allow it is named last, where there is such an option; nothing is sent."""
    payloads = application_of({}, stubs=({**paystub(1), "url": url},))
    _, documents = payloads.bodies
    documents = documents.replace(b'"app-1"', json.dumps(income_service.ids[0]).encode())
    income_service.faults.add(Fault("body", path="*/documents", body=documents, times=None))
    download.hosts = tuple(part for host in hosts for part in ("--allow-host", host))
    ran = download()
    refused, *hints, _ = ran.stderr.splitlines()
    assert ran.status == 1
    assert "doc-1" in refused
    assert [line for line in hints if hint and hint in line] == hints
    assert bool(hints) is (hint is not None)


# Which applications


@applications(4)
def test_ids_come_from_standard_input(download: Download, income_service: IncomeService) -> None:
    """A line is an application, asked for once; empty lines are none, the last needs no end."""
    first, second, third, _ = income_service.ids
    ran = download(third, "-", stdin=f"{first}\n\n  {second} \r\n{first}\n{third}")
    assert ran.status == 0
    assert {entry["application_id"] for entry in download.listed} == {first, second, third}
    assert income_service.requests.count("get_documents") == 3


@applications(3)
def test_lines_of_json_come_from_other_commands(
    download: Download, service_cli: Cli, income_service: IncomeService
) -> None:
    """What applications and poll print can be piped as it is, however long a line is."""
    first, second, third = income_service.ids
    lines = [
        {"application_id": first, "application_reference_id": "LOAN-1"},
        {**served(income_service, second), "padding": "x" * 200_000},
        {"application": served(income_service, third), "documents": {}},
    ]
    text = "\n".join(json.dumps(line, default=str) for line in lines)
    assert download("-", stdin=text).status == 0
    assert {entry["application_id"] for entry in download.listed} == {first, second, third}
    for listing in (("applications",), ("applications", "-q")):
        ran = download("-", stdin=service_cli(*listing).stdout)
        assert (ran.status, counts_of(ran.stderr)["there"]) == (0, len(download.listed))


@applications(2)
def test_it_begins_before_its_input_ends(download: Download, income_service: IncomeService) -> None:
    """Files of the first line are there while the pipe is still open."""
    first, second = income_service.ids
    count = sum(one == first for one in documents_of(income_service).values())

    def write(running: Running) -> None:
        running.write(f"{first}\n")
        running.stdout.wait_for_lines(count)
        running.write(f"{second}\n")

    assert download("-", during=write).status == 0
    assert {entry["application_id"] for entry in download.listed} == {first, second}


@applications(1)
@pytest.mark.parametrize(
    "line",
    [b"{}", b'{"application_id": 7}', b"{", b"[" * 5000, b'{"application": 1}', b"CANARY\xff",
     b'{"ssn":"CANARY"}'],
    ids=["empty", "number", "cut off", "deep", "shape", "bytes", "no id"],
)  # fmt: skip
def test_a_line_without_an_id_ends_it(
    line: bytes, download: Download, income_service: IncomeService
) -> None:
    """It is reported by its number, and not shown, since it may be somebody's record."""
    ran = download("-", stdin=income_service.ids[0].encode() + b"\n" + line + b"\n")
    assert ran.status == 1
    assert "line 2 of standard input" in ran.stderr
    assert "CANARY" not in ran.stderr


@applications(40, days=30)
@pytest.mark.parametrize("after", ["3d", "2026-06-27T12:00:00"])
def test_a_span_chooses_everything_that_changed(
    after: str, download: Download, income_service: IncomeService
) -> None:
    """Without ids a span says which applications: since a time, or back from the present."""
    expected = {
        one
        for one in income_service.ids
        if served(income_service, one)["last_updated_at"] >= "2026-06-27T12:00:00Z"
    }
    assert 0 < len(expected) < 40
    assert download("--updated-after", after).status == 0
    assert {entry["application_id"] for entry in download.listed} == expected


# Misuse


@applications(1)
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "APPLICATION_ID"),
        (("app-1", "--updated-after", "1d"), "--updated-after"),
        (("-", "--updated-before", "now"), "--updated-after"),
        (("--updated-after", "1d", "--updated-before", "2d"), "--updated-before"),
        (("app-1", "--concurrency", "0"), "--concurrency"),
        (("app-1", "--allow-host", "https://files.example/x"), "--allow-host"),
        (("app-1", "--allow-host", "*"), "--allow-host"),
        (("app-1", "--names", "../{document_id}"), "--names"),
        (("app-1", "--names", "{ssn}.{ext}"), "--names"),
        (("app-1", "--names", "{ssn}"), "--names"),
        (("app-1", "--names", "{file_reference_id}", "--overwrite"), "{ext}"),
        (("app-1", "--names", "{document_id}.jsonl"), "{ext}"),
        (("app-1", "--names", "{document_id}.{{ext}}"), "{ext}"),
        (("app-1", "--to", "s3://bucket/x"), "--to"),
    ],
    ids=spelt,
)
def test_misuse(
    arguments: tuple[str, ...], named: str, service_cli: Cli, income_service: IncomeService
) -> None:
    """Invalid arguments are explained with status 2, and nothing is sent."""
    ran = service_cli("download", "--to", "files", *arguments)
    assert (ran.status, ran.stdout) == (2, "")
    assert named in ran.words
    assert len(income_service.requests) == 0


@applications(1)
def test_an_id_cannot_act_on_a_terminal(download: Download) -> None:
    """What is no id of an application is reported without the characters that would do harm."""
    ran = download("app-\x1b[2J\x07\u202e")
    assert ran.status == 1
    assert ran.stderr.replace("\n", "").isprintable()


# Interrupted


@applications(2, file_bytes=3 * MiB)
@pytest.mark.parametrize("signal", ["interrupt", "terminate"])
def test_an_interrupted_file_is_resumed(
    signal: str, download: Download, income_service: IncomeService
) -> None:
    """Stopped in mid-file, the parts are kept, and the next run asks for the rest only."""
    income_service.faults.add(Fault("stall", times=None, keep=2 * MiB, path=FILES))

    def stop(running: Running) -> None:
        until(lambda: any(part.stat().st_size >= MiB for part in download.parts))
        getattr(running, signal)()

    ran = download(during=stop)
    assert (ran.status, ran.stdout) == ({"interrupt": 130, "terminate": 143}[signal], "")
    assert counts_of(ran.stderr)["new"] == 0
    assert download.parts
    assert download.listed == []
    income_service.faults.clear()
    assert download().status == 0
    ranges = {each.headers.get("range", "bytes=0-") for each in income_service.requests}
    assert any(not each.startswith("bytes=0-") for each in ranges)
    assert download.parts == []
    assert all(map(download.is_whole, documents_of(income_service)))


@applications(1)
def test_ctrl_c_ends_a_wait_for_input(download: Download, income_service: IncomeService) -> None:
    """Interrupted while nobody writes, it ends with 130."""

    def stop(running: Running) -> None:
        running.write(f"{income_service.ids[0]}\n")
        running.stdout.wait_for_lines(1)
        running.interrupt()
        running.wait()

    ran = download("-", during=stop)
    assert ran.status == 130
    assert "interrupted" in ran.stderr


@applications(3)
def test_a_path_that_nobody_reads_comes_again(
    download: Download, income_service: IncomeService
) -> None:
    """A file whose path could not be printed is not listed, so that the next run prints it."""
    with closed_pipe() as pipe:
        assert download(stdout=pipe).status == 141
    assert download.listed == []
    ran = download(stdout=FULL)
    assert ran.status == 1
    assert "no space left on device" in ran.stderr
    assert download.listed == []
    ran = download()
    assert (ran.status, len(ran.lines)) == (0, len(documents_of(income_service)))
