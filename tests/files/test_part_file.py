"""Parts of files: how they are made, written and published, and which are taken up again."""

import errno
import fcntl
import hashlib
import os
from pathlib import Path

import pytest

from income_client.downloads import part_file
from income_client.downloads.part_file import PartFile, adopt, create, parts_of, version_of
from tests.support.parts import VERSION, contents, left


def adopt_in(folder: Path) -> PartFile | None:
    """Take over what was left of the target ``a``."""
    return adopt(folder, parts_of("a", [path.name for path in folder.iterdir()]))


def test_what_is_written_is_counted_and_hashed(tmp_path: Path) -> None:
    """Size, hash and first bytes are those of what is there."""
    part = create(tmp_path, "a", VERSION)
    part.write(b"%PDF-")
    part.write(b"x" * 100)
    assert part.size == 105
    assert part.sha256 == hashlib.sha256(b"%PDF-" + b"x" * 100).hexdigest()
    assert part.head == b"%PDF-" + b"x" * 59
    assert b"".join(part.blocks(7)) == b"%PDF-" + b"x" * 100
    part.discard()
    part.discard()
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("is_there", [True, False])
def test_without_links_a_file_is_published_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """File systems that know no links get a rename, behind a look."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    if is_there:
        (tmp_path / "a").write_bytes(b"old")
    part = create(tmp_path, "a", VERSION)
    part.write(b"new")
    if is_there:
        with pytest.raises(FileExistsError):
            part.publish(tmp_path / "a", overwrite=False)
        part.discard()
    else:
        part.publish(tmp_path / "a", overwrite=False)
    assert contents(tmp_path) == {"a": b"old" if is_there else b"new"}


@pytest.mark.parametrize("version", [None, VERSION])
def test_what_nobody_could_continue_is_not_kept(tmp_path: Path, version: str | None) -> None:
    """Without a version, or without any content, a part is of no use to another process."""
    part = create(tmp_path, "a", version)
    part.write(b"" if version else b"x")
    part.keep()
    assert contents(tmp_path) == {}


def test_a_part_at_work_is_left_alone_within_a_process_too(tmp_path: Path) -> None:
    """Two downloads of one file do not meet in one part."""
    first = create(tmp_path, "a", VERSION)
    first.write(b"first")
    assert adopt_in(tmp_path) is None
    first.keep()
    second = adopt_in(tmp_path)
    assert second is not None
    assert adopt_in(tmp_path) is None
    second.discard()


def test_the_longest_is_adopted_and_the_others_go(tmp_path: Path) -> None:
    """Of several leftovers one is of use; none is left after that."""
    for size in (3, 9, 5, 0):
        left(tmp_path, b"x" * size)
    left(tmp_path, b"y" * 50, version=None)
    left(tmp_path, b"z", target="b")
    part = adopt_in(tmp_path)
    assert part is not None
    assert part.size == 9
    assert len(list(tmp_path.iterdir())) == 2
    part.discard()
    assert contents(tmp_path) == {".part": b"z"}


def test_what_another_boot_has_left_is_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a loss of power its end may be zeros; where boots are not told apart, none is known."""
    version = version_of("subject", 5, '"etag"')
    assert version == version_of("subject", 5, '"etag"')
    monkeypatch.setattr(part_file, "_boot_id", lambda: "another")
    assert version_of("subject", 5, '"etag"') not in (version, None)
    monkeypatch.setattr(part_file, "_boot_id", lambda: None)
    assert version_of("subject", 5, '"etag"') is None


@pytest.mark.parametrize(("total", "etag"), [(None, '"a"'), (5, None)])
def test_what_cannot_be_told_from_others_has_no_version(
    total: int | None, etag: str | None
) -> None:
    """Without a length or a strong tag, bytes of two versions could be joined."""
    assert version_of("subject", total, etag) is None


def test_what_was_published_loses_its_other_name(tmp_path: Path) -> None:
    """A process that is killed between the two steps of publishing leaves both."""
    os.link(left(tmp_path, b"published"), tmp_path / "a.pdf")
    assert adopt_in(tmp_path) is None
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
    assert adopt_in(tmp_path) is None
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
    assert adopt_in(tmp_path) is None
    assert contents(tmp_path) == {".part": b"theirs"}


def test_without_locks_nothing_is_adopted_and_all_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody can say who is at work, a part is written, published, and never kept."""
    left(tmp_path, b"x")

    def refuse(*_: object) -> None:
        raise OSError("no locks here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert adopt_in(tmp_path) is None
    kept = create(tmp_path, "a", VERSION)
    kept.write(b"kept")
    kept.keep()
    part = create(tmp_path, "a", VERSION)
    part.write(b"content")
    part.publish(tmp_path / "a", overwrite=False)
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
    part = create(tmp_path, "a", VERSION)
    part.write(b"content")
    part.publish(tmp_path / "a", overwrite=False)
    assert contents(tmp_path) == {"a": b"content"}


@pytest.mark.parametrize("version", ["-", "IjAxMjMuNDU2LmFiYyI=", "x" * 136])
def test_a_part_of_version_0_1_is_found_and_of_another_version(
    tmp_path: Path, version: str
) -> None:
    """Its name has a longer text in place of the version, which is that of no file."""
    made = left(tmp_path, b"old")
    made.rename(tmp_path / made.name.replace(VERSION, f"{version}.0a0b0c0d"))
    part = adopt_in(tmp_path)
    assert part is None or part.version == version
    assert (part is None) == (version == "-")
    if part is not None:
        part.discard()
    assert contents(tmp_path) == {}
