"""Run polls one after the other: the requests, the pauses and the failures of a poller."""

from collections.abc import Awaitable, Callable
from datetime import datetime, tzinfo
from functools import partial
from math import ceil
from typing import Any, Final, TypeVar

from attrs import frozen

from income_client.clock import Clock
from income_client.errors import (
    AuthenticationError,
    CheckpointError,
    ClientClosedError,
    ConfigurationError,
    IncomeClientError,
)
from income_client.fetching import Fetcher, FetchFailure
from income_client.http import endpoints
from income_client.http.endpoints import LARGEST_LIMIT
from income_client.http.session import SessionManager
from income_client.records.applications import Application
from income_client.records.documents import ApplicationDocuments
from income_client.walk.paginator import ask_page, ask_present
from income_client.walk.windows import Answer, Bounds, Question
from income_client.wire.times import Rounding, service_second

from .batches import Batch, Batches
from .checkpoint import Checkpoint, Progress
from .lease import Lease
from .plan import Chunk, Poll, PollerState
from .reading import Read, RecordVersion, Versioned, read_page, read_version
from .schedule import Schedule, growing
from .status import Monitor

T = TypeVar("T")

_ENDING: Final = (AuthenticationError, ClientClosedError, ConfigurationError)
_REFUSED_SECONDS: Final = 300.0
"""How long credentials that have worked may be refused: providers do that while deployed."""
_STORE_TRIES: Final = 6
"""Tries to store something, about half a minute, before a single poll fails for it."""
_LONGEST_STORE_PAUSE: Final = 60.0


@frozen(kw_only=True)
class PollSource:
    """Reads for one poller."""

    session: SessionManager
    """Makes the requests."""
    zone: tzinfo
    """The zone of the service's times that carry none."""
    documents: bool
    """Whether the documents are read as well."""
    pages: bool
    """Whether each document comes with its pages block."""
    concurrency: int
    """Requests in flight at a time."""
    limit: int = LARGEST_LIMIT
    """Rows asked for in one page."""

    async def ask(self, bounds: Bounds | None, *, limit: int | None = None) -> Answer:
        """Make one list call; without bounds, both are left to the service."""
        limit = self.limit if limit is None else limit
        return await ask_page(self.session, limit, self.zone, bounds, read=read_page)

    async def present(self) -> int:
        """Return the present second: the smaller of echo and `Date`."""
        return (await ask_present(partial(self.ask, limit=1))).present

    async def read(
        self, application_ids: tuple[str, ...]
    ) -> dict[str, RecordVersion | IncomeClientError]:
        """Read applications; return the record or the failure of each."""
        parts: list[Callable[[str], Any]] = [self._application]
        if self.documents:
            parts.append(self._documents)
        fetcher: Fetcher[RecordVersion | FetchFailure] = Fetcher(
            application_ids,
            parts=tuple(parts),
            assemble=RecordVersion.of,
            concurrency=self.concurrency,
            on_error="yield",
        )
        results = [result async for result in fetcher]
        return {
            one: result.error if isinstance(result, FetchFailure) else result
            for one, result in zip(application_ids, results, strict=True)
        }

    def frame(self, moment: datetime) -> int:
        """Turn an aware time into a second of the service's frame."""
        return service_second(moment, self.zone, rounding=Rounding.DOWN)

    async def _application(self, application_id: str) -> Versioned[Application]:
        request = endpoints.get_application(application_id)
        read = partial(read_version, Application, request)
        return await self.session.call(request, read)

    async def _documents(self, application_id: str) -> Versioned[ApplicationDocuments]:
        request = endpoints.get_documents(application_id, self.pages)
        read = partial(read_version, ApplicationDocuments, request)
        return await self.session.call(request, read)


class PollRunner:
    """The polls of one poller.

    Attributes:
        state: what was delivered, and what could not be read; None before the lease is taken.
        ends_with_poll: whether the poller ends with the current poll, or else the next.
    """

    def __init__(
        self,
        source: PollSource,
        lease: Lease,
        batches: Batches,
        *,
        start: Checkpoint | int | None,
        settle: int,
        lookback: int,
        schedule: Schedule,
        clock: Clock,
        monitor: Monitor,
    ) -> None:
        self.state: PollerState | None = None
        self.ends_with_poll = False
        self._source = source
        self._lease = lease
        self._batches = batches
        self._start = start
        self._settle, self._lookback = settle, lookback
        self._schedule = schedule
        self._clock = clock
        self._monitor = monitor
        self._poll: Poll | None = None
        self._chunk: Chunk | None = None
        self._is_over = False
        self._have_credentials_worked = False
        self._refused_since: float | None = None
        self._begins = 0.0
        self._began: float | None = None

    @property
    def reached(self) -> int | None:
        """The second that the checkpoint has come to; None before the lease is taken."""
        return None if self.state is None else self.state.progress.reached

    @property
    def is_polling(self) -> bool:
        """Whether a poll is under way."""
        return self._poll is not None

    def interrupt(self) -> None:
        """Forget the current poll; the next one finds out what it has not delivered."""
        self._poll = None

    async def next_batch(self) -> Batch | None:
        """Return the next batch; None once the poller was stopped."""
        while not self._schedule.is_stopped:
            batch = await self.persist(self._step)
            if batch is not None:
                self._monitor.failures = 0
                return batch
        self._poll = None
        return None

    async def persist(self, step: Callable[[], Awaitable[T]]) -> T:
        """Repeat a step with growing pauses while it fails and may succeed later.

        A failing store does not end the current poll: only the step is repeated.
        """
        tries = 0
        while True:
            try:
                return await step()
            except IncomeClientError as error:
                tries += 1
                is_of_store = isinstance(error, CheckpointError)
                if not is_of_store:
                    self._poll = None
                now = self._clock.monotonic()
                self._monitor.failed(error)
                is_last = self._is_last(error, now, tries)
                if not is_last and not is_of_store:
                    self._schedule.fail(now, error, self._monitor.failures)
                # Only now is it known when the next one begins.
                self._monitor.tell_failure(error, self.reached, is_last=is_last)
                if is_last:
                    raise
            if is_of_store:
                await self._schedule.pause(min(_LONGEST_STORE_PAUSE, growing(tries)))
            else:
                await self._schedule.until_turn()

    def _is_last(self, error: IncomeClientError, now: float, tries: int) -> bool:
        """Return whether a failure ends the poller; keep track of refused credentials."""
        match error:
            case CheckpointError():
                is_last = self.ends_with_poll and tries >= _STORE_TRIES
                is_last = is_last or not error.retryable
            case AuthenticationError():
                if self._refused_since is None:
                    self._refused_since = now
                is_long = now - self._refused_since >= _REFUSED_SECONDS
                is_last = is_long or self.ends_with_poll or not self._have_credentials_worked
            case ClientClosedError() | ConfigurationError():
                is_last = True
            case _:
                self._refused_since = None
                is_last = self.ends_with_poll
        return is_last or self._schedule.is_stopped

    async def _step(self) -> Batch | None:
        if self._schedule.is_stopped:
            return None
        if self._chunk is not None:
            batch = await self._batches.make(self._chunk, self.persist)
            self._chunk = None
            if self._is_over and self.ends_with_poll:
                self._schedule.stop()
            return batch
        if self._poll is not None:
            await self._go_on(self._poll)
        elif self.state is None:
            await self._begin()
        else:
            await self._begin_poll(self.state)
        return None

    async def _begin(self) -> None:
        given = self._start if isinstance(self._start, Checkpoint) else None
        taken = await self._schedule.unless_stopped(self._lease.take(given, self._first_second))
        if taken is not None:
            checkpoint, letters = taken
            progress = Progress(checkpoint, settle=self._settle, lookback=self._lookback)
            self.state = PollerState(progress=progress, letters=self._batches.begin(letters))
            self._monitor.committed(checkpoint.reached)

    async def _first_second(self) -> int:
        if isinstance(self._start, int):
            return self._start
        present = await self._source.present()
        self._have_credentials_worked = True
        return present

    async def _begin_poll(self, state: PollerState) -> None:
        await self._schedule.until_turn()
        await self._schedule.unless_stopped(self._lease.check())
        if self._schedule.is_stopped:
            return
        now = self._clock.monotonic()
        self._schedule.begin(now)
        self._is_over = False
        elapsed = None if self._began is None else ceil(now - self._began)
        self._begins = now
        self._monitor.unchanged = 0
        self._poll = Poll(
            state,
            frame=self._source.frame,
            limit=self._source.limit,
            pursues=self._schedule.is_urgent or self.ends_with_poll,
            elapsed=elapsed,
        )

    async def _go_on(self, poll: Poll) -> None:
        match poll.next():
            case None:
                self._chunk = poll.close()
                self._poll, self._is_over = None, True
                self._began = self._begins
                self._refused_since = None
                self._schedule.succeed()
                self._monitor.poll_finished(self.reached)
            case Question() as question:
                await self._ask(poll, question)
            case Read() as read:
                await self._read(poll, read)

    async def _ask(self, poll: Poll, question: Question) -> None:
        if question.delay:
            await self._schedule.unless_stopped(self._clock.sleep(question.delay))
        try:
            reply = await self._schedule.unless_stopped(self._source.ask(question.bounds))
            if reply is None:
                return
            self._have_credentials_worked = True
            poll.receive_page(question, reply)
        except IncomeClientError as error:
            if isinstance(error, _ENDING) or not poll.take_failure(question, error):
                raise
            return
        self._monitor.hear(poll.service_time)

    async def _read(self, poll: Poll, read: Read) -> None:
        if read.pause:
            await self._schedule.pause(read.pause)
        results = await self._schedule.unless_stopped(self._source.read(read.application_ids))
        if results is None:
            return
        if any(isinstance(result, RecordVersion) for result in results.values()):
            self._refused_since = None
        for result in results.values():
            if isinstance(result, ClientClosedError):
                raise result
        self._chunk = poll.receive_records(results)
        self._monitor.read_again(poll.unchanged, self._settle + self._lookback)
