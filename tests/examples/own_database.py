# own_database.py
import sqlite3
from contextlib import closing

from income_client import SQLiteCheckpointStore, SyncIncomeClient
from income_client.sync import SyncBatch

SCHEMA = """
CREATE TABLE IF NOT EXISTS incomes (application_id TEXT PRIMARY KEY, updated_at TEXT);
CREATE TABLE IF NOT EXISTS place (id INTEGER PRIMARY KEY, checkpoint TEXT, sequence BIGINT);
INSERT OR IGNORE INTO place VALUES (1, NULL, 0);
"""
FENCE = "UPDATE place SET checkpoint = ?, sequence = ? WHERE sequence < ?"


def write(database: sqlite3.Connection, batch: SyncBatch) -> None:
    fenced = database.execute(FENCE, (batch.checkpoint, batch.sequence, batch.sequence))
    if fenced.rowcount == 0:
        raise RuntimeError("another process has written a later batch")
    rows = [(record.application_id, str(record.last_updated_at)) for record in batch]
    database.executemany("INSERT OR REPLACE INTO incomes VALUES (?, ?)", rows)


def main() -> None:
    with closing(sqlite3.connect("incomes.db")) as database, SyncIncomeClient.from_env() as client:
        database.executescript(SCHEMA)
        [[checkpoint]] = database.execute("SELECT checkpoint FROM place")
        store = SQLiteCheckpointStore("polls.db")
        poller = client.poll(store, start=checkpoint or "2026-01-01", once=True)
        for batch in poller.batches():
            with batch, database:  # the database commits first, and then the batch
                write(database, batch)


if __name__ == "__main__":
    main()
