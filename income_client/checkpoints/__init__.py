"""Where pollers keep their checkpoints: the protocol, and two stores."""

from .sqlite import SQLiteCheckpointStore
from .store import CheckpointStore, MemoryCheckpointStore, StoredCheckpoint

__all__ = [
    "CheckpointStore",
    "MemoryCheckpointStore",
    "SQLiteCheckpointStore",
    "StoredCheckpoint",
]
