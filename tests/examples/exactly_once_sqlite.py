# exactly_once_sqlite.py
import asyncio
import sqlite3
from contextlib import closing

from income_client import Batch, IncomeClient, SQLiteCheckpointStore

TABLES = """
CREATE TABLE IF NOT EXISTS updates (application_id TEXT, updated_at TEXT);
CREATE TABLE IF NOT EXISTS progress (name TEXT PRIMARY KEY, checkpoint TEXT);
"""
READ = "SELECT checkpoint FROM progress"
MOVE = """
INSERT INTO progress VALUES ('updates', ?)
ON CONFLICT (name) DO UPDATE SET checkpoint = excluded.checkpoint WHERE checkpoint IS ?
"""
INSERT = "INSERT INTO updates VALUES (?, ?)"


def apply(database: sqlite3.Connection, batch: Batch, known: str | None) -> None:
    rows = [(record.application_id, record.last_updated_at.isoformat()) for record in batch]
    with database:  # one transaction
        if database.execute(MOVE, (batch.checkpoint, known)).rowcount != 1:
            raise RuntimeError("another process has taken over")
        database.executemany(INSERT, rows)


async def main() -> None:
    with closing(sqlite3.connect("incomes.db")) as database:
        database.executescript(TABLES)
        (known,) = database.execute(READ).fetchone() or (None,)
        async with IncomeClient.from_env() as client:
            poller = client.poll(SQLiteCheckpointStore("polls.db"), start=known, documents=False)
            async for batch in poller.batches():
                async with batch:
                    apply(database, batch, known)
                known = batch.checkpoint


if __name__ == "__main__":
    asyncio.run(main())
