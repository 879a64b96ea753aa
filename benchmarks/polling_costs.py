"""What a poller pays for each record and each batch: a digest, and a commit to SQLite."""

import sqlite3
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from income_client import ApplicationDocuments, SQLiteCheckpointStore
from income_client.http.endpoints import Response, get_documents
from income_client.http.replies import read_reply
from income_client.polling.reading import read_version

from . import decoding_payloads
from .calling_timed import name_of
from .polling_scale import PollingScale
from .table import Row, at_most

_MOST_MICROSECONDS: Final = 70.0
_MOST_OF_PLAIN: Final = 1.0
_CHECKPOINT: Final = "x" * 4_000
_TABLE: Final = "CREATE TABLE IF NOT EXISTS kept (name TEXT PRIMARY KEY, text TEXT, version INT)"
_UPSERT: Final = (
    "INSERT INTO kept VALUES ('default', ?, ?) ON CONFLICT (name) "
    "DO UPDATE SET text = excluded.text, version = excluded.version"
)


async def digest(scale: PollingScale) -> list[Row]:
    """Time a documents reply that is decoded with its digest, in turns with one without."""
    body = decoding_payloads.documents()
    request = get_documents(name_of(1), pages=False)
    reply = Response(status=200, headers={}, body=body)
    plain: list[float] = []
    with_digest: list[float] = []
    for _ in range(scale.costs):
        plain.append(_microseconds(partial(read_reply, ApplicationDocuments, request, reply)))
        with_digest.append(
            _microseconds(partial(read_version, ApplicationDocuments, request, reply))
        )
    cost = median(b - a for a, b in zip(plain, with_digest, strict=True))
    what = f"digest of a documents reply of {len(body) / 1000:.0f} KB, beside decoding it"
    shown = f"{cost:.0f} us"
    return [at_most(what, cost, _MOST_MICROSECONDS, shown=shown, rounds=scale.costs)]


def _microseconds(call: Callable[[], object]) -> float:
    began = time.process_time()
    for _ in range(10):
        call()
    return (time.process_time() - began) * 1e5


async def commit(scale: PollingScale) -> list[Row]:
    """Time a commit to the store, in turns with a plain upsert that is as durable."""
    ours: list[float] = []
    plain: list[float] = []
    # Beside the package: a temporary folder may be in memory.
    with TemporaryDirectory(dir=Path(__file__).parent, prefix=".commits-") as folder:
        store = SQLiteCheckpointStore(Path(folder) / "ours.db")
        version = 0
        for turn in range(scale.commits):
            began = time.perf_counter()
            version = await store.save("default", _CHECKPOINT, version=version)
            ours.append(time.perf_counter() - began)
            began = time.perf_counter()
            _upsert(Path(folder) / "plain.db", turn)
            plain.append(time.perf_counter() - began)
    ratio = median(ours) / median(plain)
    shown = f"{ratio:.2f} ({median(ours) * 1e3:.1f} ms, {median(plain) * 1e3:.1f} ms)"
    what = "a commit to SQLite / a plain BEGIN IMMEDIATE upsert with synchronous=FULL"
    return [at_most(what, ratio, _MOST_OF_PLAIN, shown=shown, rounds=scale.commits)]


def _upsert(path: Path, version: int) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_TABLE)
        connection.execute(_UPSERT, (_CHECKPOINT, version))
        connection.execute("COMMIT")
    finally:
        connection.close()
