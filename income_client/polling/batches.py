"""What a poller hands out: records, and the checkpoint that may be stored once they are safe."""

from collections.abc import Awaitable, Callable, Iterator
from types import TracebackType
from typing import Self

from income_client.records.documents import ApplicationRecord


class Batch:
    """Records that are new, at most a hundred, in the order in which they were listed.

    ``async with batch:`` commits it at the end of the block, unless the block
    fails: then the batch is handed out again. Whoever stores ``batch.checkpoint``
    together with the data begins again with ``start=``, and commits all the same
    after that, so that the store moves on as well.

    Args:
        number: how many were handed out before, and this one.
        records: what is new.
        checkpoint: what may be stored once they are safe.
        commit: stores it.
        give_back: takes note of a block that has failed.

    Attributes:
        number: counts the batches of this poller.
        records: what is new.
        checkpoint: what ``poll(start=...)`` takes: a text of 20 bytes for each application
            updated within ``settle`` and ``lookback``, or listed by the page being read.
        has_failed: whether its block has ended in an error.
    """

    def __init__(
        self,
        number: int,
        records: tuple[ApplicationRecord, ...],
        checkpoint: str,
        *,
        commit: Callable[[], Awaitable[None]],
        give_back: Callable[["Batch"], None],
    ) -> None:
        self.number = number
        self.records = records
        self.checkpoint = checkpoint
        self.has_failed: bool = False
        self._commit = commit
        self._give_back = give_back

    def __iter__(self) -> Iterator[ApplicationRecord]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        return f"<Batch of {len(self)} records>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc_type is None:
            await self.commit()
        else:
            self.has_failed = True
            self._give_back(self)

    async def commit(self) -> None:
        """Store the checkpoint, and with it that of every batch before; again does nothing.

        Where the block of an earlier one has failed, it is stored once that one is committed.
        While the store fails, the commit is retried with growing pauses, which ``status`` shows.

        Raises:
            CheckpointConflictError: another poller has claimed the name; nothing was stored.
            CheckpointError: the store cannot be used, or failed when polling was stopped, or
                kept failing in a single poll; the batch can be committed again.
        """
        await self._commit()
