# exactly_once.py
# pip install 'income-client[postgres]'
import asyncio
import os

import asyncpg

from income_client import CheckpointConflictError, IncomeClient
from income_client.engines.postgres import PostgresCheckpointStore

# Your migrations make the table: CREATE TABLE updates (application_id text, updated_at timestamptz)
INSERT = "INSERT INTO updates VALUES ($1, $2)"


async def main(*, once: bool = False) -> None:
    async with (
        asyncpg.create_pool(os.environ["DATABASE_URL"], target_session_attrs="read-write") as pool,
        IncomeClient.from_env() as client,
    ):
        store = PostgresCheckpointStore(pool)
        await store.create_schema()
        poller = client.poll(store, start="2026-01-01", standby=True, once=once)
        async for batch in poller.batches():
            rows = [(record.application_id, record.last_updated_at) for record in batch]
            try:
                async with batch, pool.acquire() as connection, batch.transaction(connection):
                    await connection.executemany(INSERT, rows)
            except CheckpointConflictError:
                continue  # another process took over: nothing was written, and this one waits


if __name__ == "__main__":
    asyncio.run(main())
