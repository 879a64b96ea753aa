"""A walk that goes on ahead of whoever reads what it finds, so that it is known how much is left.

Knows pages of ids alone, and reads no record. It is ahead by so many ids at the
most: an export may have more than there is memory for.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import aclosing
from datetime import datetime
from types import TracebackType
from typing import Final, Self

from attrs import frozen

from income_client import ApplicationPaginator

from .amount import Amount
from .request import Span

_MOST_IDS: Final = 100_000


@frozen(kw_only=True)
class Step:
    """A page of the walk."""

    checkpoint: str
    """Of the walk: covers what stands on the pages before."""
    ids: tuple[str, ...]
    """Applications of it, those that are there already too."""


class Ahead:
    """Pages of a walk, for as long as the block lasts.

    Args:
        walk: finds them.
        span: what is walked.
        known: says which of some applications are there already; called in a thread.
        amount: is told what is found.

    Attributes:
        is_ended: whether the walk has come to its end.
    """

    def __init__(
        self,
        walk: ApplicationPaginator,
        span: Span,
        known: Callable[[list[str]], set[str]],
        amount: Amount,
    ) -> None:
        self.is_ended: bool = False
        self._walk = walk
        self._span = span
        self._known = known
        self._amount = amount
        self._first: datetime = span.before
        self._steps: deque[Step] = deque()
        self._waiting = 0
        self._changed = asyncio.Condition()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._go())
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._task.cancel()
        await asyncio.wait((self._task,))
        if not self._task.cancelled():
            self._task.exception()  # whoever wanted the pages has seen it

    @property
    def checkpoint(self) -> str:
        """Of the walk, as far as it is by now."""
        return self._walk.checkpoint

    async def next(self) -> Step | None:
        """Return the next page; None at the end of the walk.

        Raises:
            IncomeClientError: the walk failed, and all pages before that were returned.
            ConfigurationError: what is there already cannot be told.
        """
        async with self._changed:
            await self._changed.wait_for(lambda: self._steps or self.is_ended)
            if not self._steps:
                await self._task
                return None
            step = self._steps.popleft()
            self._waiting -= len(step.ids)
            self._changed.notify_all()
            return step

    async def _go(self) -> None:
        try:
            async with aclosing(self._walk.pages()) as pages:
                async for page in pages:
                    ids = [row.application_id for row in page.applications]
                    # Nothing was updated before it was applied for: the years before do not count.
                    applied = (row.application_date for row in page.applications)
                    self._first = min(self._first, *applied)
                    known = await asyncio.to_thread(self._known, ids)
                    covered = self._walk.progress.covered_fraction
                    shown = self._span.since(self._first)
                    self._amount.find(len(set(ids) - known), shown.done(covered, self._span))
                    await self._put(Step(checkpoint=self._walk.checkpoint, ids=tuple(ids)))
            self._amount.end()
        finally:
            self.is_ended = True
            async with self._changed:
                self._changed.notify_all()

    async def _put(self, step: Step) -> None:
        async with self._changed:
            self._steps.append(step)
            self._waiting += len(step.ids)
            self._changed.notify_all()
            await self._changed.wait_for(lambda: self._waiting < _MOST_IDS)
