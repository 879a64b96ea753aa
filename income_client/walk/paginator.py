"""List applications over the session: one list call, and the walk over all of them."""

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Final, Literal, Self, TypeAlias, get_args

from attrs import evolve, frozen

from income_client._lazy import answers_other_names
from income_client.errors import (
    DecodeError,
    InvalidRequestError,
    SaturatedWindowError,
    UnexpectedResponseError,
)
from income_client.events.kinds import PageCovered, WindowSplit
from income_client.http.endpoints import (
    EVERY_APPLICATION,
    LARGEST_LIMIT,
    ListFilter,
    Request,
    Response,
    check_id,
    list_applications,
)
from income_client.http.replies import read_found, read_rows, served_at
from income_client.http.session import SessionManager
from income_client.records.applications import ApplicationPage, ApplicationSummary
from income_client.records.window import Window
from income_client.settings import check_choice, check_count, invalid
from income_client.system.clock import Clock
from income_client.system.concurrency import BoundedTasks
from income_client.system.logs import GuardedLogger
from income_client.wire.rows import MalformedRow
from income_client.wire.times import (
    FIRST_SECOND,
    LAST_SECOND,
    Rounding,
    aware_time,
    service_second,
    wire_time,
)

from .checkpoint import read_checkpoint, write_checkpoint
from .hidden_rows import Ask, hides_rows
from .planner import Question, WalkPlanner
from .tail import END_OF_TIME
from .windows import Answer, Bounds, Delivery

OnSaturated: TypeAlias = Literal["raise", "report"]
"""Behaviour of `IncomeClient.list_applications` at seconds with more rows than one page holds."""
ReadPage = Callable[[Request, Response], ApplicationPage]

_LOGGER: Final = GuardedLogger("income_client.walk")
_LEAST_LIMIT: Final = 2
_LONG_AGO: Final = 60
"""Seconds before the `Date` of its own reply from which an echo may be the end of a cut window."""
_BEFORE_DATE: Final = (1, 3_600, 86_400 + 3_600)
"""Seconds before `Date` from which the search for the present starts; `Date` may be of another
zone."""
_MOST_GUESSES: Final = 40
"""Upper bound of the steps of a binary search for one second in all of time."""
_HOUR: Final = 3_600


async def ask_page(
    session: SessionManager,
    limit: int | None,
    zone: tzinfo,
    bounds: Bounds | None,
    *,
    read: ReadPage = read_rows,
    list_filter: ListFilter = EVERY_APPLICATION,
) -> Answer:
    """Make one list call (contract section 4.1); no bounds leave both to the service.

    ``read`` reads the page, by default with a `MalformedRow` for each row that is malformed. A page
    that is as large as the service returns any counts as full, although more was asked for.
    """
    ask = partial(_list_page, session, limit, zone, read=read, list_filter=list_filter)
    answer = await ask(bounds)
    rows, asked, cap = len(answer.page.applications), limit or LARGEST_LIMIT, session.page_cap
    cap.receive(rows)
    if bounds is not None and cap.is_doubtful(rows, asked, session.clock.monotonic()):
        async with cap.lock:
            # Meanwhile another task may have found out.
            if cap.is_doubtful(rows, asked, session.clock.monotonic()):
                await _find_cap(session, answer, bounds, ask)
    return evolve(answer, is_full=rows >= cap.full_at(asked), cap=cap.rows)


async def _find_cap(session: SessionManager, answer: Answer, bounds: Bounds, ask: Ask) -> None:
    """Find out whether the service returns no more rows than a page has."""
    rows = len(answer.page.applications)
    hides = await hides_rows(answer, bounds, ask)
    if hides:
        session.page_cap.rows = rows
        message = "the service lists %d applications at most where more are asked for"
        _LOGGER.warning(message, rows, extra={"rows": rows})
    elif hides is False:
        session.page_cap.believe(rows, session.clock.monotonic())


async def _list_page(
    session: SessionManager,
    limit: int | None,
    zone: tzinfo,
    bounds: Bounds | None,
    *,
    read: ReadPage,
    list_filter: ListFilter,
) -> Answer:
    after = None if bounds is None else bounds.after
    before = None if bounds is None else bounds.before
    if any(
        not FIRST_SECOND <= second <= LAST_SECOND
        for second in (after, before)
        if second is not None
    ):
        # A caller's bounds are checked: only what the service echoed leads there.
        message = "the bounds applied lead beyond the calendar"
        raise UnexpectedResponseError(message, call="list_applications")
    request = list_applications(
        updated_after=None if after is None else wire_time(after),
        updated_before=None if before is None else wire_time(before),
        limit=limit,
        list_filter=list_filter,
    )

    def answer_of(response: Response) -> Answer:
        page = read(request, response)
        moment = served_at(response)
        second = None if moment is None else service_second(moment, zone, rounding=Rounding.DOWN)
        return Answer.of(page, limit or LARGEST_LIMIT, second)

    return await session.call(request, answer_of)


async def _ask_later(
    ask: Callable[[Bounds], Awaitable[Answer]], clock: Clock, question: Question
) -> Answer:
    if question.delay:
        await clock.sleep(question.delay)
    return await ask(question.bounds)


async def ask_present(
    ask: Callable[[Bounds | None], Awaitable[Answer]], reply: Answer | None = None
) -> Answer:
    """Return a reply whose echoed upper bound is the service's present.

    ``ask`` makes a list call, and ``reply`` was given to one without bounds. A service with
    a widest window may cut one at its upper end. Such a window ends a second earlier if it
    begins a second earlier, which the present never does; so the present is looked for from
    later lower bounds, those close to `Date` first, until it is found.
    """
    reply = reply or await ask(None)
    served_at, low, high = reply.served_at, reply.echo.before, END_OF_TIME
    if served_at is not None and low >= served_at - _LONG_AGO:
        return reply
    guesses = [] if served_at is None else [served_at - before for before in _BEFORE_DATE]
    for _ in range(_MOST_GUESSES):
        if low > END_OF_TIME:
            break
        low = max(low, FIRST_SECOND + 2)
        # A guess that lay in the future is passed by now where the service's clock moves on.
        high = max(high, low)
        later = await ask(Bounds(low - 1, None))
        earlier = await ask(Bounds(low - 2, None))
        if earlier.echo.before >= later.echo.before:
            return earlier
        low = max(low, later.echo.before)
        guess = guesses.pop(0) if guesses else (low + high) // 2
        try:
            echoed = (await ask(Bounds(guess, None))).echo.before
        except InvalidRequestError:  # the guess lies in the future
            echoed = guess
        if echoed > guess:
            low = max(low, echoed)
        else:
            high = min(high, guess)
    raise UnexpectedResponseError("the service sends no time", call="list_applications")


async def read_present(session: SessionManager, zone: tzinfo) -> datetime:
    """Ask the service for its present, and return it as an aware time of ``zone``."""
    dates: list[datetime | None] = []

    def read(request: Request, response: Response) -> ApplicationPage:
        dates.append(served_at(response))
        # Nothing of the page counts but its bounds.
        return read_rows(request, response, keep_extra=False)

    reply, date = await ask_present(partial(ask_page, session, 1, zone, read=read)), dates[-1]
    if date is None:
        return aware_time(reply.present, zone, near=None)
    if reply.echo.before > END_OF_TIME:
        return date.astimezone(zone)
    echo = aware_time(reply.echo.before, zone, near=date)
    # In UTC, since times of one zone are compared as they are written.
    return min(echo.astimezone(UTC), date).astimezone(zone)


async def find_by_reference(
    session: SessionManager, reference: str, zone: tzinfo
) -> ApplicationSummary | None:
    """Find the application with a reference, also where the service's default bounds hide it."""
    check_id("reference", reference)
    read = partial(read_found, reference)
    list_filter = ListFilter(application_reference_id=reference)
    matches: list[ApplicationSummary] = []

    async def ask(bounds: Bounds | None) -> Answer:
        reply = await ask_page(session, None, zone, bounds, read=read, list_filter=list_filter)
        rows = reply.page.applications
        matches.extend(row for row in rows if row.application_reference_id == reference)
        return reply

    first = await ask(None)
    if not matches:
        await ask(Bounds(0, None))
    if not matches and first.present <= END_OF_TIME:
        # An exclusive upper bound hides what was updated this very second.
        present = (await ask_present(ask, first)).present
        with suppress(InvalidRequestError):
            await ask(Bounds(max(present - 2, FIRST_SECOND), min(present + _HOUR, LAST_SECOND)))
    return matches[0] if matches else None


@frozen(kw_only=True)
class WalkProgress:
    """Progress of a walk."""

    covered_fraction: float
    """Share of the span's seconds whose rows the consumer has processed, from 0 to 1."""
    requests: int
    """Number of list calls answered."""
    rows: int
    """Number of applications found."""
    duplicates: int
    """Number of rows that an earlier page had already returned."""
    splits: int
    """Number of pages that came back full, so that their window was split."""


@answers_other_names
class ApplicationPaginator:
    """Every application updated in a span, each once (contract section 4.1).

    One that is updated meanwhile may come twice.

    Iterate over it for the summaries, or over ``pages()`` for whole pages; both
    share one position. Requests are made only during iteration: at most
    ``concurrency`` of them are in flight, and a slow consumer stops them.
    Closing, cancelling and dropping the walk end those in flight; iterating again
    resumes where it stopped, and so does a new walk with ``resume=paginator.checkpoint``.

    A malformed row is raised as a `DecodeError` once the other rows of its page were yielded;
    iterating again continues behind it.

    Made by ``IncomeClient.list_applications``.

    Args:
        session: makes the requests.
        after: lower bound, in seconds of the service's frame; None for 1970.
        before: upper bound, likewise; None for the present.
        resume: the checkpoint of an earlier walk, which includes its bounds.
        limit: rows of one page.
        concurrency: pages in flight at a time.
        on_saturated: whether rows of saturated windows are yielded.
        clock: sleeps where the walk waits for the service's clock.
        zone: the zone of the service's times that carry none.
        list_filter: the applications that are listed.
        read: reads a page.
        keeps_malformed: whether malformed rows are left on their pages, as `MalformedRow`.

    Raises:
        ConfigurationError: an argument is invalid.
        CheckpointError: ``resume`` is invalid, or belongs to a walk over another span or with
            another filter.
    """

    def __init__(
        self,
        session: SessionManager,
        after: int | None,
        before: int | None,
        resume: str | None,
        *,
        limit: int,
        concurrency: int,
        on_saturated: OnSaturated,
        clock: Clock,
        zone: tzinfo,
        list_filter: ListFilter = EVERY_APPLICATION,
        read: ReadPage = read_rows,
        keeps_malformed: bool = False,
    ) -> None:
        if type(limit) is not int or not _LEAST_LIMIT <= limit <= LARGEST_LIMIT:
            raise invalid("limit", f"a whole number from {_LEAST_LIMIT} to {LARGEST_LIMIT}", limit)
        check_count("concurrency", concurrency)
        check_choice("on_saturated", on_saturated, get_args(OnSaturated))
        if resume is None:
            # Nothing was updated before 1970.
            beginning = min(0, 0 if before is None else before)
            bounds = Bounds(beginning if after is None else after, before)
            covered: list[Window] = []
        else:
            bounds, covered = read_checkpoint(resume, after, before, list_filter.digest)
        ask = partial(ask_page, session, limit, zone, read=read, list_filter=list_filter)
        self._ask = partial(_ask_later, ask, clock)
        self._list_filter = list_filter
        self._planner = WalkPlanner(
            bounds,
            limit=session.page_cap.full_at(limit),
            walkers=concurrency,
            covered=covered,
            keep_saturated=on_saturated == "report",
        )
        self._raises = on_saturated == "raise"
        self._keeps_malformed = keeps_malformed
        self._instrumentation = session.instrumentation
        self._tasks: BoundedTasks[Question] = BoundedTasks()
        self._handed_out: Delivery | None = None
        self._rows: Iterator[ApplicationSummary] = iter(())
        self._malformed: deque[DecodeError] = deque()
        self._covered_fraction = 0.0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ApplicationSummary:
        """Return the next summary.

        Raises:
            SaturatedWindowError: everything else was returned, and these windows
                hold more rows than can be asked for.
            DecodeError: a row is malformed, and ``retryable`` is false; the others of its
                page were returned. Iterating again continues behind it.
            ClientClosedError: another task closed the walk meanwhile.
            ConfigurationError: another task waits for the next summary already.
            IncomeClientError: a request failed for good; iterating again tries again.
        """
        while (row := next(self._rows, None)) is None:
            if not await self._take_page():
                raise StopAsyncIteration
        return row

    async def pages(self) -> AsyncGenerator[ApplicationPage, None]:
        """Iterate over pages, without the rows that were yielded before.

        Yields:
            The bounds that the service applied, and the rows.

        Raises:
            SaturatedWindowError: as when iterating over summaries.
            DecodeError: likewise, after the page that the malformed row is missing from.
            IncomeClientError: a request failed for good; iterating again tries again.
        """
        handed_out: Delivery | None = None
        try:
            while (page := self._take_rest() or await self._next_page()) is not None:
                handed_out = self._handed_out
                if page.applications:
                    yield page
        finally:
            # After a loop that was left, this may come once the next one waits for more.
            if self._handed_out is handed_out:
                await self.aclose()

    @property
    def progress(self) -> WalkProgress:
        """Progress of the walk."""
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
        """A short text from which another walk can resume.

        It covers a row, and a malformed one that was raised, only once the consumer came
        back for the next one, and a saturated window never.
        """
        planner = self._planner
        return write_checkpoint(planner.bounds, planner.covered, self._list_filter.digest)

    @property
    def saturated(self) -> tuple[Window, ...]:
        """Saturated seconds found so far: seconds with more rows than any list call returns."""
        return tuple(self._planner.saturated)

    async def aclose(self) -> None:
        """Cancel the requests in flight; iterating again sends them again."""
        # Taken back before anything is awaited: a second cancellation must not lose them.
        for question in self._tasks.keys:
            self._planner.drop(question)
        await self._tasks.cancel()

    async def _take_page(self) -> bool:
        """Begin to hand out the rows of the next page; False after the last one."""
        page = await self._next_page()
        if page is not None:
            self._rows = iter(page.applications)
        return page is not None

    async def _next_page(self) -> ApplicationPage | None:
        """Return the next page without its malformed rows, which are raised one by one after it."""
        self._tasks.check_is_free()
        if self._malformed:
            await self.aclose()
            raise self._malformed.popleft()
        if self._handed_out is not None:
            self._acknowledge_delivery(self._handed_out)
            self._handed_out = None
        try:
            while (delivery := self._take_ready()) is None:
                self._start_requests()
                if not self._tasks:
                    self._end_walk()
                    return None
                await self._take_answer()
        except BaseException:
            await self.aclose()
            raise
        self._start_requests()
        self._handed_out = delivery
        return self._without_malformed(delivery.page)

    def _without_malformed(self, page: ApplicationPage) -> ApplicationPage:
        """Put the errors of malformed rows aside, and return the page of the others."""
        malformed = [row for row in page.applications if isinstance(row, MalformedRow)]
        if not malformed or self._keeps_malformed:
            return page
        self._malformed.extend(row.error for row in malformed)
        rows = tuple(row for row in page.applications if not isinstance(row, MalformedRow))
        return evolve(page, applications=rows)

    def _take_ready(self) -> Delivery | None:
        ready = self._planner.ready
        while ready:
            delivery = ready.popleft()
            if delivery.page.applications:
                return delivery
            self._acknowledge_delivery(delivery)
        return None

    def _take_rest(self) -> ApplicationPage | None:
        """Return the rest of a page that was yielded row by row."""
        rows = tuple(self._rows)
        if not rows or self._handed_out is None:
            return None
        return evolve(self._handed_out.page, applications=rows)

    def _acknowledge_delivery(self, delivery: Delivery) -> None:
        planner = self._planner
        planner.acknowledge(delivery)
        span = planner.span
        fraction = planner.covered.seconds / max(1, span.before - span.after)
        # The span of an open walk grows with time.
        self._covered_fraction = max(self._covered_fraction, fraction)
        emit = self._instrumentation.emit
        if emit is not None:
            covered = PageCovered(
                window=delivery.covers,
                rows=len(delivery.page.applications),
                covered_fraction=self._covered_fraction,
                requests=planner.requests,
            )
            emit(covered)

    def _start_requests(self) -> None:
        """Put every walker to work, unless deliveries are waiting to be taken."""
        while not self._planner.ready and (question := self._planner.next()) is not None:
            self._tasks.start(question, self._ask(question))

    async def _take_answer(self) -> None:
        finished = await self._tasks.next()
        planner, question = self._planner, finished.key
        match finished.error:
            case None:
                splits = planner.splits
                planner.receive(question, finished.result)
                if planner.splits > splits and (emit := self._instrumentation.emit) is not None:
                    rows = len(finished.result.page.applications)
                    emit(WindowSplit(window=question.window, rows=rows))
            case InvalidRequestError() if planner.refuse(question):
                pass
            case error:
                planner.drop(question)
                raise error

    def _end_walk(self) -> None:
        planner = self._planner
        if not planner.saturated:
            self._covered_fraction = 1.0
        if planner.saturated and self._raises:
            self._raises = False
            rows = tuple(planner.withheld.values())
            raise SaturatedWindowError(tuple(planner.saturated), rows)
