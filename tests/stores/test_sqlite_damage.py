"""A file that is not a store of this package is reported, and neither replaced nor changed."""

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from income_client.checkpoints import SQLiteCheckpointStore, StoredCheckpoint
from income_client.errors import CheckpointError
from tests.support.store_files import contents, filled, letter, names, run_in

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
    """Its digests are not looked at, and it leaves the WAL mode that those versions used.

    A ring is counted in a table of its own, and changes nothing that they look at; before there
    is a file, it makes none.
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
