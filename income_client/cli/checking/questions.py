"""Single calls with a count and a time each; what fails is a value, and enough of it ends all."""

import time
from collections.abc import Awaitable, Callable
from datetime import UTC, timedelta
from http import HTTPStatus
from typing import Final, TypeVar

from attrs import evolve, frozen

from income_client import (
    ApplicationPage,
    IncomeClient,
    IncomeClientError,
    RetryPolicy,
    Timeouts,
)
from income_client.cli.options import BEGINNING

from .facts import Calls, Trouble

MOST_CALLS: Final = 34
TIMEOUTS: Final = Timeouts(connect=5.0, read=10.0, deadline=15.0)
ONCE: Final = RetryPolicy(max_attempts=1)
ALL_SECONDS: Final = 60.0

_SECOND: Final = timedelta(seconds=1)
_ENOUGH_FAILURES: Final = 3
_T = TypeVar("_T")

_USED_UP: Final = Trouble(kind="budget", text="questions or time were used up")
_BEYOND: Final = Trouble(kind="time", text="a time beyond the years 1 to 9999")


@frozen(kw_only=True)
class Page:
    """A page of the list, without what its rows say."""

    ids: tuple[str, ...]
    """Applications, in the page's order."""
    after: int
    """Lower bound that was applied, in seconds since 1970 of the service's frame."""
    before: int
    """Upper bound that was applied."""
    sent_at: float
    """When it was asked for, in seconds since 1970."""
    received_at: float
    """When it was here."""


class Questions:
    """Asks one thing at a time, and no more than it may.

    Args:
        client: asks, without repeating anything.
        on_call: told how many calls were made, before each.
        seconds: after which no more is asked.

    Attributes:
        calls: what was seen of all calls so far.
    """

    def __init__(
        self,
        client: IncomeClient,
        on_call: Callable[[int], object],
        *,
        seconds: float = ALL_SECONDS,
    ) -> None:
        self.calls: Calls = Calls()
        self._ends_at = time.monotonic() + seconds
        self._client = client
        self._on_call = on_call
        self._failures = 0
        self._end: Trouble | None = None

    @property
    def left(self) -> int:
        """How many calls may still be made."""
        if self._end is not None or time.monotonic() >= self._ends_at:
            return 0
        return MOST_CALLS - self.calls.made

    async def page(
        self, after: int | None = None, before: int | None = None, limit: int | None = None
    ) -> Page | Trouble:
        """Ask for a page.

        Args:
            after: lower bound in seconds since 1970 of the service's frame.
            before: upper bound.
            limit: most rows.
        """
        try:
            updated_after = None if after is None else BEGINNING + after * _SECOND
            updated_before = None if before is None else BEGINNING + before * _SECOND
        except OverflowError:
            return _BEYOND
        is_small = limit is None or (updated_after is not None and updated_before is not None)
        sent_at = time.time()
        page = await self._asked(
            lambda: self._client.get_application_page(updated_after, updated_before, limit),
            is_small=is_small,
        )
        if isinstance(page, Trouble):
            return page
        return _page(page, sent_at, time.time())

    async def updated_at(self, application_id: str) -> int | Trouble:
        """Ask for an application's last update, in seconds since 1970 UTC."""
        read = await self._asked(
            lambda: self._client.get_application(application_id), is_small=True
        )
        if isinstance(read, Trouble):
            return evolve(read, text=read.text.replace(application_id or "()", "…"))
        return (read.last_updated_at.astimezone(UTC).replace(tzinfo=None) - BEGINNING) // _SECOND

    async def _asked(self, call: Callable[[], Awaitable[_T]], *, is_small: bool) -> _T | Trouble:
        if not self.left:
            return self._end or _USED_UP
        self.calls = evolve(self.calls, made=self.calls.made + 1)
        self._on_call(self.calls.made)
        began = time.perf_counter()
        try:
            answer = await call()
        except IncomeClientError as error:
            return self._failed(error)
        self._failures = 0
        # The first one buys the token and opens the connection, and large ones are large.
        if is_small and self.calls.made > 1:
            took = time.perf_counter() - began
            self.calls = evolve(self.calls, seconds=(*self.calls.seconds, took))
        return answer

    def _failed(self, error: IncomeClientError) -> Trouble:
        trouble = Trouble(
            kind=type(error).__name__,
            text=error.message,
            request_id=error.request_id,
        )
        is_throttled = error.status == HTTPStatus.TOO_MANY_REQUESTS
        if is_throttled:
            pauses = (self.calls.retry_after, error.retry_after)
            self.calls = evolve(
                self.calls,
                throttled=self.calls.throttled + 1,
                retry_after=max((each for each in pauses if each is not None), default=None),
            )
        self._failures = self._failures + 1 if error.retryable else 0
        if is_throttled or self._failures >= _ENOUGH_FAILURES:
            self._end = trouble
        return trouble


def _page(page: ApplicationPage, sent_at: float, received_at: float) -> Page:
    return Page(
        ids=tuple(row.application_id for row in page.applications),
        after=(page.updated_after - BEGINNING) // _SECOND,
        before=(page.updated_before - BEGINNING) // _SECOND,
        sent_at=sent_at,
        received_at=received_at,
    )
