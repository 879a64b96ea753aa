"""Stores of checkpoints: the protocol, and stores in memory and in SQLite."""

from .sqlite import SQLiteCheckpointStore
from .store import CheckpointStore, MemoryCheckpointStore, StoredCheckpoint

__all__ = [
    "CheckpointStore",
    "MemoryCheckpointStore",
    "SQLiteCheckpointStore",
    "StoredCheckpoint",
]
