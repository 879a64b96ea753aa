"""Checks of the service's behaviour, where the user can act on the result.

``credentials``: whether the first call succeeds, and what to change if it does not.
``clock``: tokens and certificates depend on this machine's clock.
``applications``: what cannot be read becomes a dead letter of polls.
``limit``: a page that hides rows without being full loses applications in silence.
``updates``: how many requests a poller or an export of a day makes.
``service time``: a zone or a clock that is not UTC moves what is given as a time, and polls.

What the contract leaves open besides, such as whether bounds are inclusive, changes nothing for
anybody: walks and polls find every application either way.
"""

import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any, Final, ParamSpec, Self, TypeVar
from urllib.parse import urlsplit

import aiohttp
from attrs import frozen

from income_client import (
    ApplicationPage,
    AuthenticationError,
    DecodeError,
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
    TransportError,
    UnexpectedResponseError,
)
from income_client.cli.connection import is_refusal, make_client
from income_client.cli.options import BEGINNING
from income_client.cli.output import counted, duration
from income_client.configuration import Configuration
from income_client.events import Event, TokenRenewed

from .network import Finding, UnansweredError, Verdict

MOST_SECONDS: Final = 60.0
LARGEST: Final = 1000
"""The highest limit of a page (contract section 4.1)."""

P = ParamSpec("P")
T = TypeVar("T")

_TIMEOUTS: Final = Timeouts(connect=5.0, read=10.0, deadline=15.0)
_SECOND: Final = timedelta(seconds=1)
_DAY: Final = timedelta(days=1)
_COUNTED_SPANS: Final = (_DAY, timedelta(hours=1), timedelta(minutes=1))
"""Spans before the present in which updates are counted, until one fits a page."""
_FURTHEST_ZONE: Final = timedelta(hours=26)
"""Largest difference of two time zones: a bound further away is not the present of any zone."""
_SMALL_LIMIT: Final = 5

_EQUAL_CLOCKS: Final = 2.0
_CLOSE_CLOCKS: Final = 30.0

_QUARTER: Final = 900
_LEAST_ZONE: Final = 600
"""Seconds below which two times differ by their clocks, and not by their zones."""

_SAMPLES: Final = (0.0, 0.07, 0.26, 0.43, 0.78, 1.0)
"""Positions of the rows that are read, as shares of the page's length."""


@frozen
class _Offset:
    """Bounds of the seconds by which another clock is ahead of this machine's."""

    low: float
    high: float

    @property
    def seconds(self) -> float:
        """Middle of the bounds."""
        return (self.low + self.high) / 2

    @property
    def error(self) -> float:
        """Largest error of the offset to either side, in seconds."""
        return (self.high - self.low) / 2

    def __str__(self) -> str:
        apart = abs(self.seconds)
        if apart <= self.error:
            return f"equal to this machine's, ± {self.error:.1f} s"
        side = "ahead of" if self.seconds > 0 else "behind"
        return f"{duration(apart)} {side} this machine's, ± {self.error:.1f} s"


class Service:
    """A service under test, which is asked one question at a time, and none twice."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self.is_refused: bool = False
        self._is_basic = configuration.account.username is not None
        self._ends_at = time.monotonic() + MOST_SECONDS - _TIMEOUTS.deadline
        self._end: UnansweredError | None = None
        self._token_lifetime: float | None = None
        # Seen by the client's hooks
        self._dates: list[_Offset] = []
        # Learnt from one check for the next
        self._presents: list[_Offset] = []
        self._widest: str | None = None
        """The span to which the service narrows longer ones; None if it does not."""
        self._samples: list[tuple[str, datetime]] = []
        self._client: IncomeClient

    @classmethod
    @asynccontextmanager
    async def open(cls, configuration: Configuration) -> AsyncIterator[Self]:
        """Open a client of the service that records the times in replies."""
        service = cls(configuration)
        async with aiohttp.ClientSession(trace_configs=[service._trace_dates()]) as session:
            service._client = make_client(
                configuration,
                session=session,
                timeouts=_TIMEOUTS,
                retry=RetryPolicy(max_attempts=1),
                on_event=service._on_event,
            )
            async with service._client:
                yield service

    # What goes over the network

    def _on_event(self, event: Event) -> None:
        if isinstance(event, TokenRenewed):
            self._token_lifetime = event.lifetime

    def _trace_dates(self) -> aiohttp.TraceConfig:
        host = urlsplit(self._configuration.account.base_url or "").hostname

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

    async def _make_call(
        self, method: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Make a call, unless too many have failed or the time is over."""
        if self._end is None and time.monotonic() >= self._ends_at:
            reason = f"not asked: the {MOST_SECONDS:g} s for all checks are over"
            self._end = UnansweredError(reason)
        if self._end is not None:
            raise self._end
        try:
            return await method(*args, **kwargs)
        except RateLimitedError:
            self._end = UnansweredError("not asked: the service wants fewer requests")
            raise

    async def _get_page(
        self, after: datetime | None, before: datetime | None, limit: int | None
    ) -> ApplicationPage:
        sent_at = time.time()
        page = await self._make_call(self._client.get_application_page, after, before, limit)
        if before is None:
            self._presents.append(_offset_since(sent_at, page.updated_before))
        return page

    # The checks, in their order

    async def check_credentials(self) -> Finding:
        """Make the first call."""
        try:
            self._first = await self._get_page(None, None, None)
        except IncomeClientError as error:
            self.is_refused = is_refusal(error)
            return Finding(Verdict.FAILED, str(error), self._advice_about(error))
        if self._is_basic:
            return Finding(Verdict.OK, "user name and password are accepted")
        lifetime = self._token_lifetime or 0.0
        words = duration(max(lifetime, 60 * round(lifetime / 60)))  # the client's margin aside
        return Finding(Verdict.OK, f"an access token was issued and accepted; valid for {words}")

    def _advice_about(self, error: IncomeClientError) -> str:
        """Return advice about a failed call, with the places of its settings."""
        match error:
            case AuthenticationError():
                return self._about_credentials()
            case TokenError():
                has_own = self._configuration.account.auth_url is not None
                address = self._configuration.setting_name("auth_url" if has_own else "base_url")
                return _about_tokens(error.status, address)
            case TransportError() if self._configuration.account.proxy is not None:
                return "check the proxy's address, and that it allows this host"
            case _:
                address = self._configuration.setting_name("base_url")
                # What does not speak HTTP is as foreign as a page of HTML.
                is_foreign = isinstance(error, TransportError) and error.is_foreign
                kind = UnexpectedResponseError if is_foreign else type(error)
                return _ADVICE.get(kind, _AGAIN).format(address=address)

    def _about_credentials(self) -> str:
        if self._token_lifetime is None:
            pair = "user name and password" if self._is_basic else "client id and secret"
            return f"check {pair}, and that they are for this environment (staging, production)"
        refused = "a token was issued, and the service refused it"
        if self._configuration.account.auth_url is None:
            return f"{refused}: {_OWNER}"
        address = self._configuration.setting_name("auth_url")
        return f"{refused}: check that {address} is of the same environment (staging, production)"

    async def check_clock(self) -> Finding:
        """Compare this machine's clock with the service's Date headers."""
        if not self._dates:
            return Finding(Verdict.SKIPPED, "no reply has a Date header")
        offset = self._utc_offset
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
    def _utc_offset(self) -> _Offset | None:
        return _offset_of(self._dates)

    async def check_applications(self) -> Finding:
        """Read some of the listed applications."""
        try:
            self._large = await self._large_page()
        except (UnansweredError, RateLimitedError):
            raise
        except IncomeClientError as error:
            return Finding(Verdict.FAILED, error.message, self._advice_about(error))
        ids = [row.application_id for row in self._large.applications]
        places = dict.fromkeys(round((len(ids) - 1) * share) for share in _SAMPLES)
        chosen = [ids[place] for place in places] if ids else []
        problems = await self._problems_with(chosen)
        if not chosen:
            return Finding(Verdict.NOTE, f"none is listed{self._narrowing}")
        if not problems:
            return Finding(Verdict.OK, f"{len(chosen)} of {len(chosen)} read")
        ((problem, _),) = problems.most_common(1)
        return Finding(
            Verdict.WARNING if self._samples else Verdict.FAILED,
            f"{problems.total()} of {len(chosen)} not read, most often: {problem}",
            "what polls cannot read is kept as dead letters; tell the service's owner",
        )

    async def _problems_with(self, application_ids: Iterable[str]) -> Counter[str]:
        """Read applications; return the errors of the unreadable ones, without ids."""
        problems: Counter[str] = Counter()
        for application_id in application_ids:
            try:
                application = await self._make_call(self._client.get_application, application_id)
            except RateLimitedError:
                raise
            except UnansweredError:
                if not problems:
                    raise
            except IncomeClientError as error:
                problems[_without_subject(error)] += 1
            else:
                updated_at = application.last_updated_at.astimezone(UTC)
                self._samples.append(
                    (application_id, updated_at.replace(microsecond=0, tzinfo=None))
                )
        return problems

    @property
    def _narrowing(self) -> str:
        """Describe a large page that covers less than all time; an empty text for all time."""
        return f" in the {self._widest} to which longer spans are narrowed" if self._widest else ""

    async def _large_page(self) -> ApplicationPage:
        page = await self._get_page(BEGINNING, None, LARGEST)
        width = page.updated_before - page.updated_after
        is_cut_at_end = page.updated_before < self._present - _FURTHEST_ZONE
        if is_cut_at_end or page.updated_after > BEGINNING:
            self._widest = duration(width.total_seconds())
        if is_cut_at_end:
            # It shows the beginning of time and nothing else.
            return await self._get_page(self._present - width / 2, None, LARGEST)
        return page

    @property
    def _present(self) -> datetime:
        """The service's present, from an applied bound; None if that is not the present."""
        before, utc = self._first.updated_before, self._utc_offset
        if utc is None:
            return before
        now = datetime.fromtimestamp(time.time() + utc.seconds, UTC)
        now = now.replace(tzinfo=None, microsecond=0)
        return before if abs(before - now) <= _FURTHEST_ZONE else now

    @property
    def _list_offset(self) -> _Offset | None:
        """Measure how far the list's clock is ahead, by upper bounds equal to its present."""
        present = _offset_since(time.time(), self._present).seconds
        furthest = _FURTHEST_ZONE.total_seconds()
        return _offset_of(
            offset for offset in self._presents if abs(offset.seconds - present) <= furthest
        )

    async def check_limit(self) -> Finding:
        """Check that pages have as many rows as their limit asks for (contract section 8)."""
        large, rows = self._large, len(self._large.applications)
        if not rows:
            return _undetermined_finding("the list is empty")
        limit = min(_SMALL_LIMIT, rows - 1)
        small = 0
        if limit:
            page = await self._get_page(large.updated_after, large.updated_before, limit)
            small = len(page.applications)
        hidden = await self._count_hidden() if rows < LARGEST and self._samples else None
        if hidden:
            problem = f"a page of {rows} rows, fewer than the limit, hid {hidden} or more"
            advice = f"walks and pollers take pages of {rows} rows as full; {_OWNER}"
            return Finding(Verdict.FAILED, problem, advice)
        for count, most in ((rows, LARGEST), (small, limit)):
            if count > most:
                problem = f"{count} rows where {most} were asked for"
                return Finding(Verdict.WARNING, problem, _OWNER)
        if small < limit:
            problem = f"{small} rows where {limit} were asked for and there are more"
            return Finding(Verdict.WARNING, problem, _OWNER)
        widest = self._widest
        text = f"asked for {LARGEST}, got {rows}{self._narrowing}"
        text += ", all that there are" if hidden == 0 else ""
        text += f"; asked for {limit}, got {small}" if limit else ""
        is_known = rows == LARGEST or hidden is not None
        text += "" if is_known else "; whether there are more is not known"
        if widest is None:
            return Finding(Verdict.OK if is_known else Verdict.NOTE, text)
        advice = (
            f"a walk takes a call for each {widest}: begin it with --updated-after, not in 1970"
        )
        return Finding(Verdict.NOTE, text, advice)

    async def _count_hidden(self) -> int:
        """Count the rows that two halves of a page's window have beyond the page."""
        large = self._large
        times = sorted(when for _, when in self._samples)
        cut = times[(len(times) - 1) // 2]
        older = await self._get_page(large.updated_after, cut + _SECOND, LARGEST)
        newer = await self._get_page(cut - _SECOND, large.updated_before, LARGEST)
        more = _ids_on(older) | _ids_on(newer)
        if more <= _ids_on(large):
            return 0
        # If something has changed meanwhile, the same question shows it now.
        again = await self._get_page(large.updated_after, large.updated_before, LARGEST)
        return len(more - _ids_on(large) - _ids_on(again))

    async def check_updates(self) -> Finding:
        """Count the applications that were updated in a day, or in less where they are many."""
        for span in _COUNTED_SPANS:
            page = await self._get_page(self._present - span, None, LARGEST)
            if len(page.applications) < LARGEST:
                break
        rows, width = len(page.applications), page.updated_before - page.updated_after
        if width < _SECOND:
            return _undetermined_finding("the service narrows spans to less than a second")
        text = f"{counted(rows, 'application')} updated in {duration(width.total_seconds())}"
        if width < _DAY:
            text += f", a rate of {rows * (_DAY / width):,.0f} a day"
        if rows >= LARGEST:
            return Finding(Verdict.NOTE, f"{text} or more")
        return Finding(Verdict.OK, text)

    async def check_service_time(self) -> Finding:
        """Compare the list's present with the Date headers."""
        frame, utc = self._list_offset, self._utc_offset
        if frame is None:
            return Finding(Verdict.SKIPPED, "the upper bounds of pages do not show the time")
        if utc is None:
            return Finding(Verdict.SKIPPED, "no Date header to compare upper bounds with")
        shift = _zone_shift(frame, utc)
        if shift and await self._has_row_in_utc():
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

    async def _has_row_in_utc(self) -> bool:
        """Return whether the list has an application at its last update, a time in UTC."""
        times = sorted((when, application_id) for application_id, when in self._samples)
        if not times:
            return False
        when, application_id = times[len(times) // 2]
        page = await self._get_page(when - _SECOND, when + _SECOND, LARGEST)
        return application_id in _ids_on(page)


CHECKS: Final[dict[str, tuple[Callable[[Service], Awaitable[Finding]], tuple[str, ...]]]] = {
    "credentials": (Service.check_credentials, ()),
    "clock": (Service.check_clock, ()),
    "applications": (Service.check_applications, ("credentials",)),
    "limit": (Service.check_limit, ("applications",)),
    "updates": (Service.check_updates, ("applications",)),
    "service time": (Service.check_service_time, ("credentials",)),
}
"""Checks in order, with the checks they depend on; a connection if none."""

_OWNER: Final = "tell the service's owner"
LATER: Final = "try again later; another process may use the same credentials"
_AGAIN: Final = "try again; the connection itself was good before"
_ADVICE: Final[Mapping[type[IncomeClientError], str]] = {
    PermissionDeniedError: "the credentials are right, and do not allow this: ask the service's "
    "owner what the account may read, and from which addresses",
    RateLimitedError: LATER,
    UnexpectedResponseError: "something other than the service may answer: check {address}",
    DecodeError: "the service's reply breaks the contract: tell its owner",
    InvalidRequestError: "the service refuses the request itself: tell its owner",
    NotFoundError: "there is no list at this address: check the path of {address}",
    ServerError: "the service has a problem: try again later, then tell its owner",
}
"""Advice by class of error; the text names the setting with the service's address."""


def _without_subject(error: IncomeClientError) -> str:
    """Return an error's message with dots for the id, so that equal errors have equal messages."""
    return error.message if error.subject is None else f"{error.call}(…): {error.detail}"


def _about_tokens(status: int | None, address: str) -> str:
    """Return advice about a token endpoint whose answer is no token."""
    match status:
        case HTTPStatus.FORBIDDEN:
            return (
                "the token endpoint refuses this account: ask the service's owner whether it is "
                "active, and from which addresses it may be used"
            )
        case HTTPStatus.TOO_MANY_REQUESTS:
            return LATER
        case int() if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return "the token endpoint has a problem: try again later, then tell its owner"
        case _:
            return f"something other than the token endpoint may answer: check {address}"


def _undetermined_finding(reason: str) -> Finding:
    return Finding(Verdict.NOTE, f"cannot be determined: {reason}")


def _ids_on(page: ApplicationPage) -> set[str]:
    return {row.application_id for row in page.applications}


def _offset_since(sent_at: float, moment: datetime) -> _Offset:
    """Return the offset of a clock, from a time in a reply and the times around its request.

    A time without zone is read as UTC.
    """
    second = int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp())
    return _Offset(second - time.time(), second + 1 - sent_at)


def _offset_of(readings: Iterable[_Offset]) -> _Offset | None:
    """Return an offset that fits all readings; None if there is none."""
    readings = tuple(readings)
    low = max((each.low for each in readings), default=0.0)
    high = min((each.high for each in readings), default=-1.0)
    return None if low > high else _Offset(low, high)


def _zone_shift(frame: _Offset, utc: _Offset) -> int:
    """Return the seconds of a zone ahead of UTC, in quarters of an hour."""
    apart = frame.seconds - utc.seconds
    return round(apart / _QUARTER) * _QUARTER if abs(apart) >= _LEAST_ZONE else 0


def _zone_name(shift: int) -> str:
    """Return a shift in seconds in the usual form, such as ``UTC-05:00``."""
    hours, minutes = divmod(abs(shift) // 60, 60)
    return f"UTC{'-' if shift < 0 else '+'}{hours:02d}:{minutes:02d}" if shift else "UTC"
