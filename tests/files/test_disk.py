"""Folders for files, made for their owner alone, and faults of the disk without a path."""

import errno
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from income_client.disk import (
    check_folder,
    is_open_to_others,
    is_ours,
    lock_descriptor,
    make_folder,
    publish_file,
)
from income_client.downloads.temporary_file import disk_fault


def test_missing_folders_are_made_for_their_owner_alone(tmp_path: Path) -> None:
    """All that is missing is made, and a second time is as good."""
    for _ in range(2):
        folder = make_folder(tmp_path / "a" / "b", ("c", "d"))
        assert folder == tmp_path / "a" / "b" / "c" / "d"
    made = list(tmp_path.rglob("*"))
    assert len(made) == 4
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o700}


def test_nothing_is_made_unless_that_is_meant(tmp_path: Path) -> None:
    """To look for a file makes no folder."""
    with pytest.raises(FileNotFoundError):
        check_folder(tmp_path, ("a",))
    with pytest.raises(FileNotFoundError):
        check_folder(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    """It is the caller's to say who may look into it."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(0o755)
    make_folder(tmp_path, ("a",))
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o755


@pytest.mark.parametrize("folder_at", [make_folder, check_folder])
def test_a_link_below_the_folder_is_no_folder(
    tmp_path: Path, folder_at: Callable[..., Path]
) -> None:
    """It is neither followed nor replaced."""
    (tmp_path / "true").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "true")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("link", "dangling"):
        with pytest.raises(OSError, match="a symbolic link is"):
            folder_at(tmp_path, (name,))
    assert not (tmp_path / "nowhere").exists()


def test_a_lock_keeps_others_out(tmp_path: Path) -> None:
    """Shared locks exclude one that is not shared, and none of their own kind."""
    (tmp_path / "a").touch()
    first, second, third = (os.open(tmp_path / "a", os.O_RDWR) for _ in range(3))
    assert lock_descriptor(first, is_shared=True)
    assert lock_descriptor(second, is_shared=True)
    with pytest.raises(BlockingIOError):
        lock_descriptor(third)
    for descriptor in (first, second):
        os.close(descriptor)
    assert lock_descriptor(third)
    os.close(third)


@pytest.mark.parametrize("locks", [True, False], ids=["locks", "no locks"])
def test_a_file_that_is_published_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locks: bool
) -> None:
    """On Windows, which has no such locks, it is renamed, and renaming replaces nothing there."""
    real = Path.rename

    def refusing(path: Path, target: Path) -> Path:
        if target.exists():
            raise FileExistsError
        return real(path, target)

    if not locks:
        monkeypatch.setitem(sys.modules, "fcntl", None)
        monkeypatch.setattr(Path, "rename", refusing)
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    publish_file(tmp_path / "a", tmp_path / "place")
    with pytest.raises(FileExistsError):
        publish_file(tmp_path / "b", tmp_path / "place")
    assert (tmp_path / "place").read_text() == "a"
    assert (tmp_path / "a").exists() is locks


def test_where_files_have_no_owners_all_are_ours_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows gives every file a mode that would let others in, and every owner the number 0."""
    tmp_path.chmod(0o777)
    assert is_open_to_others(tmp_path.stat())
    another = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: another)
    assert not is_ours(tmp_path.stat())
    monkeypatch.delattr(os, "geteuid")
    assert is_ours(tmp_path.stat())
    assert not is_open_to_others(tmp_path.stat())


@pytest.mark.parametrize(
    "number",
    [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO, errno.ENAMETOOLONG],
)
def test_a_fault_has_the_words_of_the_system(number: int) -> None:
    """Its path is left out: names of files can tell of people."""
    fault = disk_fault(OSError(number, os.strerror(number), "/home/S3CRET", None, "/S3CRET"))
    words = os.strerror(number)
    assert str(fault) == f"the file cannot be kept: {words[0].lower()}{words[1:]}"
    assert not fault.retryable
    assert fault.disk_failed is (number not in {errno.EACCES, errno.ENAMETOOLONG})


def test_one_without_words_gets_them() -> None:
    """A number is enough, and so is nothing."""
    assert "cannot be kept" in str(disk_fault(OSError()))
    assert "cannot be kept" in str(disk_fault(OSError("odd")))
