"""From what a poll has brought to batches, and from those to the store; keeps their order.

What could not be read is stored before the batch beside it is handed out, and
taken out of the store only with the batch that brings it after all.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final

from attrs import frozen

from income_client.records.dead_letters import DeadLetter

from .batches import Batch
from .checkpoint import Checkpoint
from .dead_letters import DeadLetters
from .lease import Claim
from .news import PollNews
from .poll import Harvest

_LOGGER: Final = logging.getLogger("income_client.poller")

Save = Callable[[], Awaitable[None]]


@frozen
class _Kept:
    """What is stored when a batch is committed."""

    checkpoint: Checkpoint
    resolved: tuple[str, ...]


class Handover:
    """The batches of one poller.

    Args:
        claim: where they are committed.
        news: told of what the store has kept.
    """

    def __init__(self, claim: Claim, news: PollNews) -> None:
        self._claim = claim
        self._news = news
        self._letters = DeadLetters()
        self._number = 0
        self._committed = 0
        self._done: dict[int, _Kept] = {}
        self._returned: dict[int, Batch] = {}
        self._lock = asyncio.Lock()

    def receive(self, letters: Iterable[DeadLetter]) -> DeadLetters:
        """Take the dead letters that the store holds, and return what keeps them from now on."""
        self._letters = DeadLetters(letters)
        return self._letters

    def take_back(self, batch: Batch) -> None:
        """Take a batch whose block has failed or never begun, unless it was committed."""
        if batch.number > self._committed and batch.number not in self._done:
            self._returned[batch.number] = batch

    def returned(self) -> Batch | None:
        """Return the first of the batches that were taken back, to be handed out again."""
        return self._returned.pop(min(self._returned)) if self._returned else None

    async def bring_in(
        self, harvest: Harvest, persist: Callable[[Save], Awaitable[None]]
    ) -> Batch | None:
        """Make a batch of a harvest; one without records is stored at once.

        Nothing is stored while a batch is out that was not committed: whoever keeps
        checkpoints elsewhere may not have kept that one yet.

        Args:
            harvest: what was read.
            persist: retries the commit of a batch while the store fails.

        Raises:
            CheckpointError: the store failed; this can be called again.
        """
        dead = [letter for letter in harvest.dead if letter in self._letters.unsaved]
        if dead:
            await self._claim.bury(dead)
            self._letters.saved(dead, ())
            _log_buried(dead)
            self._news.buried(dead)
        kept = _Kept(harvest.checkpoint, harvest.resolved)
        if harvest.records:
            self._number += 1
            return Batch(
                self._number,
                harvest.records,
                harvest.checkpoint.text(),
                commit=partial(persist, partial(self._commit, self._number, kept)),
                give_back=self.take_back,
            )
        is_further = harvest.checkpoint.progress > self._claim.progress
        if self._committed == self._number and (is_further or harvest.resolved):
            await self._store(kept)
        return None

    async def _commit(self, number: int, kept: _Kept) -> None:
        async with self._lock:
            self._returned.pop(number, None)
            if number <= self._committed:
                return
            self._done[number] = kept
            # A checkpoint covers every batch before it, and must not cover one that failed.
            end = min(self._returned, default=self._number + 1)
            ready = [number for number in self._done if number < end]
            if not ready:
                return
            last = max(ready)
            try:
                await self._store(self._done[last])
            except BaseException:
                del self._done[number]
                raise
            self._committed = last
            self._done = {n: later for n, later in self._done.items() if n > last}

    async def _store(self, kept: _Kept) -> None:
        # One may have come to lie there again since.
        resolved = [key for key in kept.resolved if key not in self._letters]
        await self._claim.save(kept.checkpoint, resolved)
        self._letters.saved((), resolved)
        self._news.committed(kept.checkpoint.reached)


def _log_buried(letters: Iterable[DeadLetter]) -> None:
    for letter in letters:
        facts = {"application_id": letter.application_id, "attempts": letter.attempts}
        _LOGGER.warning("could not be read and became a dead letter", extra=facts)
