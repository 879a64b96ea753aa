"""Drives a walk over the session: asks what the planner wants, hands out what it delivers."""

from collections.abc import AsyncGenerator, Iterator
from datetime import tzinfo
from functools import partial
from typing import Any, Final, Literal, Self

from attrs import evolve, frozen

from income_client.checks import check_count
from income_client.clock import Clock
from income_client.concurrency import Crew
from income_client.errors import (
    ConfigurationError,
    InvalidRequestError,
    SaturatedWindowError,
)
from income_client.events import PageCovered, WindowSplit
from income_client.http.endpoints import check_limit
from income_client.http.session import SessionManager
from income_client.records.applications import ApplicationPage, ApplicationSummary
from income_client.records.window import Window

from .checkpoint import WalkState, write_checkpoint
from .listing import ListReply, ask_page
from .planner import WalkPlanner
from .windows import Delivery, Pause, Question

_LEAST_LIMIT: Final = 2
OnSaturated = Literal["raise", "report"]


@frozen(kw_only=True)
class WalkProgress:
    """How far a walk has come."""

    covered_fraction: float
    """Share of the span's seconds whose rows the consumer is done with, 0 to 1."""
    requests: int
    """List calls answered."""
    rows: int
    """Applications found."""
    duplicates: int
    """Rows that a neighbouring window had given already."""
    splits: int
    """Pages that came back full, so that their window was divided."""


class ApplicationPaginator:
    """Every application updated in a span, each once (contract section 4.1).

    Iterate over it for the summaries, or over ``pages()`` for whole pages; both
    share one position. Requests are made only while somebody iterates: at most
    as many as there are walkers are under way, and a slow consumer stops them.
    Closing, cancelling and dropping the walk end those under way; iterating again
    goes on where it stopped, and so does a new walk with ``resume=paginator.checkpoint``.

    Made by ``IncomeClient.list_applications``.

    Args:
        session: makes the requests.
        state: the walk's outer bounds, and what an earlier one has covered.
        limit: rows asked for in one page.
        concurrency: pages in flight at a time.
        on_saturated: whether rows of saturated windows are yielded.
        clock: what the walk pauses by.
        zone: the zone of the service's times that carry none.

    Raises:
        ConfigurationError: an argument cannot be meant.
    """

    def __init__(
        self,
        session: SessionManager,
        state: WalkState,
        *,
        limit: int,
        concurrency: int,
        on_saturated: OnSaturated,
        clock: Clock,
        zone: tzinfo,
    ) -> None:
        check_limit(limit)
        if limit < _LEAST_LIMIT:
            raise ConfigurationError("a walk needs a limit of 2 or more")
        check_count("concurrency", concurrency)
        if on_saturated not in ("raise", "report"):
            raise ConfigurationError('on_saturated is "raise" or "report"')
        self._ask = partial(ask_page, session, limit, zone)
        self._planner = WalkPlanner(
            state.bounds,
            limit=limit,
            walkers=concurrency,
            covered=state.covered,
            keep_saturated=on_saturated == "report",
        )
        self._raises = on_saturated == "raise"
        self._clock = clock
        self._audience = session.audience
        self._crew: Crew[Question | Pause] = Crew()
        self._pause: Pause | None = None
        self._handed_out: Delivery | None = None
        self._rows: Iterator[ApplicationSummary] = iter(())
        self._covered_fraction = 0.0
        self._has_raised = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ApplicationSummary:
        """Return the next summary.

        Raises:
            SaturatedWindowError: everything else was returned, and these windows
                hold more rows than can be asked for.
            ClientClosedError: the walk was closed by somebody else meanwhile.
            ConfigurationError: somebody else waits for the next summary already.
            IncomeClientError: a request failed for good; iterating again tries again.
        """
        while (row := next(self._rows, None)) is None:
            delivery = await self._next_delivery()
            if delivery is None:
                raise StopAsyncIteration
            self._rows = iter(delivery.applications)
        return row

    async def pages(self) -> AsyncGenerator[ApplicationPage, None]:
        """Iterate over pages: what is left of each after rows given before are taken out.

        Yields:
            The bounds that the service applied, and the rows.

        Raises:
            SaturatedWindowError: as when iterating over summaries.
            IncomeClientError: a request failed for good; iterating again tries again.
        """
        try:
            while (delivery := self._take_rest() or await self._next_delivery()) is not None:
                yield ApplicationPage(
                    updated_after=delivery.bounds.starts_at,
                    updated_before=delivery.bounds.ends_at,
                    applications=delivery.applications,
                )
        finally:
            await self.aclose()

    @property
    def progress(self) -> WalkProgress:
        """How far the walk has come."""
        planner = self._planner
        return WalkProgress(
            covered_fraction=self._covered_fraction,
            requests=planner.requests,
            rows=planner.rows,
            duplicates=planner.duplicates,
            splits=planner.splits,
        )

    @property
    def checkpoint(self) -> str:
        """A short text from which a walk goes on: what the consumer is done with.

        It covers a row only once the consumer came back for the next one, and a
        saturated window never.
        """
        return write_checkpoint(self._planner.bounds, self._planner.covered)

    @property
    def saturated(self) -> tuple[Window, ...]:
        """The seconds found so far that hold more rows than can be asked for."""
        return tuple(self._planner.saturated)

    async def aclose(self) -> None:
        """End the requests under way; what they were for is asked again when iterated again."""
        # Taken back before anything is awaited: a second cancellation must not lose them.
        for key in self._crew.keys:
            if isinstance(key, Question):
                self._planner.drop(key)
        await self._crew.cancel()

    async def _next_delivery(self) -> Delivery | None:
        self._crew.check_is_free()
        if self._handed_out is not None:
            self._acknowledge(self._handed_out)
            self._handed_out = None
        delivery = self._take_ready()
        try:
            while delivery is None:
                self._start_requests()
                if not self._crew:
                    self._finish()
                    return None
                await self._take_answer()
                delivery = self._take_ready()
        except BaseException:
            await self.aclose()
            raise
        self._start_requests()
        self._handed_out = delivery
        return delivery

    def _take_ready(self) -> Delivery | None:
        ready = self._planner.ready
        while ready:
            delivery = ready.popleft()
            if delivery.applications:
                return delivery
            self._acknowledge(delivery)
        return None

    def _take_rest(self) -> Delivery | None:
        """Take what is left of a page that was handed out row by row."""
        rows = tuple(self._rows)
        if not rows or self._handed_out is None:
            return None
        return evolve(self._handed_out, applications=rows)

    def _acknowledge(self, delivery: Delivery) -> None:
        planner = self._planner
        planner.acknowledge(delivery)
        span = planner.span
        if span:
            fraction = planner.covered.seconds / (span.before - span.after)
            # The span of an open walk grows with time.
            self._covered_fraction = max(self._covered_fraction, fraction)
        tell = self._audience.tell
        if tell is not None:
            covered = PageCovered(
                window=delivery.covers,
                rows=len(delivery.applications),
                covered_fraction=self._covered_fraction,
                requests=planner.requests,
            )
            tell(covered)

    def _start_requests(self) -> None:
        """Put every walker to work, unless deliveries are waiting to be taken."""
        while not self._planner.ready and self._pause is None:
            action = self._planner.next()
            if action is None:
                return
            if isinstance(action, Pause):
                self._pause = action
            else:
                self._crew.start(action, self._ask(action.bounds))
        if self._pause is not None and not self._crew:
            self._crew.start(self._pause, self._clock.sleep(self._pause.seconds))

    async def _take_answer(self) -> None:
        finished = await self._crew.next()
        question: Any = finished.key
        if isinstance(question, Pause):
            self._pause = None
            return
        match finished.error:
            case None:
                self._receive(question, finished.result)
            case InvalidRequestError() if self._planner.refuse(question):
                pass
            case error:
                self._planner.drop(question)
                raise error

    def _receive(self, question: Question, reply: ListReply) -> None:
        planner = self._planner
        splits = planner.splits
        planner.receive(question, reply.page, served_at=reply.served_at)
        tell = self._audience.tell
        if tell is not None and planner.splits > splits:
            tell(WindowSplit(window=question.window, rows=len(reply.page.applications)))

    def _finish(self) -> None:
        planner = self._planner
        if not planner.saturated:
            self._covered_fraction = 1.0
        if planner.saturated and self._raises and not self._has_raised:
            self._has_raised = True
            rows = tuple(planner.withheld.values())
            raise SaturatedWindowError(tuple(planner.saturated), rows)
