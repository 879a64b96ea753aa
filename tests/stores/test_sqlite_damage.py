"""A file that is no whole store of ours is reported, and never begun anew or touched."""

import os
import random
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from income_client.checkpoints import SQLiteCheckpointStore
from income_client.errors import CheckpointConflictError, CheckpointError
from tests.support.store_files import contents, filled, run_in

Call = Callable[[SQLiteCheckpointStore], Awaitable[Any]]
CALLS: dict[str, Call] = {
    "load": lambda store: store.load("default"),
    "save": lambda store: store.save("default", "c4n4ry", version=1),
    "first save": lambda store: store.save("default", "c4n4ry", version=0),
    "dead letters": lambda store: store.dead_letters("default"),
}


def overwritten(position: int, text: bytes) -> Callable[[Path], None]:
    """Return what puts other bytes at a position."""

    def overwrite(path: Path) -> None:
        data = path.read_bytes()
        path.write_bytes(data[:position] + text + data[position + len(text) :])

    return overwrite


def replaced(old: bytes, new: bytes) -> Callable[[Path], None]:
    """Return what changes letters within a row."""

    def replace(path: Path) -> None:
        data = path.read_bytes()
        assert data.count(old) == 1
        path.write_bytes(data.replace(old, new))

    return replace


def cut(size: int) -> Callable[[Path], None]:
    """Return what cuts a file; a negative size is what it loses."""

    def truncate(path: Path) -> None:
        os.truncate(path, size if size >= 0 else path.stat().st_size + size)

    return truncate


def changed(*statements: str) -> Callable[[Path], None]:
    """Return what changes a database by SQL."""

    def change(path: Path) -> None:
        run_in(path, *statements)

    return change


def foreign(path: Path) -> None:
    """Put another program's database in the place."""
    path.unlink()
    run_in(path, "CREATE TABLE checkpoints (name, checkpoint, version, digest)")


def killed_after(path: Path, statement: str) -> None:
    """Run a statement in a process that leaves its -wal file behind."""
    script = (
        "import os, sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute(sys.argv[2])\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(path), statement], check=False)


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "empty": (cut(0), "the file is empty"),
    "ten bytes": (cut(10), "damaged"),
    "half a header": (cut(50), "damaged"),
    "a header": (cut(100), "damaged"),
    "one page": (cut(4096), "damaged"),
    "two pages": (cut(2 * 4096), "damaged"),
    "a page and a half": (cut(6144), "damaged"),
    "one byte too little": (cut(-1), "damaged"),
    "no header": (overwritten(0, b"x" * 16), "never an SQLite database"),
    "a text file": (overwritten(0, b"x" * 99_000), "never an SQLite database"),
    "zeros": (overwritten(0, bytes(99_000)), "damaged"),
    "page of tables": (overwritten(100, b"\xff" * 40), "damaged"),
    "count of free pages": (overwritten(36, b"\0\0\0\5"), "damaged"),
    "a page in the middle": (overwritten(4096, b"\xa5" * 4096), "damaged"),
    "a letter of a checkpoint": (replaced(b"so far and no", b"so fat and no"), "edited by hand"),
    "a letter of a name": (replaced(b"defaultso", b"defaulsso"), "damaged"),
    "a table is missing": (changed("DROP TABLE dead_letters"), "table or a column is missing"),
    "a column is missing": (
        changed("ALTER TABLE dead_letters DROP COLUMN attempts"),
        "table or a column is missing|damaged",
    ),
    "edited": (changed("UPDATE checkpoints SET version = 7"), "edited by hand"),
    "edited to another type": (
        changed("PRAGMA ignore_check_constraints = ON", "UPDATE checkpoints SET version = 'x'"),
        "damaged",
    ),
    "edited to bytes": (
        changed(
            "PRAGMA ignore_check_constraints = ON", "UPDATE checkpoints SET checkpoint = x'ff'"
        ),
        "damaged",
    ),
    "edited to no text": (
        changed("UPDATE checkpoints SET checkpoint = CAST(x'ff' AS TEXT)"),
        "damaged",
    ),
    "foreign": (foreign, "another program's"),
    "another application id": (changed("PRAGMA application_id = 7"), "another program's"),
    "newer": (changed("PRAGMA user_version = 2"), "newer version of this package"),
    "version zero": (changed("PRAGMA user_version = 0"), "damaged"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("damage", DAMAGES)
async def test_damage_is_reported_and_left_alone(tmp_path: Path, damage: str, call: Call) -> None:
    """Each call says what is wrong, shows no content, chains nothing and touches nothing."""
    path = tmp_path / "store.db"
    await filled(path)
    do, reason = DAMAGES[damage]
    do(path)
    path.chmod(0o644)
    before = contents(tmp_path)
    with pytest.raises(CheckpointError, match=reason) as caught:
        await call(SQLiteCheckpointStore(path))
    assert type(caught.value) is CheckpointError
    assert not caught.value.retryable
    assert str(path) in str(caught.value)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert contents(tmp_path) == before


async def test_random_damage_is_reported_or_harmless(tmp_path: Path) -> None:
    """With random bytes anywhere, a store holds what it held, or says that it is damaged."""
    path = tmp_path / "store.db"
    store = await filled(path)
    whole = path.read_bytes()
    held = (
        await store.load("default"),
        await store.load("night"),
        await store.dead_letters("default"),
    )
    chance, reported = random.Random(7), 0
    for _ in range(150):
        position = chance.randrange(len(whole))
        noise = chance.randbytes(chance.choice([1, 16, 600]))
        path.write_bytes((whole[:position] + noise + whole[position + len(noise) :])[: len(whole)])
        before = path.read_bytes()
        store = SQLiteCheckpointStore(path)
        try:
            found = await store.load("default"), await store.load("night")
            assert (*found, await store.dead_letters("default")) == held
        except CheckpointError:
            reported += 1
        assert path.read_bytes() == before
    assert reported > 75


async def test_damage_beside_an_unfinished_log_is_left_alone(tmp_path: Path) -> None:
    """What a killed process left in the -wal file is not mixed into a damaged store."""
    path = tmp_path / "store.db"
    await filled(path)
    killed_after(path, "DELETE FROM checkpoints")
    cut(4096)(path)
    before = contents(tmp_path)
    assert before["store.db-wal"][1]
    with pytest.raises(CheckpointError, match="damaged"):
        await SQLiteCheckpointStore(path).load("default")
    after = contents(tmp_path)
    assert [after[name] for name in ("store.db", "store.db-wal")] == [
        before[name] for name in ("store.db", "store.db-wal")
    ]


async def test_half_a_store_is_reported(tmp_path: Path) -> None:
    """A -wal file without its store is no reason to begin anew."""
    path = tmp_path / "store.db"
    (tmp_path / "store.db-wal").write_bytes(b"something")
    for call in CALLS.values():
        with pytest.raises((CheckpointError, CheckpointConflictError), match="-wal file is there"):
            await call(SQLiteCheckpointStore(path))
    assert not path.exists()


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_store_that_goes_is_missed(tmp_path: Path, call: Call) -> None:
    """Who has used a store does not take its absence for a beginning."""
    path = tmp_path / "store.db"
    store = await filled(path)
    path.unlink()
    with pytest.raises(CheckpointError, match="is gone since"):
        await call(store)
    assert not path.exists()


async def test_a_store_put_in_its_place_is_looked_at_too(tmp_path: Path) -> None:
    """A damaged file that replaces a sound one is noticed by a store in use."""
    path, other = tmp_path / "store.db", tmp_path / "other.db"
    store = await filled(path)
    await filled(other)
    replaced(b"so far and no", b"so fat and no")(other)
    other.replace(path)
    with pytest.raises(CheckpointError, match="damaged"):
        await store.save("new", "text", version=0)


async def test_a_copy_in_another_mode_goes_on(tmp_path: Path) -> None:
    """A store restored from a compacted copy is used, and is in WAL mode again."""
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    await filled(path)
    run_in(path, f"VACUUM INTO '{copy}'")
    assert run_in(copy, "PRAGMA journal_mode") == [("delete",)]
    assert await SQLiteCheckpointStore(copy).save("default", "on", version=1) == 2
    assert run_in(copy, "PRAGMA journal_mode") == [("wal",)]
