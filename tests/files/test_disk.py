"""Folders for files, made for their owner alone, faults of the disk, and files without POSIX."""

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from income_client import DownloadError
from income_client.disk import (
    check_folder,
    is_open_to_others,
    is_ours,
    lock_descriptor,
    make_folder,
    publish_file,
)
from income_client.downloads import temporary_file
from income_client.downloads.temporary_file import disk_fault
from tests.support.downloads import files_below, mode_of
from tests.support.folders import left
from tests.support.storage import storing


def test_missing_folders_are_made_for_their_owner_alone(tmp_path: Path) -> None:
    """All that is missing, once; to look makes none, and what was there keeps its mode."""
    for missing in ((tmp_path, ("a",)), (tmp_path / "a",)):
        with pytest.raises(FileNotFoundError):
            check_folder(*missing)
    assert list(tmp_path.iterdir()) == []
    for _ in range(2):
        folder = make_folder(tmp_path / "a" / "b", ("c", "d"))
        assert folder == tmp_path / "a" / "b" / "c" / "d"
    made = list(tmp_path.rglob("*"))
    assert len(made) == 4
    assert {mode_of(path) for path in made} == {0o700}
    made[0].chmod(0o755)
    make_folder(tmp_path, (made[0].name,))
    assert mode_of(made[0]) == 0o755


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


OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
OTHERS = (
    errno.EACCES, errno.ENAMETOOLONG, errno.EMFILE, errno.EINTR, errno.EPERM, errno.ESTALE,
)  # fmt: skip


def test_a_fault_has_the_words_of_the_system() -> None:
    """Its path is left out: names of files can tell of people."""
    for number in (*OF_THE_DISK, *OTHERS):
        words = os.strerror(number)
        fault = disk_fault(OSError(number, words, "/home/S3CRET", None, "/S3CRET"))
        assert str(fault) == f"the file cannot be kept: {words[0].lower()}{words[1:]}"
        assert not fault.retryable
        assert fault.disk_failed is (number in OF_THE_DISK)
    for bare in (OSError(), OSError("odd")):
        assert "cannot be kept" in str(disk_fault(bare))


MISSING = ("fchmod", "geteuid", "posix_fadvise", "pread", "writev")


@pytest.mark.parametrize("size", [10, 3_000_000], ids=["short", "long"])
async def test_files_come_without_locks_owners_and_modes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """A file is put at its place, refused where another one is, or replaces that."""
    other = left(tmp_path, b"of a process that may be at work")
    monkeypatch.setattr(temporary_file, "_AHEAD", 2**20)
    for name in MISSING:
        monkeypatch.delattr(os, name)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    async with storing() as (storage, client):
        document = storage.store("/a", bytes(size))
        await client.download(document, tmp_path / "new")
        (tmp_path / "old").write_bytes(b"another")
        with pytest.raises(DownloadError, match="another file"):
            await client.download(document, tmp_path / "old")
        assert other.exists()
        other.unlink()
        assert files_below(tmp_path) == {"new": bytes(size), "old": b"another"}
        await client.download(document, tmp_path / "old", overwrite=True)
        with (tmp_path / "stream").open("wb") as stream:
            await client.download(document, stream)
    assert files_below(tmp_path) == dict.fromkeys(("new", "old", "stream"), bytes(size))
