# follow_waiting.py
# pip install 'income-client[postgres]'
import asyncio
import os

from income_client import SyncIncomeClient
from income_client.engines.postgres import PostgresCheckpointStore

store = PostgresCheckpointStore.from_url(os.environ["DATABASE_URL"])
asyncio.run(store.create_schema())
with SyncIncomeClient.from_env() as client:
    for record in client.poll(store, start="2026-01-01", standby=True):
        print(record.application_id, record.last_updated_at, flush=True)
