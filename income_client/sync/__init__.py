"""``SyncIncomeClient``: the same client for code that is not asynchronous."""

from .client import SyncApplicationPaginator, SyncBatch, SyncIncomeClient, SyncIterator, SyncPoller

__all__ = [
    "SyncApplicationPaginator",
    "SyncBatch",
    "SyncIncomeClient",
    "SyncIterator",
    "SyncPoller",
]
