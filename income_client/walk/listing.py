"""One list call of a walk or a poll: bounds in seconds go out, a page and its time come back."""

from collections.abc import Awaitable, Callable
from datetime import tzinfo
from functools import partial
from typing import Final

from attrs import frozen

from income_client.errors import IncomeClientError, InvalidRequestError, UnexpectedResponseError
from income_client.http.endpoints import list_applications
from income_client.http.messages import Request, Response
from income_client.http.replies import read_reply, served_at
from income_client.http.session import SessionManager
from income_client.records.applications import ApplicationPage
from income_client.wire.times import FIRST_SECOND, Rounding, service_second, wire_time

from .windows import Bounds, second_of

ReadPage = Callable[[Request, Response], ApplicationPage | IncomeClientError]

_READ_STRICTLY: Final[ReadPage] = partial(read_reply, ApplicationPage)
_LONG_AGO: Final = 60
"""Seconds before the `Date` of its own reply from which an echo may be the end of a cut window."""
_BEFORE_DATE: Final = (1, 3_600, 86_400 + 3_600)
"""Seconds before `Date` from which the present is looked for: `Date` may be of another zone."""
_MOST_GUESSES: Final = 40
"""More than it takes to find one second of all time by halves."""
_END_OF_TIME: Final = 3_786_912_000
"""The beginning of 2090: an echo beyond it stands for no bound, and tells no time."""


@frozen
class ListReply:
    """What a list call gave."""

    page: ApplicationPage
    """The rows, and the bounds that the service applied."""
    served_at: int | None
    """The second of the service's frame at which it says that it answered."""

    @property
    def echoed(self) -> int:
        """The upper bound that the service applied: the present, unless it cut the window."""
        return second_of(self.page.updated_before)

    @property
    def present(self) -> int:
        """The present, if the window was not cut: the smaller of the echo and `Date`."""
        return self.echoed if self.served_at is None else min(self.echoed, self.served_at)


async def ask_page(
    session: SessionManager,
    limit: int,
    zone: tzinfo,
    bounds: Bounds | None,
    *,
    read: ReadPage = _READ_STRICTLY,
) -> ListReply:
    """Make one list call (contract section 4.1).

    Args:
        session: makes the request.
        limit: most rows of the page.
        zone: the zone of the service's times that carry none.
        bounds: in seconds; None leaves both to the service.
        read: what makes a page of the reply.

    Raises:
        IncomeClientError: the request failed for good.
    """
    after = None if bounds is None else bounds.after
    before = None if bounds is None else bounds.before
    request = list_applications(
        updated_after=None if after is None else wire_time(after),
        updated_before=None if before is None else wire_time(before),
        limit=limit,
    )

    def reply_of(response: Response) -> ListReply | IncomeClientError:
        page = read(request, response)
        if isinstance(page, IncomeClientError):
            return page
        moment = served_at(response)
        if moment is None:
            return ListReply(page, None)
        return ListReply(page, service_second(moment, zone, rounding=Rounding.DOWN))

    return await session.call(request, reply_of)


async def ask_present(ask: Callable[[Bounds | None], Awaitable[ListReply]]) -> ListReply:
    """Return a reply whose echoed upper bound is the service's present.

    A service with a widest window may cut one at its upper end. Such a window ends a second
    earlier if it begins a second earlier, which the present never does; so the present is
    looked for from later lower bounds, those close to `Date` first, until it is found.

    Args:
        ask: makes a list call of one row; without bounds, both are left to the service.

    Raises:
        IncomeClientError: a request failed for good, or the service tells no time.
    """
    reply = await ask(None)
    served_at, low, high = reply.served_at, reply.echoed, _END_OF_TIME
    if served_at is not None and low >= served_at - _LONG_AGO:
        return reply
    guesses = [] if served_at is None else [served_at - before for before in _BEFORE_DATE]
    for _ in range(_MOST_GUESSES):
        if low > high:
            break
        low = max(low, FIRST_SECOND + 2)
        later = await ask(Bounds(low - 1, None))
        earlier = await ask(Bounds(low - 2, None))
        if earlier.echoed >= later.echoed:
            return earlier
        low = max(low, later.echoed)
        guess = guesses.pop(0) if guesses else (low + high) // 2
        try:
            found = (await ask(Bounds(guess, None))).echoed
        except InvalidRequestError:  # the guess lies in the future
            found = guess
        if found > guess:
            low = max(low, found)
        else:
            high = min(high, guess)
    raise UnexpectedResponseError("list_applications: the service tells no time")
