"""The journal of an emulator: its requests, their arguments and their replies.

No header, no body, no token and no signed address is kept in it.
"""

from collections import Counter, deque
from itertools import islice
from typing import Final
from urllib.parse import parse_qsl, unquote

from attrs import field, frozen

from .api import MOST_ROWS, USUAL_ROWS, Call, call_of
from .exchange import HttpRequest, ListedPage
from .times import parse_bound, stamp

MOST_ENTRIES: Final = 10_000
"""Largest number of entries: as many as a page can show, in a few megabytes."""
_LONGEST_PATH: Final = 200
_LONGEST_QUERY: Final = 1000
_MOST_PARAMETERS: Final = 16
_ABOUT_ONE: Final = (Call.GET_APPLICATION, Call.GET_DOCUMENTS)


@frozen(kw_only=True)
class JournalWindow:
    """The bounds of a window, None for one that is not set or cannot be read."""

    updated_after: str | None = None
    """Lower bound as ``YYYY-MM-DDTHH:MM:SS`` of service time; None if unset or invalid."""
    updated_before: str | None = None
    """Upper bound as ``YYYY-MM-DDTHH:MM:SS`` of service time; None if unset or invalid."""


@frozen(kw_only=True)
class JournalPage:
    """The arguments of a list call, and the facts of its page."""

    asked: JournalWindow
    """Window that the call requested."""
    applied: JournalWindow | None
    """The window that was applied, as the reply echoes it; None where there was no page."""
    limit: int | None
    """Largest possible number of rows: the call's limit, or 25; None for an invalid limit."""
    rows: int | None
    """Number of rows of the page; None where there was none."""
    full: bool
    """Whether the page has ``limit`` rows, so that the window may have more."""
    by_reference: bool
    """Whether the call searched for one application by its reference."""


@frozen(kw_only=True)
class JournalEntry:
    """A request in the journal."""

    id: int
    """Number of the entry, in the order in which replies were decided; no number comes twice."""
    call: str
    """The call: list_applications, get_application, get_documents, token, file, unknown."""
    method: str
    """HTTP method."""
    path: str
    """Raw path without the query, its first 200 characters."""
    application_id: str | None
    """Application of the request, if any."""
    status: int
    """Status of the reply; 0 without a reply."""
    fault: str | None
    """Kind of the fault that was played, None for a true reply."""
    request_id: str | None = None
    """``X-Request-Id`` of the reply, as in errors and logs; None without a reply."""
    milliseconds: float
    """Milliseconds from the request to its reply."""
    service_time: str
    """Service time at which the request arrived."""
    page: JournalPage | None
    """Page of a list call; None for other calls."""


@frozen
class _Noted:
    """The raw facts of a request, from which an entry is made when somebody reads it."""

    id: int
    call: Call
    method: str
    path: str
    query: str = field(repr=False)
    status: int
    fault: str | None
    request_id: str | None
    listed: ListedPage | None
    seconds: float
    second: int

    def entry(self) -> JournalEntry:
        """Return the entry, without secrets."""
        is_list = self.call is Call.LIST_APPLICATIONS
        return JournalEntry(
            id=self.id,
            call=self.call.value,
            method=self.method,
            path=self.path,
            application_id=_subject_of(self.path) if self.call in _ABOUT_ONE else None,
            status=self.status,
            fault=self.fault,
            request_id=self.request_id,
            milliseconds=round(self.seconds * 1000, 3),
            service_time=stamp(self.second),
            page=_page_of(self.query, self.listed) if is_list else None,
        )


class Journal:
    """The latest requests, oldest first.

    Attributes:
        last: number of the latest request, 0 before the first.
        full_pages: how many pages were full.
        by_call: how many requests there were, by call.
    """

    def __init__(self) -> None:
        self.last: int = 0
        self.full_pages: int = 0
        self.by_call: Counter[str] = Counter()
        self._entries: deque[_Noted] = deque(maxlen=MOST_ENTRIES)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def first(self) -> int:
        """Number of the oldest request that is kept, or of the next one if none is kept."""
        return self.last + 1 - len(self._entries)

    def add(
        self,
        request: HttpRequest,
        *,
        status: int,
        fault: str | None,
        request_id: str | None = None,
        listed: ListedPage | None,
        seconds: float,
        second: int,
    ) -> None:
        """Add a request.

        Args:
            request: as it came.
            status: of its reply; 0 where none was sent.
            fault: kind of the fault that was played, if any.
            request_id: of the reply, if one was sent.
            listed: what its page holds, where it is one of the list.
            seconds: from the request to its reply.
            second: service second at which it came.
        """
        call = call_of(request.path)
        self.last += 1
        self.by_call[call.value] += 1
        self.full_pages += listed is not None and listed.rows >= listed.limit
        noted = _Noted(
            self.last,
            call,
            request.method[:_LONGEST_PATH],
            request.path[:_LONGEST_PATH],
            request.query[:_LONGEST_QUERY],
            status,
            fault,
            request_id,
            listed,
            seconds,
            second,
        )
        self._entries.append(noted)

    def after(self, number: int, limit: int = MOST_ENTRIES) -> list[JournalEntry]:
        """Return the first of the requests after a number.

        Args:
            number: of a request; 0 for all.
            limit: most of them.
        """
        start = max(0, number + 1 - self.first)
        return [each.entry() for each in islice(self._entries, start, start + limit)]

    def clear(self) -> None:
        """Forget all requests; their numbers continue."""
        self._entries.clear()
        self.by_call.clear()
        self.full_pages = 0


def _subject_of(path: str) -> str:
    return unquote(path.split("/")[4])[:_LONGEST_PATH]


def _page_of(query: str, listed: ListedPage | None) -> JournalPage:
    try:
        parameters = dict(parse_qsl(query, max_num_fields=_MOST_PARAMETERS))
    except ValueError:
        parameters = {}
    limit = _limit_of(parameters.get("limit", str(USUAL_ROWS))) if listed is None else listed.limit
    bounds = {
        name: _bound_of(parameters.get(name, "")) for name in ("updated_after", "updated_before")
    }
    return JournalPage(
        asked=JournalWindow(**bounds),
        applied=None
        if listed is None
        else JournalWindow(updated_after=stamp(listed.after), updated_before=stamp(listed.before)),
        limit=limit,
        rows=None if listed is None else listed.rows,
        full=listed is not None and listed.rows >= listed.limit,
        by_reference="application_reference_id" in parameters,
    )


def _bound_of(text: str) -> str | None:
    second = parse_bound(text)
    return None if second is None else stamp(second)


def _limit_of(text: str) -> int | None:
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(MOST_ROWS))
    return int(text) if is_number and 1 <= int(text) <= MOST_ROWS else None
