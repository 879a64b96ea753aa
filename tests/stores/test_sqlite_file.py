"""The file of a store: when it is made, who may read it, and what keeps it from being used."""

import errno
import os
import resource
import sqlite3
import stat
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from income_client.checkpoints import SQLiteCheckpointStore, StoredCheckpoint
from income_client.errors import CheckpointConflictError, CheckpointError
from tests.support.disk import (
    NOBODY,
    contents,
    filled,
    folder_of_ordinary_user,
    letter,
    names,
    owned_by_another_user,
    run_in,
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_reading_makes_no_file(tmp_path: Path) -> None:
    """Only the first save of a name makes the file; a mistyped path stays visible."""
    store = SQLiteCheckpointStore(tmp_path / "store.db")
    assert (await store.load("default")).version == 0
    assert await store.dead_letters("default") == ()
    assert await store.count_rings("default") == 0
    with pytest.raises(CheckpointConflictError):
        await store.save("default", "one", version=3)
    assert contents(tmp_path) == {}


async def test_a_store_is_one_private_file(tmp_path: Path) -> None:
    """Only the owner can read the file under any umask; its times are seconds since 1970."""
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
    ("what", "said"),
    [
        ("store.db", f"store.db belongs to user {NOBODY}: run this as that user, or chown"),
        (
            "store.db-journal",
            f"store.db-journal belongs to user {NOBODY}: run this as that user, or chown",
        ),
        ("link.db", f"link.db belongs to user {NOBODY}: run this as that user, or chown"),
        ("", "its folder belongs to another user: choose another folder, or chown"),
    ],
)
async def test_what_another_user_owns_is_no_store(what: str, said: str, tmp_path: Path) -> None:
    """The owner could plant a checkpoint of the present, and earlier updates would be lost."""
    path, link = tmp_path / "store.db", tmp_path / "link.db"
    await filled(path)
    link.symlink_to(path)
    (tmp_path / "store.db-journal").touch()
    with owned_by_another_user(tmp_path / what):
        for call in (SQLiteCheckpointStore(link).load("default"), filled(link)):
            with pytest.raises(CheckpointError, match=said) as caught:
                await call
            assert not caught.value.retryable


async def test_a_folder_of_another_user_gets_no_store(tmp_path: Path) -> None:
    store = SQLiteCheckpointStore(tmp_path / "store.db")
    said = "its folder belongs to another user"
    with owned_by_another_user(tmp_path), pytest.raises(CheckpointError, match=said):
        await store.save("default", "one", version=0)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("permissions", "group", "is_refused"),
    [(0o602, None, True), (0o666, None, True), (0o660, None, False), (0o620, 54_321, True)],
)
async def test_a_store_that_other_users_can_write_is_refused(
    permissions: int, group: int | None, is_refused: bool, tmp_path: Path
) -> None:
    """A group of this user may write it: volumes of containers are given to a group."""
    path = tmp_path / "a store.db"
    await filled(path)
    path.chmod(permissions)
    store = SQLiteCheckpointStore(path)
    with pytest.MonkeyPatch.context() as patch:
        if group is not None:
            patch.setattr(os, "getegid", lambda: group)
            patch.setattr(os, "getgroups", lambda: [group])
        if not is_refused:
            assert (await store.load("default")).version > 0
            return
        with pytest.raises(CheckpointError, match="can be written by other users: chmod") as caught:
            await store.load("default")
    assert f"chmod go-w '{path}'" in caught.value.message


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
    """The file gets its tables under a name that nobody else can read, and is then renamed."""
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


# What has happened to it

CALLS: Sequence[Callable[[SQLiteCheckpointStore], Awaitable[Any]]] = (
    lambda store: store.load("default"),
    lambda store: store.save("default", "another", version=1),
    lambda store: store.save("default", "another", version=0),
    lambda store: store.dead_letters("default"),
)


def overwritten(text: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(text + path.read_bytes()[len(text) :])


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:6144])


def changed(*statements: str, anew: bool = False) -> Callable[[Path], None]:
    """Return what changes a database by SQL, or puts another one in its place."""

    def change(path: Path) -> None:
        if anew:
            path.unlink()
        run_in(path, *statements)
        assert path.stat().st_size > 0

    return change


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a text file": (overwritten(b"x" * 99_000), "file is not a database"),
    "zeros": (overwritten(bytes(99_000)), "file is not a database|another program"),
    "half a file": (half, "malformed"),
    "missing tables": (
        changed("DROP TABLE dead_letters", "DROP TABLE checkpoints"),
        "no such table: .* restore it from a backup",
    ),
    "no bytes": (
        lambda path: path.write_bytes(b""),
        "is empty.* restore it from a backup, or remove it to begin anew",
    ),
    "a database without tables": (
        changed("PRAGMA user_version = 0", anew=True),
        "is empty.* or remove it to begin anew",
    ),
    "bytes that are not UTF-8": (
        changed(
            "UPDATE checkpoints SET checkpoint = CAST(x'63346eff' AS TEXT)",
            "UPDATE dead_letters SET reason = CAST(x'63346eff' AS TEXT)",
        ),
        "cannot be read",
    ),
    "another program": (
        changed("CREATE TABLE checkpoints (name, checkpoint, version, digest)", anew=True),
        "another program",
    ),
    "another application id": (changed("PRAGMA application_id = 7"), "another program"),
    "a newer version": (changed("PRAGMA user_version = 2"), "newer version of this package"),
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_damage_is_reported_and_left_alone(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "store.db"
    await filled(path)
    do, reason = DAMAGES[damage]
    do(path)
    path.chmod(0o644)
    before = contents(tmp_path)
    for call in CALLS:
        with pytest.raises(CheckpointError, match=reason) as caught:
            await call(SQLiteCheckpointStore(path))
        assert type(caught.value) is CheckpointError
        assert not caught.value.retryable
        assert str(path) in str(caught.value)
        assert "c4n" not in str(caught.value)
        assert (caught.value.__cause__, caught.value.__context__) == (None, None)
        assert contents(tmp_path) == before


@pytest.mark.parametrize("way", ["gone", "emptied"])
async def test_a_store_that_goes_is_missed(tmp_path: Path, way: str) -> None:
    path = tmp_path / "store.db"
    store = await filled(path)
    path.unlink()
    if way == "emptied":
        path.touch()
    for call in CALLS:
        with pytest.raises(CheckpointError, match=f"{way} since"):
            await call(store)
        assert path.exists() == (way == "emptied")


@pytest.mark.parametrize("beside", ["-journal", "-wal"])
async def test_a_store_of_which_a_journal_is_left_is_missed(tmp_path: Path, beside: str) -> None:
    """A journal without its store is no new beginning, and is not written into a new store."""
    (tmp_path / f"store.db{beside}").write_bytes(b"what was there before")
    before = contents(tmp_path)
    for call in CALLS:
        with pytest.raises(CheckpointError, match=f"'store.db{beside}' is left of it") as caught:
            await call(SQLiteCheckpointStore(tmp_path / "store.db"))
        assert not caught.value.retryable
        assert contents(tmp_path) == before


EARLIER = """
PRAGMA journal_mode = WAL;
CREATE TABLE checkpoints (
    name TEXT NOT NULL, checkpoint TEXT NOT NULL, version INTEGER NOT NULL,
    digest TEXT NOT NULL, PRIMARY KEY (name)
) WITHOUT ROWID;
CREATE TABLE dead_letters (
    name TEXT NOT NULL, key TEXT NOT NULL, application_id TEXT, after INTEGER NOT NULL,
    before INTEGER NOT NULL, reason TEXT NOT NULL, attempts INTEGER NOT NULL,
    first_tried_at INTEGER NOT NULL, last_tried_at INTEGER NOT NULL, digest TEXT NOT NULL,
    PRIMARY KEY (name, key)
) WITHOUT ROWID;
PRAGMA application_id = 1768842051;
PRAGMA user_version = 1;
INSERT INTO checkpoints VALUES ('default', 'so far', 4, 'a digest');
INSERT INTO dead_letters VALUES (
    'default', 'application:app-5', 'app-5', 1005, 1006, 'the service has no such application',
    1, 1772366405, 1772366406, 'a digest'
);
"""


async def test_a_file_of_an_earlier_version_is_read_and_written(tmp_path: Path) -> None:
    """Digests of that version are ignored, and the file leaves the WAL mode.

    A ring is counted in a table of its own and changes no other table; while there is no file, a
    ring makes none.
    """
    path = tmp_path / "store.db"
    store = SQLiteCheckpointStore(path)
    await store.ring("default")
    assert names(tmp_path) == []
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(EARLIER)
    tables = ("checkpoints", "dead_letters", "sqlite_master WHERE name != 'bells'")
    looks = [*(f"SELECT * FROM {table}" for table in tables), "PRAGMA user_version"]
    before = [run_in(path, look) for look in looks]
    for _ in range(3):
        await store.ring("default")
    assert run_in(path, "SELECT * FROM bells") == [("default", 3)]
    assert [run_in(path, look) for look in looks] == before
    store = SQLiteCheckpointStore(path)
    assert await store.load("default") == StoredCheckpoint(checkpoint="so far", version=4)
    assert await store.dead_letters("default") == (letter(5),)
    assert await store.save("default", "further", version=4, resolved=[letter(5).key]) == 5
    assert await store.load("default") == StoredCheckpoint(checkpoint="further", version=5)
    assert await store.dead_letters("default") == ()
    assert run_in(path, "PRAGMA journal_mode") == [("delete",)]
    assert names(tmp_path) == ["store.db"]
