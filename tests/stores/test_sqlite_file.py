"""The file of a store: when it is made, who may read it, and what keeps it from being used."""

import errno
import os
import resource
import stat
from pathlib import Path

import pytest

from income_client.checkpoints import SQLiteCheckpointStore, StoredCheckpoint
from income_client.errors import CheckpointConflictError, CheckpointError
from tests.support.store_files import (
    contents,
    filled,
    folder_of_ordinary_user,
    letter,
    names,
    run_in,
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_reading_makes_no_file(tmp_path: Path) -> None:
    """Only the first save of a name makes the file; a mistyped path stays visible."""
    store = SQLiteCheckpointStore(tmp_path / "store.db")
    assert (await store.load("default")).version == 0
    assert await store.dead_letters("default") == ()
    with pytest.raises(CheckpointConflictError):
        await store.save("default", "one", version=3)
    assert contents(tmp_path) == {}


async def test_a_store_is_one_private_file(tmp_path: Path) -> None:
    """Whatever the umask says, nobody else reads it; an operator can, in seconds since 1970."""
    path = tmp_path / "store.db"
    before = os.umask(0)
    try:
        store = SQLiteCheckpointStore(path)
        await store.save("default", "one", version=0, dead_letters=[letter(5, attempts=2)])
    finally:
        os.umask(before)
    assert names(tmp_path) == ["store.db"]
    assert mode(path) == 0o600
    assert path.stat().st_nlink == 1
    assert run_in(path, "PRAGMA journal_mode") == [("delete",)]
    assert run_in(path, "PRAGMA application_id") == [(int.from_bytes(b"incC", "big"),)]
    assert run_in(path, "PRAGMA user_version") == [(1,)]
    query = "SELECT key, after, before, attempts, first_tried_at, last_tried_at FROM dead_letters"
    assert run_in(path, query) == [("application:app-5", 1005, 1006, 2, 1772366405, 1772366407)]


async def test_any_path_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative one is fixed when it is given, and a symbolic link is followed."""
    monkeypatch.chdir(tmp_path)
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "true.db")
    plain = ["with space.db", "ques?tion#5%20.db", "ümlaut.db", "a'b\"c"]
    stores = [SQLiteCheckpointStore(name) for name in [*plain, "link.db"]]
    monkeypatch.chdir("/")
    for store in stores:
        assert await store.save("default", "one", version=0) == 1
    assert link.is_symlink()
    assert sorted(names(tmp_path)) == sorted([*plain, "link.db", "true.db"])


async def test_a_folder_is_no_store(tmp_path: Path) -> None:
    """A path of a folder, of a pipe or through a file is reported, and waited for by nobody."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    for path, reason in (
        (tmp_path, "not a regular file"),
        (tmp_path / "pipe", "not a regular file"),
        (tmp_path / "file" / "store.db", "Not a directory"),
        (tmp_path / "missing" / "store.db", "No such file or directory"),
    ):
        with pytest.raises(CheckpointError, match=reason) as caught:
            await SQLiteCheckpointStore(path).load("default")
        with pytest.raises(CheckpointError, match=reason):
            await SQLiteCheckpointStore(path).save("default", "one", version=0)
        assert (caught.value.__cause__, caught.value.__context__) == (None, None)


@pytest.mark.parametrize(
    ("of_folder", "of_file", "reason"),
    [
        (0o500, None, "Permission denied"),  # there is none yet
        (0o500, 0o600, "readonly database"),
        (0o700, 0o000, "Permission denied"),
    ],
)
async def test_a_store_out_of_reach_is_reported(
    of_folder: int, of_file: int | None, reason: str
) -> None:
    with folder_of_ordinary_user() as folder:
        path = folder / "store.db"
        if of_file is not None:
            await filled(path)
            path.chmod(of_file)
        folder.chmod(of_folder)
        store = SQLiteCheckpointStore(path)
        if of_file is None:
            assert (await store.load("default")).version == 0
        with pytest.raises(CheckpointError, match=reason) as caught:
            await store.save("default", "two", version=int(of_file is not None))
        assert not caught.value.retryable
        assert names(folder) == ["store.db"] * (of_file is not None)


@pytest.mark.parametrize("limit", [0, 4096, 20_000])
async def test_a_full_disk_is_a_passing_fault(tmp_path: Path, limit: int) -> None:
    """A save that finds no room leaves the store as it was, and may be made again."""
    path = tmp_path / "store.db"
    store, new = await filled(path), SQLiteCheckpointStore(tmp_path / "new.db")
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(CheckpointError) as caught:
            await store.save("default", "x" * 50_000, version=1)
        with pytest.raises(CheckpointError) as caught_anew:
            await new.save("default", "x" * 50_000, version=0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert caught.value.retryable
    assert caught_anew.value.retryable
    # Where there was no room for a whole store, there is none.
    assert (tmp_path / "new.db").exists() == (limit == 20_000)
    assert (await SQLiteCheckpointStore(tmp_path / "new.db").load("default")).version == 0
    assert set(names(tmp_path)) <= {"new.db", "store.db"}
    held = StoredCheckpoint(checkpoint="so far and no further", version=1)
    assert await store.load("default") == held
    assert await store.save("default", "x" * 50_000, version=1) == 2
    assert await new.save("default", "x" * 50_000, version=0) == 1
    assert sorted(names(tmp_path)) == ["new.db", "store.db"]


@pytest.mark.parametrize("has_links", [True, False], ids=["links", "no-links"])
async def test_a_store_made_meanwhile_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    """The slower of two processes that make a store finds that of the other."""
    path, other = tmp_path / "store.db", tmp_path / "other.db"
    await SQLiteCheckpointStore(other).save("default", "theirs", version=0)
    link = os.link

    def take_the_place(source: Path, place: Path) -> None:
        other.rename(path)
        if not has_links:  # as a file system that has no second names
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        link(source, place)

    monkeypatch.setattr(os, "link", take_the_place)
    with pytest.raises(CheckpointConflictError):
        await SQLiteCheckpointStore(path).save("default", "ours", version=0)
    assert (await SQLiteCheckpointStore(path).load("default")).checkpoint == "theirs"
    assert names(tmp_path) == ["store.db"]


async def test_a_store_is_whole_when_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has its tables before it can be seen, under another name that nobody else can read."""
    path, link, seen = tmp_path / "store.db", os.link, []

    def look(source: Path, place: Path) -> None:
        assert (mode(source), place) == (0o600, path)
        assert not path.exists()
        seen.extend(run_in(source, "SELECT count(*) FROM checkpoints"))
        link(source, place)

    monkeypatch.setattr(os, "link", look)
    assert await SQLiteCheckpointStore(path).save("default", "one", version=0) == 1
    assert seen == [(0,)]


async def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    """An unfinished store goes once there is a whole one; other files of its folder stay."""
    path = tmp_path / "store.db"
    unfinished, others = tmp_path / ".store.db.0123abcd.new", {"store.db.new", ".a.db.0123abcd.new"}
    for name in others | {unfinished.name}:
        (tmp_path / name).touch()
    await SQLiteCheckpointStore(path).save("default", "one", version=0)
    assert {*names(tmp_path)} == others | {path.name}
    # Killed just after the store had its name: it has both then.
    unfinished.hardlink_to(path)
    assert (await SQLiteCheckpointStore(path).load("default")).version == 1
    assert {*names(tmp_path)} == others | {path.name}
