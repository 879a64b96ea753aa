"""Where pollers keep how far they have come: the protocol and two stores."""

from .memory import MemoryCheckpointStore
from .protocol import CheckpointStore, StoredCheckpoint
from .sqlite import SQLiteCheckpointStore

__all__ = [
    "CheckpointStore",
    "MemoryCheckpointStore",
    "SQLiteCheckpointStore",
    "StoredCheckpoint",
]
