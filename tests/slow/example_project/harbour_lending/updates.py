"""What has changed since the last time."""

from income_client import ApplicationRecord, CheckpointStore, IncomeClient


async def changed_records(client: IncomeClient, store: CheckpointStore) -> list[ApplicationRecord]:
    """Return every record updated since the call before; the first call only begins."""
    poller = client.poll(store, name="harbour")
    poller.stop(after_poll=True)
    return [record async for record in poller]
