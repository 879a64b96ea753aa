"""Parts of files: how they are made, written and published, and what is never replaced."""

import errno
import hashlib
import os
import resource
import stat
from pathlib import Path

import pytest

from income_client.downloads.part_file import create
from tests.support.parts import MARK, contents, left


def mode(path: Path) -> int:
    """Return a file's permissions."""
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_a_part_and_its_file_are_private(tmp_path: Path, umask: int) -> None:
    """Whatever the umask says, the owner alone reads them, and can."""
    folder = tmp_path
    before = os.umask(umask)
    try:
        part = create(folder, "a", MARK)
    finally:
        os.umask(before)
    (path,) = tmp_path.iterdir()
    assert mode(path) == 0o600
    part.write(b"content")
    part.publish("a.pdf", overwrite=False)
    assert contents(tmp_path) == {"a.pdf": b"content"}
    assert mode(tmp_path / "a.pdf") == 0o600
    assert (tmp_path / "a.pdf").stat().st_nlink == 1


def test_what_is_written_is_counted_and_hashed(tmp_path: Path) -> None:
    """Size, hash and first bytes are those of what is there."""
    folder = tmp_path
    part = create(folder, "a", MARK)
    part.write(b"%PDF-")
    part.write(b"x" * 100)
    assert part.size == 105
    assert part.sha256 == hashlib.sha256(b"%PDF-" + b"x" * 100).hexdigest()
    assert part.head == b"%PDF-" + b"x" * 59
    assert b"".join(part.blocks(7)) == b"%PDF-" + b"x" * 100
    part.discard()
    part.discard()
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("overwrite", [True, False])
def test_nothing_but_a_file_is_replaced(tmp_path: Path, overwrite: bool) -> None:
    """A folder, a link or a pipe at the target is an error, and stays."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(victim)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    folder = tmp_path
    for name in ("folder", "link", "dangling", "pipe"):
        part = create(folder, name, MARK)
        with pytest.raises(FileExistsError):
            part.publish(name, overwrite=overwrite)
        part.discard()
    assert victim.read_bytes() == b"mine"
    assert len(list(tmp_path.iterdir())) == 5
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "dangling").is_symlink()


def test_a_file_is_replaced_only_if_that_is_meant(tmp_path: Path) -> None:
    """Without a word about it, what is there stays, and the part can be thrown away."""
    (tmp_path / "a").write_bytes(b"old")
    folder = tmp_path
    part = create(folder, "a", MARK)
    part.write(b"new")
    with pytest.raises(FileExistsError):
        part.publish("a", overwrite=False)
    assert (tmp_path / "a").read_bytes() == b"old"
    part.publish("a", overwrite=True)
    assert contents(tmp_path) == {"a": b"new"}
    assert mode(tmp_path / "a") == 0o600


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
    folder = tmp_path
    part = create(folder, "a", MARK)
    part.write(b"new")
    if is_there:
        with pytest.raises(FileExistsError):
            part.publish("a", overwrite=False)
        part.discard()
    else:
        part.publish("a", overwrite=False)
    assert contents(tmp_path) == {"a": b"old" if is_there else b"new"}


def test_a_part_that_was_taken_away_is_not_published(tmp_path: Path) -> None:
    """What has its name by then is somebody else's, and is neither published nor removed."""
    folder = tmp_path
    part = create(folder, "a", MARK)
    (path,) = tmp_path.iterdir()
    path.unlink()
    path.write_bytes(b"not ours")
    with pytest.raises(FileNotFoundError):
        part.publish("a", overwrite=False)
    part.discard()
    assert contents(tmp_path) == {".part": b"not ours"}


def test_a_full_disk_is_an_error(tmp_path: Path) -> None:
    """What does not fit is told, and can be thrown away."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    folder = tmp_path
    part = create(folder, "a", MARK)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            part.write(b"x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    part.discard()
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("mark", [None, 'W/"a"', "", f'"{"x" * 200}"'])
def test_what_nobody_could_go_on_with_is_not_kept(tmp_path: Path, mark: str | None) -> None:
    """Without a strong mark, or without any content, a part is of no use to anyone."""
    folder = tmp_path
    part = create(folder, "a", mark)
    part.write(b"x")
    part.keep()
    create(folder, "a", MARK).keep()
    assert contents(tmp_path) == {}


def test_what_is_kept_stays_private(tmp_path: Path) -> None:
    """A part that waits for the next process is the owner's alone."""
    assert mode(left(tmp_path, b"x")) == 0o600
