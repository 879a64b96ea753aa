"""The walk over an export's span and the records on it, into its part; makes no file of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Final

from income_client import (
    ApplicationRecord,
    AuthenticationError,
    Fetcher,
    FetchFailure,
    IncomeClient,
    Window,
    to_json,
)
from income_client.cli.output import without_addresses
from income_client.cli.progress import StatusLine
from income_client.cli.signals import Stoppable

from .ahead import Ahead
from .amount import Amount
from .marks import Marks
from .notes import Missing
from .part import Gain, Part
from .progress import ExportProgress
from .request import Request, Span

WALKERS: Final = 4
"""Requests of the list in flight at a time, beside those of records."""
_MOST_LINES: Final = 100
_MOST_BYTES: Final = 8 * 2**20
_EXPECTED: Final = "expected"
_IN_A_ROW: Final = 20
"""So many failures, one after the other, that may pass say that it is not the applications."""


class ExportRun:
    """One run of an export: goes on where the last one was.

    Args:
        client: reads.
        part: what has come, and is to grow.
        request: what lines are to hold.
        span: what is walked.
        line: where failures are said.
        stop: says when it is to end early.

    Attributes:
        saturated: seconds that hold more applications than can be asked for.
        is_whole: whether the walk has come to its end.
    """

    def __init__(
        self,
        client: IncomeClient,
        part: Part,
        request: Request,
        span: Span,
        line: StatusLine,
        stop: Stoppable,
    ) -> None:
        self.saturated: tuple[Window, ...] = ()
        self.is_whole: bool = False
        self._client = client
        self._part = part
        self._request = request
        self._span = span
        self._line = line
        self._stop = stop
        self._progress = ExportProgress(line, "Exporting")
        self._amount = Amount(part.records, _count(part.fact(_EXPECTED)))
        self._marks = Marks()
        self._lines: list[bytes] = []
        self._ids: list[str] = []
        self._missing: list[Missing] = []
        self._size = 0
        self._lost = 0
        self._in_flight: set[str] = set()
        self._failures_in_a_row = 0
        self._has_failed = False

    async def run(self, concurrency: int) -> None:
        """Read until the end of the span, or until it is to stop, and keep what came.

        Args:
            concurrency: requests about records in flight at a time.

        Raises:
            IncomeClientError: nothing more can be had.
            OSError: what came cannot be kept.
        """
        walk = self._client.list_applications(
            self._span.after,
            self._span.before,
            concurrency=WALKERS,
            on_saturated="report",
            resume=self._part.fact("checkpoint"),
        )
        async with Ahead(walk, self._span, self._part.known, self._amount) as ahead:
            outcomes = self._client.fetch_records(
                self._listed(ahead),
                documents=self._request.documents,
                pages=self._request.pages,
                concurrency=concurrency,
                on_error="yield",
            )
            try:
                async with aclosing(outcomes):
                    self.is_whole = await self._take_all(outcomes)
            finally:
                await self._keep()
        self.saturated = walk.saturated

    async def _take_all(self, outcomes: Fetcher[ApplicationRecord | FetchFailure]) -> bool:
        self._show()
        while (outcome := await self._stop.wait_for(anext(outcomes, None))) is not None:
            self._take(outcome)
            if len(self._ids) + len(self._missing) >= _MOST_LINES or self._size >= _MOST_BYTES:
                await self._keep()
            self._show()
        return not self._stop.is_stopped

    async def _listed(self, ahead: Ahead) -> AsyncIterator[str]:
        """Yield what is to be read: first what could not be before, then what the walk finds."""
        missing = await asyncio.to_thread(self._part.missing)
        self._amount.find(len(missing))
        for one in missing:
            yield self._begun(one.application_id)
        while (step := await ahead.next()) is not None:
            # In this order: what is kept meanwhile is in the one or in the other.
            ids = [one for one in step.ids if one not in self._in_flight]
            known = await asyncio.to_thread(self._part.known, ids)
            self._marks.turn(step.checkpoint)
            for application_id in ids:
                if application_id not in known:
                    yield self._begun(application_id)
        self._marks.turn(ahead.checkpoint)

    def _begun(self, application_id: str) -> str:
        self._marks.begin()
        self._in_flight.add(application_id)
        return application_id

    def _take(self, outcome: ApplicationRecord | FetchFailure) -> None:
        """Take a record, or its failure.

        Raises:
            IncomeClientError: it fails for a reason that is not the application's own.
        """
        match outcome:
            case ApplicationRecord():
                self._failures_in_a_row = 0
                is_whole = self._request.addresses
                self._lines.append(to_json(outcome if is_whole else without_addresses(outcome)))
                self._ids.append(outcome.application_id)
                self._size += len(self._lines[-1])
            case FetchFailure(application_id, error):
                self._failures_in_a_row += error.retryable
                if isinstance(error, AuthenticationError) or self._failures_in_a_row >= _IN_A_ROW:
                    raise error
                self._lost += 1
                self._missing.append(Missing(application_id, str(error)))
                self._line.say(_said(application_id, str(error)))
        self._marks.end()

    async def _keep(self) -> None:
        if self._has_failed:
            return  # the checkpoint may cover what could not be kept
        total = self._amount.total
        gain = Gain(
            lines=self._lines,
            application_ids=self._ids,
            missing=self._missing,
            checkpoint=self._marks.checkpoint,
            facts={} if total is None else {_EXPECTED: total},
        )
        self._lines, self._ids, self._missing, self._size = [], [], [], 0
        self._has_failed = True
        await asyncio.to_thread(self._part.keep, gain)
        self._has_failed = False
        self._in_flight.difference_update(gain.application_ids)
        self._in_flight.difference_update(one.application_id for one in gain.missing)

    def _show(self) -> None:
        count = self._part.records + len(self._lines)
        self._progress.show(count, self._amount.total, self._lost)


def _count(text: str | None) -> int | None:
    return None if text is None else int(text)


def _said(application_id: str, error: str) -> str:
    return error if f"({application_id})" in error else f"{application_id}: {error}"
