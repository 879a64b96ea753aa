"""What the service does: credentials, clock, speed, and what its list leaves open."""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from types import SimpleNamespace
from typing import Any, Final, ParamSpec, TypeVar
from urllib.parse import urlsplit

import aiohttp
from attrs import frozen

from income_client import (
    ApplicationPage,
    AuthenticationError,
    BasicAuth,
    DecodeError,
    Event,
    IncomeClient,
    IncomeClientError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitedError,
    RetryPolicy,
    ServerError,
    Timeouts,
    TokenError,
    TokenRenewed,
    UnexpectedResponseError,
)
from income_client.cli.connection import Ready
from income_client.cli.options import BEGINNING
from income_client.cli.output import counted, duration

from .network import Finding, UnansweredError, Verdict, milliseconds

MOST_SECONDS: Final = 60.0
LARGEST: Final = 1000
"""The highest limit of a page (contract section 4.1)."""

P = ParamSpec("P")
T = TypeVar("T")

_TIMEOUTS: Final = Timeouts(connect=5.0, read=10.0, deadline=15.0)
_SECOND: Final = timedelta(seconds=1)
_FURTHEST_ZONE: Final = timedelta(hours=26)
"""No two zones are further apart: a bound beyond is not the present of any."""
_DEFAULT_LIMIT: Final = 25
_SMALL_LIMIT: Final = 5

_EQUAL_CLOCKS: Final = 2.0
_CLOSE_CLOCKS: Final = 30.0
_QUICK: Final = 0.5
_SLOW: Final = 2.0

_QUARTER: Final = 900
_LEAST_ZONE: Final = 600
"""Seconds below which two times differ by their clocks, and not by their zones."""

_SAMPLES: Final = (0.0, 0.07, 0.26, 0.43, 0.78, 1.0)
"""Which rows of a page are read, as shares of its length."""
_TRIALS: Final = 3
_AROUND: Final = (-1, 1)
_WINDOWS: Final = (_AROUND, (0, 1), (-1, 0), (-2, -1), (1, 2), _AROUND)
"""Bounds, in seconds from a row's last update, between which it is looked for."""


@frozen
class _Offset:
    """Between which seconds another clock is ahead of this machine's."""

    low: float
    high: float

    @property
    def seconds(self) -> float:
        """The middle of it."""
        return (self.low + self.high) / 2

    @property
    def error(self) -> float:
        """How far to either side of the middle it may be."""
        return (self.high - self.low) / 2

    def __str__(self) -> str:
        apart = abs(self.seconds)
        if apart <= self.error:
            return f"equal to this machine's, ± {self.error:.1f} s"
        side = "ahead of" if self.seconds > 0 else "behind"
        return f"{duration(apart)} {side} this machine's, ± {self.error:.1f} s"


class Service:
    """The service as its client meets it: asks one question at a time, and none twice."""

    def __init__(self, ready: Ready) -> None:
        self.ready = ready
        self.calls: int = 0
        self.is_refused: bool = False
        self._is_basic = isinstance(ready.auth, BasicAuth)
        self._ends_at = time.monotonic() + MOST_SECONDS - _TIMEOUTS.deadline
        self._end: UnansweredError | None = None
        self._seconds: list[float] = []
        self._throttled: RateLimitedError | None = None
        self._token_lifetime: float | None = None
        # Seen by the client's hooks
        self._dates: list[_Offset] = []
        # Learnt from one check for the next
        self._presents: list[_Offset] = []
        self._samples: list[tuple[str, datetime]] = []
        self._shift = 0
        self.client: IncomeClient = ready.client(
            timeouts=_TIMEOUTS,
            retry=RetryPolicy(max_attempts=1),
            on_event=self._on_event,
            trace_configs=[self._trace()],
        )

    # What goes over the network

    def _on_event(self, event: Event) -> None:
        if isinstance(event, TokenRenewed):
            self._token_lifetime = event.lifetime

    def _trace(self) -> aiohttp.TraceConfig:
        host = urlsplit(self.ready.configuration.account.base_url or "").hostname

        async def on_start(_: Any, context: SimpleNamespace, __: Any) -> None:
            context.sent_at = time.time()

        async def on_end(
            _: Any, context: SimpleNamespace, reply: aiohttp.TraceRequestEndParams
        ) -> None:
            if reply.url.host == host:
                # A missing or invalid header is as good as none.
                with suppress(KeyError, ValueError, TypeError, OverflowError):
                    date = parsedate_to_datetime(reply.response.headers["Date"])
                    self._dates.append(_offset_since(context.sent_at, date))

        trace = aiohttp.TraceConfig()
        trace.on_request_start.append(on_start)
        trace.on_request_end.append(on_end)
        return trace

    async def _ask(self, method: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make a call, unless enough of them have failed or time is up."""
        if self._end is None and time.monotonic() >= self._ends_at:
            reason = f"not asked: the {MOST_SECONDS:g} s for all checks are over"
            self._end = UnansweredError(reason)
        if self._end is not None:
            raise self._end
        self.calls += 1
        began = time.perf_counter()
        try:
            answer = await method(*args, **kwargs)
        except RateLimitedError as error:
            self._throttled = error
            self._end = UnansweredError("not asked: the service wants fewer requests")
            raise
        if self.calls > 1:  # the first one requests the token and opens the connection
            self._seconds.append(time.perf_counter() - began)
        return answer

    async def _page(
        self, after: datetime | None, before: datetime | None, limit: int | None
    ) -> ApplicationPage:
        sent_at = time.time()
        page = await self._ask(self.client.get_application_page, after, before, limit)
        if before is None:
            self._presents.append(_offset_since(sent_at, page.updated_before))
        return page

    # The checks, in their order

    async def check_credentials(self) -> Finding:
        """Make the first call."""
        try:
            self._first = await self._page(None, None, None)
        except IncomeClientError as error:
            self.is_refused = isinstance(error, AuthenticationError | PermissionDeniedError)
            number = f" (request id {error.request_id})" if error.request_id else ""
            return Finding(Verdict.FAILED, error.message + number, self._advice(error))
        if self._is_basic:
            return Finding(Verdict.OK, "user name and password are accepted")
        lifetime = self._token_lifetime or 0.0
        words = duration(max(lifetime, 60 * round(lifetime / 60)))  # the client's margin aside
        return Finding(Verdict.OK, f"an access token was issued and accepted; valid for {words}")

    def _advice(self, error: IncomeClientError) -> str:
        if isinstance(error, AuthenticationError):
            if self._token_lifetime is not None:
                return (
                    "a token was issued, and the service refused it: check that INCOME_AUTH_URL is "
                    "of the same environment (staging, production)"
                )
            pair = "user name and password" if self._is_basic else "client id and secret"
            return f"check {pair}, and that they are for this environment (staging, production)"
        if (advice := _ADVICE.get(type(error))) is not None:
            return advice
        if self.ready.configuration.account.proxy is not None:
            return "check the proxy's address, and that it allows this host"
        return "try again; the connection itself was good before"

    async def check_clock(self) -> Finding:
        """Compare this machine's clock with the service's Date headers."""
        if not self._dates:
            return Finding(Verdict.SKIPPED, "no reply has a Date header")
        offset = self._utc
        if offset is None:
            return Finding(Verdict.WARNING, "the Date headers contradict each other")
        text = f"the service's clock is {offset}"
        apart = max(0.0, abs(offset.seconds) - offset.error)
        if apart <= _CLOSE_CLOCKS:
            return Finding(Verdict.OK if apart <= _EQUAL_CLOCKS else Verdict.NOTE, text)
        advice = (
            "set this machine's clock, or tell the service's owner: no update is lost, but tokens "
            "and certificates depend on it"
        )
        return Finding(Verdict.WARNING, text, advice)

    @property
    def _utc(self) -> _Offset | None:
        return _offset_of(self._dates)

    async def check_applications(self) -> Finding:
        """Read some of the applications that the list has."""
        try:
            self._large = await self._large_page()
        except (UnansweredError, RateLimitedError):
            raise
        except IncomeClientError as error:
            return Finding(Verdict.FAILED, error.message, self._advice(error))
        ids = [row.application_id for row in self._large.applications]
        places = dict.fromkeys(round((len(ids) - 1) * share) for share in _SAMPLES)
        chosen = [ids[place] for place in places] if ids else []
        problems: Counter[str] = Counter()
        for application_id in chosen:
            try:
                application = await self._ask(self.client.get_application, application_id)
            except UnansweredError:
                if not problems:
                    raise
            except IncomeClientError as error:
                problems[error.message.replace(application_id or "()", "…")] += 1
            else:
                updated_at = application.last_updated_at.astimezone(UTC)
                self._samples.append(
                    (application_id, updated_at.replace(microsecond=0, tzinfo=None))
                )
        if not chosen:
            return Finding(Verdict.NOTE, "none is listed")
        if not problems:
            return Finding(Verdict.OK, f"{len(chosen)} of {len(chosen)} read")
        ((problem, _),) = problems.most_common(1)
        return Finding(
            Verdict.WARNING if self._samples else Verdict.FAILED,
            f"{problems.total()} of {len(chosen)} not read, most often: {problem}",
            "what polls cannot read is kept as dead letters; tell the service's owner",
        )

    async def _large_page(self) -> ApplicationPage:
        page = await self._page(BEGINNING, None, LARGEST)
        if page.updated_before < self._present - _FURTHEST_ZONE:
            # Cut at its end, it shows the beginning of time and nothing else.
            width = page.updated_before - page.updated_after
            return await self._page(self._present - width / 2, None, LARGEST)
        return page

    @property
    def _present(self) -> datetime:
        """The service's present: the bound that it applied, unless that is not the present."""
        before, utc = self._first.updated_before, self._utc
        if utc is None:
            return before
        now = datetime.fromtimestamp(time.time() + utc.seconds, UTC)
        now = now.replace(tzinfo=None, microsecond=0)
        return before if abs(before - now) <= _FURTHEST_ZONE else now

    @property
    def _frame(self) -> _Offset | None:
        """How far the list's clock is ahead, by upper bounds that are the service's present."""
        present = _offset_since(time.time(), self._present).seconds
        furthest = _FURTHEST_ZONE.total_seconds()
        return _offset_of(one for one in self._presents if abs(one.seconds - present) <= furthest)

    async def check_bounds(self) -> Finding:
        """Say whether the bounds are inclusive, by looking for rows at their very second."""
        updated = {when: application_id for application_id, when in self._samples}
        times = sorted(updated)
        if not times:
            return _undetermined("the service lists no application whose last update can be read")
        if len(times) > _TRIALS + 1:
            times = times[1:-1]  # the oldest and the latest may be special
        self._shift = await self._shift_of(updated[times[0]], times[0])
        seen = [await self._trial(updated[when], when) for when in times[:_TRIALS]]
        meanings = {each for each in seen if not isinstance(each, str)}
        if not meanings:
            return _undetermined(next(each for each in seen if isinstance(each, str)))
        if len(meanings) > 1:
            return _undetermined("rows differ: fractions of seconds may count that are not shown")
        ((lower, upper),) = meanings
        rows = counted(sum(not isinstance(each, str) for each in seen), "row")
        text = f"updated_after is {lower}, updated_before is {upper} ({rows} looked for)"
        return Finding(Verdict.OK, text)

    async def _shift_of(self, application_id: str, when: datetime) -> int:
        """Return by how many seconds the list's times are ahead of an application's, in UTC."""
        frame, utc = self._frame, self._utc
        shift = 0 if frame is None or utc is None else _zone_shift(frame, utc)
        if not shift:
            return 0
        page = await self._page(when - _SECOND, when + _SECOND, LARGEST)
        return 0 if _has(page, application_id) else shift

    async def _trial(self, application_id: str, when: datetime) -> tuple[str, str] | str:
        """Return what a row says about either bound, or why it says nothing."""
        when += self._shift * _SECOND
        seen = []
        for after, before in _WINDOWS:
            window = (when + after * _SECOND, when + before * _SECOND)
            try:
                page = await self._page(*window, LARGEST)
            except InvalidRequestError:
                return "the service refuses bounds in the future"
            if (page.updated_after, page.updated_before) != window:
                return "the service answered for another window than it was asked for"
            is_there = _has(page, application_id)
            if not is_there and len(page.applications) >= LARGEST:
                return "more rows share those seconds than one page holds"
            seen.append(is_there)
        around, lower, upper, below, above, again = seen
        if not (around and again):
            return "the list does not show the row at its last_updated_at, or it has changed"
        if below or above:
            return "the list shows the row in the seconds beside its last_updated_at too"
        return _inclusive(lower), _inclusive(upper)

    async def check_limit(self) -> Finding:
        """Say whether pages hold what they were asked to hold (contract section 8)."""
        large, rows = self._large, len(self._large.applications)
        if not rows:
            return _undetermined("the list is empty")
        limit = min(_SMALL_LIMIT, rows - 1)
        small = 0
        if limit:
            page = await self._page(large.updated_after, large.updated_before, limit)
            small = len(page.applications)
        hidden = await self._hidden() if rows < LARGEST and self._samples else None
        if hidden:
            problem = f"a page of {rows} rows, fewer than the limit, hid {hidden} or more"
            advice = f"applications get lost: in code, list them with a limit of {rows}; {_OWNER}"
            return Finding(Verdict.FAILED, problem, advice)
        for given, asked in ((rows, LARGEST), (small, limit)):
            if given > asked:
                problem = f"{given} rows where {asked} were asked for"
                return Finding(Verdict.WARNING, problem, _OWNER)
        if small < limit:
            problem = f"{small} rows where {limit} were asked for and there are more"
            return Finding(Verdict.WARNING, problem, _OWNER)
        default = len(self._first.applications)
        text = f"asked for {LARGEST}, got {rows}"
        text += ", all that there are" if hidden == 0 else ""
        text += f"; asked for {limit}, got {small}" if limit else ""
        text += f"; {default} without a limit"
        if rows < LARGEST and hidden is None:
            return Finding(Verdict.NOTE, f"{text}; whether there are more is not known")
        return Finding(Verdict.OK if default <= _DEFAULT_LIMIT else Verdict.NOTE, text)

    async def _hidden(self) -> int:
        """Count the rows that two halves of the large page's window have, and it has not."""
        large = self._large
        times = sorted(when for _, when in self._samples)
        cut = times[(len(times) - 1) // 2]
        older = await self._page(large.updated_after, cut + _SECOND, LARGEST)
        newer = await self._page(cut - _SECOND, large.updated_before, LARGEST)
        more = _ids(older) | _ids(newer)
        if more <= _ids(large):
            return 0
        # If something has changed meanwhile, the same question shows it now.
        again = await self._page(large.updated_after, large.updated_before, LARGEST)
        return len(more - _ids(large) - _ids(again))

    async def check_default_window(self) -> Finding:
        """Say which span a page without bounds is about."""
        after, before = self._first.updated_after, self._first.updated_before
        if abs(before - self._present) > _FURTHEST_ZONE:
            text = "without bounds the list ends before the present"
            return Finding(Verdict.NOTE, text, _GIVE_BOUNDS)
        if after <= BEGINNING:
            return Finding(Verdict.OK, "without bounds the list covers all time")
        text = (
            f"without bounds the list covers the last {duration((before - after).total_seconds())}"
        )
        return Finding(Verdict.NOTE, text, _GIVE_BOUNDS)

    async def check_service_time(self) -> Finding:
        """Compare the present that the list answers with the Date headers."""
        frame, utc = self._frame, self._utc
        if frame is None:
            return Finding(Verdict.SKIPPED, "the upper bounds of pages do not show the time")
        if utc is None:
            return Finding(Verdict.SKIPPED, "no Date header to compare upper bounds with")
        shift = _zone_shift(frame, utc)
        if shift and self._samples and self._shift != shift:
            text = f"the list's present is {duration(abs(shift))} from Date, and rows are not"
            advice = "the service's Date is wrong, or its zone changes with the seasons"
            return Finding(Verdict.WARNING, text, advice)
        text = f"times without zone are {_zone_name(shift)}"
        apart = frame.seconds - utc.seconds - shift
        is_close = abs(apart) <= _EQUAL_CLOCKS + frame.error + utc.error
        if not is_close:
            text += f", {abs(apart):.0f} s {'ahead of' if apart > 0 else 'behind'} Date"
        if shift:
            advice = (
                "in code, set the client's service_timezone; give commands times without a zone"
            )
            return Finding(Verdict.WARNING, text, advice)
        if is_close:
            return Finding(Verdict.OK, text)
        advice = f"polls use the earlier of both: keep --settle above {abs(apart):.0f} s"
        return Finding(Verdict.NOTE, text, advice)

    async def check_latency(self) -> Finding:
        """Say how long calls took."""
        if not self._seconds:
            return Finding(Verdict.SKIPPED, "one call only")
        seconds = sorted(self._seconds)
        middle = seconds[len(seconds) // 2]
        text = (
            f"median {milliseconds(middle)}, longest {milliseconds(seconds[-1])}, "
            f"of {counted(len(seconds), 'call')} one at a time"
        )
        if middle < _QUICK:
            return Finding(Verdict.OK, text)
        advice = "allow more requests at a time (--concurrency), and run nearer to the service"
        return Finding(Verdict.NOTE if middle < _SLOW else Verdict.WARNING, text, advice)

    async def check_rate_limits(self) -> Finding:
        """Say whether the service asked for fewer requests."""
        if self._throttled is None:
            return Finding(Verdict.OK, f"none met in {counted(self.calls, 'call')}")
        after = self._throttled.retry_after
        wait = "" if after is None else f"; it asks to wait {after:g} s"
        text = f"429 Too Many Requests at call {self.calls}{wait}"
        advice = "use --concurrency 1 (in code, the client's max_rate), then run doctor again"
        return Finding(Verdict.WARNING, text, advice)


CHECKS: Final[dict[str, tuple[Callable[[Service], Awaitable[Finding]], tuple[str, ...]]]] = {
    "credentials": (Service.check_credentials, ()),
    "clock": (Service.check_clock, ()),
    "applications": (Service.check_applications, ("credentials",)),
    "bounds": (Service.check_bounds, ("applications",)),
    "limit": (Service.check_limit, ("applications",)),
    "default window": (Service.check_default_window, ("credentials",)),
    "service time": (Service.check_service_time, ("credentials",)),
    "latency": (Service.check_latency, ("credentials",)),
    "rate limits": (Service.check_rate_limits, ()),
}
"""Checks in their order, and those that they need; a connection if none."""

_OWNER: Final = "tell the service's owner"
_GIVE_BOUNDS: Final = "in code, a single page needs bounds to show more; all commands send them"
_ADVICE: Final[dict[type[IncomeClientError], str]] = {
    PermissionDeniedError: "the credentials are right, and do not allow this: ask the service's "
    "owner what the account may read, and from which addresses",
    RateLimitedError: "try again later; another process may use the same credentials",
    TokenError: "the token endpoint has a problem: check INCOME_AUTH_URL, and try again later",
    UnexpectedResponseError: "something other than the service may answer: check the address",
    DecodeError: "the service's reply breaks the contract: tell its owner",
    InvalidRequestError: "the service refuses the request itself: tell its owner",
    NotFoundError: "there is no list at this address: check the path of INCOME_BASE_URL",
    ServerError: "the service has a problem: try again later, then tell its owner",
}


def _undetermined(reason: str) -> Finding:
    return Finding(Verdict.NOTE, f"cannot be determined: {reason}")


def _inclusive(is_inclusive: bool) -> str:
    return "inclusive" if is_inclusive else "exclusive"


def _ids(page: ApplicationPage) -> set[str]:
    return {row.application_id for row in page.applications}


def _has(page: ApplicationPage, application_id: str) -> bool:
    return application_id in _ids(page)


def _offset_since(sent_at: float, moment: datetime) -> _Offset:
    """Return what a time says that was just received, in reply to a request of then.

    A time without zone is read as UTC.
    """
    second = int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp())
    return _Offset(second - time.time(), second + 1 - sent_at)


def _offset_of(readings: Iterable[_Offset]) -> _Offset | None:
    """Return the offset that all readings allow, None if there is none."""
    readings = tuple(readings)
    low = max((each.low for each in readings), default=0.0)
    high = min((each.high for each in readings), default=-1.0)
    return None if low > high else _Offset(low, high)


def _zone_shift(frame: _Offset, utc: _Offset) -> int:
    """Return how many seconds a clock's zone is ahead of UTC, in quarters of an hour."""
    apart = frame.seconds - utc.seconds
    return round(apart / _QUARTER) * _QUARTER if abs(apart) >= _LEAST_ZONE else 0


def _zone_name(shift: int) -> str:
    """Return a shift in seconds as people write zones, such as ``UTC-05:00``."""
    hours, minutes = divmod(abs(shift) // 60, 60)
    return f"UTC{'-' if shift < 0 else '+'}{hours:02d}:{minutes:02d}" if shift else "UTC"
