"""Where pollers keep their checkpoints: the protocol, and two stores."""

from .memory import MemoryCheckpointStore
from .sqlite import SQLiteCheckpointStore
from .store import CheckpointStore, StoredCheckpoint

__all__ = [
    "CheckpointStore",
    "MemoryCheckpointStore",
    "SQLiteCheckpointStore",
    "StoredCheckpoint",
]
