# pyright: strict
"""A lender's code that polls; type checkers read it, nobody runs it."""

from collections.abc import Sequence
from datetime import datetime
from typing import assert_type

from income_client import (
    ApplicationRecord,
    Batch,
    CheckpointStore,
    DeadLetter,
    IncomeClient,
    IncomeClientError,
    MemoryCheckpointStore,
    Poller,
    PollerStatus,
    SQLiteCheckpointStore,
    StoredCheckpoint,
    Window,
)


class Shelf:
    """A checkpoint store of one's own."""

    def __init__(self) -> None:
        self._stored = StoredCheckpoint(checkpoint=None, version=0)

    async def load(self, name: str) -> StoredCheckpoint:
        """Return what is stored."""
        assert_type(self._stored.checkpoint, str | None)
        assert_type(self._stored.version, int)
        return self._stored

    async def save(
        self,
        name: str,
        checkpoint: str,
        *,
        version: int,
        dead_letters: Sequence[DeadLetter] = (),
        resolved: Sequence[str] = (),
    ) -> int:
        """Keep a checkpoint."""
        self._stored = StoredCheckpoint(checkpoint=checkpoint, version=version + 1)
        return version + 1

    async def dead_letters(self, name: str) -> tuple[DeadLetter, ...]:
        """Return what could not be read."""
        return ()


async def polls(client: IncomeClient) -> None:
    """A poller gives records, or batches of them."""
    stores: list[CheckpointStore] = [
        Shelf(), MemoryCheckpointStore(), SQLiteCheckpointStore("polls.db"),
    ]  # fmt: skip
    poller = client.poll(
        stores[0],
        name="nightly",
        start="2026-01-01",
        interval=60,
        settle=5,
        lookback=0,
        documents=True,
        pages=False,
        concurrency=8,
    )
    assert_type(poller, Poller)
    async for record in poller:
        assert_type(record, ApplicationRecord)
    async for batch in poller.batches():
        assert_type(batch, Batch)
        assert_type(batch.checkpoint, str)
        async with batch:
            assert_type([one.application_id for one in batch], list[str])
        await batch.commit()
    poller.wake()
    poller.stop(after_poll=True)
    await poller.aclose()
    tells(poller.status)
    for letter in await stores[2].dead_letters("nightly"):
        assert_type(letter.application_id, str | None)
        assert_type(letter.window, Window)


def tells(status: PollerStatus) -> None:
    """How a poller is doing has its types."""
    assert_type(status.reached, datetime | None)
    assert_type(status.lag, float | None)
    assert_type(status.polls, int)
    assert_type(status.saturated, tuple[Window, ...])
    assert_type(status.last_error, IncomeClientError | None)
    assert_type(status.next_poll_at, datetime | None)
