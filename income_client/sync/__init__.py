"""``SyncIncomeClient``: the same client for code that is not asynchronous."""
