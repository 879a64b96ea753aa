"""Store files as tests want them: full, damaged, looked at from outside, or out of reach."""

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from income_client.checkpoints import SQLiteCheckpointStore
from income_client.testing.store_contract import _make_letter

letter = _make_letter
NOBODY = 65534


async def filled(path: Path) -> SQLiteCheckpointStore:
    store = SQLiteCheckpointStore(path)
    letters = [letter(number) for number in range(60)]
    await store.save("default", "so far and no further", version=0, dead_letters=letters)
    await store.save("night", "much further" * 400, version=0)
    return store


def run_in(path: Path, *statements: str) -> list[Any]:
    """Change or ask a database from outside, and return what the last statement gives."""
    rows = []
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            rows = connection.execute(statement).fetchall()
    return rows


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return mode and bytes of everything in a folder, by name."""
    return {path.name: (path.stat().st_mode, path.read_bytes()) for path in folder.iterdir()}


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """Keep others from writing until the block ends, or until the connection is rolled back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


@contextmanager
def folder_of_ordinary_user() -> Iterator[Path]:
    """Lend a folder and, to a superuser, the rights of an ordinary user."""
    was_root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as name:
        if was_root:
            os.chown(name, NOBODY, -1)
            os.seteuid(NOBODY)
        try:
            yield Path(name)
        finally:
            Path(name).chmod(0o700)
            if was_root:
                os.seteuid(0)
