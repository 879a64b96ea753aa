"""One list call of a walk or a poll: bounds in seconds go out, a page and its time come back."""

from collections.abc import Callable
from datetime import tzinfo
from functools import partial
from typing import Final

from attrs import frozen

from .errors import IncomeClientError
from .protocol.endpoints import list_applications
from .protocol.messages import Request, Response
from .protocol.questions import Bounds
from .protocol.replies import read_reply, served_at
from .protocol.timestamps import Rounding, service_second, wire_time
from .records.applications import ApplicationPage
from .session import SessionManager

ReadPage = Callable[[Request, Response], ApplicationPage | IncomeClientError]

_READ_STRICTLY: Final[ReadPage] = partial(read_reply, ApplicationPage)


@frozen
class ListReply:
    """What a list call gave."""

    page: ApplicationPage
    """The rows, and the bounds that the service applied."""
    served_at: int | None
    """The second of the service's frame at which it says that it answered."""


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
