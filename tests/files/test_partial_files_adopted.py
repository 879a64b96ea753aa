"""Parts that others have left: which are taken over, removed, or left alone."""

import fcntl
import os
from pathlib import Path

import pytest

from income_client.downloads import part_file
from income_client.downloads.part_file import adopt, create
from tests.support.parts import MARK, contents, left


def test_a_part_at_work_is_left_alone_within_a_process_too(tmp_path: Path) -> None:
    """Two downloads of one file do not meet in one part."""
    folder = tmp_path
    first = create(folder, "a", MARK)
    first.write(b"first")
    assert adopt(folder, "a") is None
    first.keep()
    second = adopt(folder, "a")
    assert second is not None
    assert adopt(folder, "a") is None
    second.discard()


def test_the_longest_is_adopted_and_the_others_go(tmp_path: Path) -> None:
    """Of several leftovers one is of use; none is left after that."""
    for size in (3, 9, 5, 0):
        left(tmp_path, b"x" * size)
    left(tmp_path, b"y" * 50, mark=None)
    left(tmp_path, b"z", target="b")
    folder = tmp_path
    part = adopt(folder, "a")
    assert part is not None
    assert part.size == 9
    assert len(list(tmp_path.iterdir())) == 2
    part.discard()
    assert contents(tmp_path) == {".part": b"z"}


@pytest.mark.parametrize("boot", [None, "ffffffff"])
def test_what_another_boot_has_left_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boot: str | None
) -> None:
    """After a loss of power its end may be zeros; a day later nobody can be at work on it."""
    part = left(tmp_path, b"content")
    monkeypatch.setattr(part_file, "boot_id", lambda: boot)
    folder = tmp_path
    assert adopt(folder, "a") is None
    assert contents(tmp_path) == {".part": b"content"}
    os.utime(part, (0, 0))
    assert adopt(folder, "a") is None
    assert contents(tmp_path) == {}


def test_what_others_can_write_is_not_believed(tmp_path: Path) -> None:
    """A part with a wider mode or with another name is removed; its other name keeps it."""
    left(tmp_path, b"wide").chmod(0o644)
    os.link(left(tmp_path, b"published"), tmp_path / "a.pdf")
    folder = tmp_path
    assert adopt(folder, "a") is None
    assert contents(tmp_path) == {"a.pdf": b"published"}
    assert (tmp_path / "a.pdf").stat().st_nlink == 1


def test_what_is_no_file_is_left_alone(tmp_path: Path) -> None:
    """A link, a folder and a pipe under a part's name are neither opened nor removed."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    victim.chmod(0o600)
    link, folder_there, pipe = (left(tmp_path, b"x") for _ in range(3))
    for path in (link, folder_there, pipe):
        path.unlink()
    link.symlink_to(victim)
    folder_there.mkdir()
    os.mkfifo(pipe, 0o600)
    folder = tmp_path
    assert adopt(folder, "a") is None
    assert link.is_symlink()
    assert folder_there.is_dir()
    assert pipe.is_fifo()
    assert victim.read_bytes() == b"mine"


def test_what_belongs_to_another_user_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's file is not gone on with, whatever its name says."""
    left(tmp_path, b"theirs")
    another = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: another)
    folder = tmp_path
    assert adopt(folder, "a") is None
    assert contents(tmp_path) == {".part": b"theirs"}


def test_without_locks_nothing_is_adopted_and_all_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody can say who is at work, a part is written, published, and never kept."""
    left(tmp_path, b"x")

    def refuse(*_: object) -> None:
        raise OSError("no locks here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    folder = tmp_path
    assert adopt(folder, "a") is None
    kept = create(folder, "a", MARK)
    kept.write(b"kept")
    kept.keep()
    part = create(folder, "a", MARK)
    part.write(b"content")
    part.publish("a", overwrite=False)
    assert contents(tmp_path) == {".part": b"x", "a": b"content"}


def test_a_new_part_that_is_taken_for_a_dead_one_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its making and its lock, another process may lock and remove it."""
    real = fcntl.flock
    calls: list[int] = []

    def late(descriptor: int, operation: int) -> None:
        if not calls:
            calls.append(descriptor)
            for path in tmp_path.iterdir():
                path.unlink()
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    folder = tmp_path
    part = create(folder, "a", MARK)
    part.write(b"content")
    part.publish("a", overwrite=False)
    assert contents(tmp_path) == {"a": b"content"}
