"""The list of a folder's files: what its lines say, and what spoils none of them."""

import hashlib
import json
import os
import stat
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from attrs import asdict, evolve
from hypothesis import given
from hypothesis import strategies as st

from income_client.cli.downloads.manifest import MANIFEST, Manifest, ManifestEntry, noted_at

_CONTENT: Final = b"%PDF-1.7 invented"
_ENTRY: Final = ManifestEntry(
    application_id="app-1",
    document_type="paystub",
    document_id="doc-1",
    file=0,
    path="app-1/paystub/doc-1-0.pdf",
    size=len(_CONTENT),
    sha256=hashlib.sha256(_CONTENT).hexdigest(),
    content_type="application/pdf",
    time="2026-06-30T12:00:00Z",
)
_IDS: Final = st.text(min_size=1, max_size=20)


def entries(count: int) -> list[ManifestEntry]:
    """Return entries of different files."""
    return [evolve(_ENTRY, document_id=f"doc-{one}", path=f"doc-{one}") for one in range(count)]


def placed(folder: Path) -> Path:
    """Put the file of the entry where it says."""
    path = folder / _ENTRY.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_CONTENT)
    return path


def test_a_line_is_an_entry(tmp_path: Path) -> None:
    """A line is plain JSON with the fields of an entry, in a file that is its owner's alone."""
    with Manifest(tmp_path / "new" / "folder") as manifest:
        manifest.add(_ENTRY)
    path = tmp_path / "new" / "folder" / MANIFEST
    assert [json.loads(line) for line in path.read_text("ascii").splitlines()] == [asdict(_ENTRY)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_every_folder_that_it_makes_is_private(tmp_path: Path) -> None:
    """All that is made on the way is its owner's alone; what was there stays as open as it was."""
    top = tmp_path / "top"
    top.mkdir()
    top.chmod(0o755)
    made = [top / "a", top / "a" / "b", top / "a" / "b" / "c"]
    for _ in range(2):
        with Manifest(made[-1]):
            assert [stat.S_IMODE(one.stat().st_mode) for one in made] == [0o700] * 3
        assert stat.S_IMODE(top.stat().st_mode) == 0o755


def test_the_last_line_about_a_file_holds(tmp_path: Path) -> None:
    """What was noted later is what is found, in this run and in the next."""
    later = evolve(_ENTRY, sha256="f" * 64)
    with Manifest(tmp_path) as manifest:
        assert manifest.find(_ENTRY.key) is None
        for entry in (_ENTRY, later):
            manifest.add(entry)
            assert manifest.find(_ENTRY.key) == entry
    with Manifest(tmp_path) as manifest:
        assert manifest.find(_ENTRY.key) == later


@given(application_id=_IDS, document_id=_IDS, document_type=st.none() | _IDS, size=st.integers(0))
def test_any_entry_comes_back(
    application_id: str, document_id: str, document_type: str | None, size: int
) -> None:
    """Whatever the service calls things, a line holds it and is read again."""
    entry = evolve(
        _ENTRY,
        application_id=application_id,
        document_id=document_id,
        document_type=document_type,
        size=size,
    )
    with TemporaryDirectory() as folder:
        with Manifest(Path(folder)) as manifest:
            manifest.add(entry)
        with Manifest(Path(folder)) as manifest:
            assert manifest.find(entry.key) == entry


@given(cut=st.integers(0))
def test_a_line_that_was_cut_off_spoils_no_other(cut: int) -> None:
    """Cut anywhere, the whole lines before are read, and so are those that come after."""
    first, second, third, last = entries(4)
    with TemporaryDirectory() as folder:
        path = Path(folder, MANIFEST)
        with Manifest(Path(folder)) as manifest:
            for entry in (first, second, third):
                manifest.add(entry)
        content = path.read_bytes()
        kept = content[: cut % (len(content) + 1)]
        path.write_bytes(kept)
        with Manifest(Path(folder)) as manifest:
            manifest.add(last)
        with Manifest(Path(folder)) as manifest:
            read = [manifest.find(one.key) for one in (first, second, third)]
            assert manifest.find(last.key) == last
    whole = kept.count(b"\n")
    assert read[:whole] == [first, second, third][:whole]
    # A line without its end may be whole.
    assert read[whole + 1 :] == [None] * len(read[whole + 1 :])


def test_a_write_that_failed_spoils_no_other(tmp_path: Path) -> None:
    """After a full disk the next line begins for itself."""
    first, second = entries(2)
    with Manifest(tmp_path) as manifest:
        kept = os.dup(manifest._descriptor)
        with open("/dev/full", "wb", buffering=0) as full:  # noqa: PTH123 - no path of anything
            os.dup2(full.fileno(), manifest._descriptor)
        with pytest.raises(OSError, match="No space left"):
            manifest.add(first)
        assert manifest.find(first.key) is None
        os.dup2(kept, manifest._descriptor)
        os.write(kept, b'{"application_id":')
        os.close(kept)
        manifest.add(second)
    with Manifest(tmp_path) as manifest:
        assert manifest.find(first.key) is None
        assert manifest.find(second.key) == second


@pytest.mark.parametrize(
    "changes",
    [
        {"size": "17"},
        {"size": True},
        {"file": None},
        {"path": None},
        {"path": ""},
        {"path": "/etc/passwd"},
        {"path": "app-1/../../secret"},
        {"application_id": 1},
        {"sha256": ["0"]},
    ],
)
def test_what_is_no_entry_is_passed_over(tmp_path: Path, changes: dict[str, Any]) -> None:
    """A line of a wrong shape, or with a path that leads out of the folder, counts for nothing."""
    (tmp_path / MANIFEST).write_text(json.dumps({**asdict(_ENTRY), **changes}) + "\n", "utf-8")
    with Manifest(tmp_path) as manifest:
        assert manifest._entries == {}


def test_foreign_lines_are_passed_over(tmp_path: Path) -> None:
    """Garbage counts for nothing; an entry with further fields is one."""
    known = json.dumps({**asdict(_ENTRY), "more": [1]}).encode()
    lines = [b"\xff\xfe", b"[]", b"null", b"[" * 100_000, b"{}", b"", known, b"{"]
    (tmp_path / MANIFEST).write_bytes(b"\n".join(lines))
    with Manifest(tmp_path) as manifest:
        assert list(manifest._entries.values()) == [_ENTRY]


def test_only_the_very_content_is_there(tmp_path: Path) -> None:
    """A listed file is there as long as its size and its SHA-256 are those of the line."""
    path = placed(tmp_path)
    with Manifest(tmp_path) as manifest:
        assert not manifest.is_there(_ENTRY.key)
        manifest.add(_ENTRY)
        assert manifest.is_there(_ENTRY.key)
        for content in (_CONTENT + b"!", _CONTENT[:-1], _CONTENT.swapcase()):
            path.write_bytes(content)
            assert not manifest.is_there(_ENTRY.key)
        path.write_bytes(_CONTENT)
        assert manifest.is_there(_ENTRY.key)


def test_what_is_no_file_is_not_there(tmp_path: Path) -> None:
    """A link, a pipe, a folder or nothing in its place is no file, and is not waited for."""
    path = placed(tmp_path)
    with Manifest(tmp_path) as manifest:
        manifest.add(_ENTRY)
        path.rename(tmp_path / "elsewhere")
        assert not manifest.is_there(_ENTRY.key)
        path.symlink_to(tmp_path / "elsewhere")
        assert not manifest.is_there(_ENTRY.key)
        path.unlink()
        os.mkfifo(path)
        assert not manifest.is_there(_ENTRY.key)
        path.unlink()
        path.mkdir()
        assert not manifest.is_there(_ENTRY.key)
        odd = evolve(_ENTRY, path="a\ud800\0")
        manifest.add(odd)
        assert not manifest.is_there(odd.key)


def test_an_open_list_is_narrowed(tmp_path: Path) -> None:
    """A list that others could read is its owner's alone from then on."""
    path = tmp_path / MANIFEST
    path.touch()
    path.chmod(0o644)
    with Manifest(tmp_path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_it_is_a_file_in_a_folder(tmp_path: Path) -> None:
    """A link, a pipe or a folder in its place is refused, and so is a file in the folder's."""
    target = tmp_path / "target"
    target.touch()
    path = tmp_path / MANIFEST
    path.symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"):
        Manifest(tmp_path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(OSError, match="no regular file"):
        Manifest(tmp_path)
    path.unlink()
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        Manifest(tmp_path)
    with pytest.raises(FileExistsError):
        Manifest(target)
    with pytest.raises(NotADirectoryError):
        Manifest(target / "folder" / "inner")


def test_times_are_utc() -> None:
    """A time is noted in UTC and whole seconds, wherever it was taken."""
    moment = datetime(2026, 6, 30, 12, 0, 5, 999, tzinfo=UTC)
    east = moment.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert noted_at(moment) == noted_at(east) == "2026-06-30T12:00:05Z"
