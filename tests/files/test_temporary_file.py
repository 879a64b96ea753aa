"""Temporary files: how they are made, written and published, and when they are removed."""

import errno
import fcntl
import hashlib
import os
from pathlib import Path

import pytest

from income_client.downloads.temporary_file import TemporaryFile, remove_abandoned
from tests.support.temporary_files import NAMES_OF_EARLIER_VERSIONS, contents, left


def tidy(folder: Path) -> None:
    """Remove what killed processes have left in a folder."""
    remove_abandoned(folder, os.listdir(folder))  # noqa: PTH208 - names, as a look gives them


def test_what_is_written_is_counted_and_hashed(tmp_path: Path) -> None:
    """Size, hash and first bytes are those of what is there."""
    file = TemporaryFile.create(tmp_path)
    file.write(b"%PDF-")
    file.write(b"x" * 100)
    assert file.size == 105
    assert file.sha256 == hashlib.sha256(b"%PDF-" + b"x" * 100).hexdigest()
    assert file.head == b"%PDF-" + b"x" * 59
    assert b"".join(file.blocks(7)) == b"%PDF-" + b"x" * 100
    file.discard()
    file.discard()
    assert contents(tmp_path) == {}


def test_what_was_cleared_is_as_new(tmp_path: Path) -> None:
    """Nothing of what was written before is counted, hashed or published."""
    file = TemporaryFile.create(tmp_path)
    file.write(b"before" * 100)
    file.clear()
    file.write(b"after")
    assert (file.size, file.head) == (5, b"after")
    assert file.sha256 == hashlib.sha256(b"after").hexdigest()
    file.publish(tmp_path / "a", overwrite=False)
    assert contents(tmp_path) == {"a": b"after"}


@pytest.mark.parametrize("is_there", [True, False])
def test_without_links_a_file_is_published_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """File systems without links get a rename, after a check that the place is free."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    if is_there:
        (tmp_path / "a").write_bytes(b"old")
    file = TemporaryFile.create(tmp_path)
    file.write(b"new")
    if is_there:
        with pytest.raises(FileExistsError):
            file.publish(tmp_path / "a", overwrite=False)
        file.discard()
    else:
        file.publish(tmp_path / "a", overwrite=False)
    assert contents(tmp_path) == {"a": b"old" if is_there else b"new"}


def test_one_that_is_written_to_is_left_alone_within_a_process_too(tmp_path: Path) -> None:
    """Only once nobody has it open is it removed, whether anything was written or not."""
    first, second = TemporaryFile.create(tmp_path), TemporaryFile.create(tmp_path)
    first.write(b"first")
    tidy(tmp_path)
    assert len(os.listdir(tmp_path)) == 2  # noqa: PTH208 - how many is enough
    for file in (first, second):
        file._file.close()
    tidy(tmp_path)
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("name", [None, *NAMES_OF_EARLIER_VERSIONS])
def test_what_a_killed_process_left_is_removed(tmp_path: Path, name: str | None) -> None:
    """That of earlier versions too."""
    left(tmp_path, b"left", name)
    assert len(contents(tmp_path)) == 1
    tidy(tmp_path)
    assert contents(tmp_path) == {}


@pytest.mark.parametrize(
    "name",
    [
        "a.part",
        ".a.part",
        "ca978112ca1bbdca.income-client.part",
        ".ca978112ca1bbdca.part",
        ".ca978112ca1bbdcA.income-client.part",
        ".ca978112ca1bbdca.income-client.part.pdf",
        ".ca978112ca1bbdca.income-client.partial",
        ".income-client.part",
        os.fsdecode(b".\xff978112ca1bbdca.income-client.part"),
    ],
)
def test_a_file_with_another_name_is_left_alone(tmp_path: Path, name: str) -> None:
    """It is somebody else's, whatever it looks like."""
    left(tmp_path, b"mine", name)
    tidy(tmp_path)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"mine"]


def test_a_name_that_is_no_text_is_removed_like_any_other(tmp_path: Path) -> None:
    """Bytes that are not UTF-8, line breaks and other control characters stop nothing."""
    for name in (b".ca978112ca1bbdca.\xff.part", b".ca978112ca1bbdca.\n\x1b.part"):
        left(tmp_path, b"left", os.fsdecode(name))
    tidy(tmp_path)
    assert contents(tmp_path) == {}


def test_what_was_published_loses_its_other_name(tmp_path: Path) -> None:
    """A process that is killed between the two steps of publishing leaves both."""
    os.link(left(tmp_path, b"published"), tmp_path / "a.pdf")
    tidy(tmp_path)
    assert contents(tmp_path) == {"a.pdf": b"published"}
    assert (tmp_path / "a.pdf").stat().st_nlink == 1


def test_what_is_not_a_regular_file_is_left_alone(tmp_path: Path) -> None:
    """A link, a folder and a pipe under such a name are neither followed nor removed."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    victim.chmod(0o600)
    link, folder_there, pipe = (left(tmp_path, b"x") for _ in range(3))
    for path in (link, folder_there, pipe):
        path.unlink()
    link.symlink_to(victim)
    folder_there.mkdir()
    os.mkfifo(pipe, 0o600)
    tidy(tmp_path)
    assert link.is_symlink()
    assert folder_there.is_dir()
    assert pipe.is_fifo()
    assert victim.read_bytes() == b"mine"


def test_what_belongs_to_another_user_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's file is not removed, whatever it is called."""
    left(tmp_path, b"theirs")
    another = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: another)
    tidy(tmp_path)
    assert contents(tmp_path) == {".part": b"theirs"}


def test_without_locks_nothing_is_removed_and_all_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody can say who is at work, a file is written and published all the same."""
    left(tmp_path, b"x")

    def refuse(*_: object) -> None:
        raise OSError("no locks here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    tidy(tmp_path)
    file = TemporaryFile.create(tmp_path)
    file.write(b"content")
    file.publish(tmp_path / "a", overwrite=False)
    assert contents(tmp_path) == {".part": b"x", "a": b"content"}


@pytest.mark.parametrize("moment", ["before its lock", "locked by the other"])
def test_a_new_one_that_is_taken_for_abandoned_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Between its making and its lock, another process may lock and remove it."""
    real = fcntl.flock
    calls: list[int] = []

    def late(descriptor: int, operation: int) -> None:
        calls.append(descriptor)
        if len(calls) == 1:
            if moment == "locked by the other":
                raise BlockingIOError
            for path in tmp_path.iterdir():
                path.unlink()
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    file = TemporaryFile.create(tmp_path)
    file.write(b"content")
    file.publish(tmp_path / "a", overwrite=False)
    assert contents(tmp_path) == {"a": b"content"}
    assert len(calls) == 2


def test_one_that_is_taken_each_time_is_an_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something else is wrong there, and an endless loop would not mend it."""

    def refuse(*_: object) -> None:
        raise BlockingIOError

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match="busy"):
        TemporaryFile.create(tmp_path)
    assert contents(tmp_path) == {}
