"""The list of a folder's files: what its lines say, and what spoils none of them."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.emulator import Fault
from income_client.testing import IncomeService
from tests.support.application_payloads import application_of, paystub
from tests.support.cli import Cli
from tests.support.downloading import Download, counts_of
from tests.support.limits import no_room_above
from tests.support.served import documents_of, served

pytestmark = pytest.mark.income_service(applications=2)


@pytest.fixture
def download(service_cli: Cli, income_service: IncomeService, tmp_path: Path) -> Download:
    """Downloads into a folder of its own."""
    return Download(service_cli, income_service, tmp_path / "files")


def mode_of(path: Path) -> int:
    """Return who may do what with it."""
    return stat.S_IMODE(path.stat().st_mode)


def test_everything_that_is_made_is_private(download: Download, tmp_path: Path) -> None:
    """Folders and the list are for their owner alone; a folder that was there stays as it was."""
    (tmp_path / "top").mkdir()
    (tmp_path / "top").chmod(0o755)
    download.folder = tmp_path / "top" / "a" / "b"
    download()
    assert mode_of(download.manifest) == 0o600
    assert mode_of(tmp_path / "top" / "a") == mode_of(download.folder) == 0o700
    assert mode_of(tmp_path / "top") == 0o755
    download.manifest.chmod(0o644)
    download()
    assert mode_of(download.manifest) == 0o600


@given(cut=st.integers(0))
def test_a_line_that_was_cut_off_spoils_no_other(cut: int, download: Download) -> None:
    """Cut anywhere, whole lines hold, and what they list is neither printed nor listed again."""
    original = download.folder.with_name("original.jsonl")
    if not original.exists():
        download()
        original.write_bytes(b"".join(download.manifest.read_bytes().splitlines(keepends=True)[:4]))
    content = original.read_bytes()
    entries = [json.loads(line) for line in content.splitlines()]
    kept = content[: cut % (len(content) + 1)]
    download.manifest.write_bytes(kept)
    ran = download()
    assert ran.status == 0
    whole = [str(download.folder / entry["path"]) for entry in entries[: kept.count(b"\n")]]
    assert not set(whole) & set(ran.lines)
    lines = download.manifest.read_bytes().splitlines()
    assert lines[: len(whole)] == content.splitlines()[: len(whole)]
    # What is behind the line that was cut off is whole again.
    assert all(isinstance(json.loads(line), dict) for line in lines[len(whole) + 1 :])
    assert download().stdout == ""


@pytest.mark.parametrize(
    "changes",
    [
        {"size": "17"},
        {"size": True},
        {"file": None},
        {"path": None},
        {"path": ""},
        {"path": "/etc/passwd"},
        {"path": "../manifest.jsonl"},
        {"path": "a\ud800\0"},
        {"application_id": 1},
        {"sha256": ["0"]},
    ],
    ids=str,
)
def test_a_line_that_is_no_entry_is_passed_over(
    changes: dict[str, Any], download: Download
) -> None:
    """A wrong shape, or a path that leads out of the folder, counts for nothing."""
    download()
    one, *others = download.listed
    lines = [json.dumps({**one, **changes}), *map(json.dumps, others)]
    download.manifest.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    ran = download()
    assert (ran.status, ran.stdout) == (0, f"{download.folder / one['path']}\n")
    assert {**download.listed[-1], "time": ""} == {**one, "time": ""}


def test_foreign_lines_are_passed_over(download: Download) -> None:
    """Garbage counts for nothing; an entry with further fields is one."""
    download()
    known = [json.dumps({**entry, "more": [1]}).encode() for entry in download.listed]
    garbage = [b"\xff\xfe", b"[]", b"null", b"[" * 100_000, b"{}", b"", *known, b"{"]
    download.manifest.write_bytes(b"\n".join(garbage))
    ran = download()
    assert (ran.status, ran.stdout) == (0, "")


def test_the_last_line_about_a_file_counts(download: Download) -> None:
    """An older line that says something else about a file does not matter."""
    download()
    older = json.dumps({**download.listed[0], "sha256": "f" * 64})
    download.manifest.write_text(f"{older}\n{download.manifest.read_text('utf-8')}", "utf-8")
    assert download().stdout == ""


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("replace", [_link, _pipe, _folder], ids=["link", "pipe", "folder"])
def test_what_is_no_file_is_not_taken_for_one(
    replace: Callable[[Path], None], download: Download
) -> None:
    """Something else in a file's place is not waited for, and does not count as the file."""
    download()
    replace(download.folder / download.listed[0]["path"])
    assert counts_of(download().stderr)["there"] < len(download.listed)


@pytest.mark.parametrize(
    ("make", "folder"),
    [
        (lambda path: path.symlink_to("target"), "files"),
        (os.mkfifo, "files"),
        (Path.mkdir, "files"),
        (Path.touch, "files/manifest.jsonl"),
        (Path.touch, "files/manifest.jsonl/inner"),
    ],
    ids=["link", "pipe", "folder", "file for a folder", "file above it"],
)
def test_a_list_is_a_file_in_a_folder(
    make: Callable[[Path], None], folder: str, download: Download, income_service: IncomeService
) -> None:
    """Anything else in its place is an error before anything is sent."""
    download.folder.mkdir()
    (download.folder / "target").touch()
    make(download.folder / "manifest.jsonl")
    download.folder = download.folder.parent / folder
    ran = download()
    assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    assert "manifest.jsonl" in ran.stderr
    assert len(income_service.requests) == 0
    assert (download.folder.parent / "files/target").exists() or "/" in folder


@pytest.mark.income_service(applications=8, file_bytes=100)
def test_a_list_without_room_loses_nothing(
    download: Download, income_service: IncomeService
) -> None:
    """A line that could not be written whole is an error; with room again, all files are listed."""
    with no_room_above(2000):
        ran = download()
    assert ran.status == 1
    assert "file too large" in ran.stderr
    printed = set(ran.lines)
    assert download().status == 0
    entries = [json.loads(line) for line in download.manifest.read_text().splitlines()
               if line.endswith("}")]  # fmt: skip
    assert {entry["document_id"] for entry in entries} == set(documents_of(income_service))
    assert printed <= {str(download.folder / entry["path"]) for entry in entries}


@given(
    name=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
    kind=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
)
def test_any_name_is_listed_and_found_again(
    name: str, kind: str, download: Download, income_service: IncomeService
) -> None:
    """Whatever the service calls documents and types, a line holds it and is read again."""
    one = income_service.ids[0]
    income_service.faults.clear()
    address = next(iter(served(income_service, one, "/documents")["documents"].values()))[0]["url"]
    document = {**paystub(1), "document_id": name, "url": address, "extracted_data": {}}
    payloads = application_of({})
    payloads.documents["documents"] = {kind: [document]}
    body = payloads.bodies[1].replace(b'"app-1"', json.dumps(one).encode())
    income_service.faults.add(Fault("body", path="*/documents", body=body, times=None))
    ran = download(one)
    assert ran.status == 0, ran.stderr
    last = download.listed[-1]
    assert (last["document_id"], last["document_type"]) == (name, kind)
    assert (download.folder / last["path"]).resolve().is_relative_to(download.folder)
    assert download(one).stdout == ""
