"""Cut a span into parts for several machines; each is read with ``list_applications(part=...)``."""

from functools import partial
from typing import TYPE_CHECKING, Final

from income_client.errors import ConfigurationError
from income_client.http.endpoints import LARGEST_LIMIT
from income_client.records.parts import SpanPart
from income_client.settings import check_count
from income_client.walk.paginator import ask_page, ask_present
from income_client.walk.split import split_questions
from income_client.wire.times import When, service_bounds

if TYPE_CHECKING:
    from income_client.client import IncomeClient

_MOST_PARTS: Final = 1000
_LATE: Final = 60
"""Seconds that the service may take to list an update."""
_SHIFT: Final = 3600
"""Seconds by which a service whose zone has summer time may set its clock back."""


async def split_span(
    client: "IncomeClient",
    after: When | None = None,
    before: When | None = None,
    parts: int = 4,
) -> tuple[SpanPart, ...]:
    """Cut a span into parts that hold about as many applications each (contract section 4.1).

    Takes about 30 list calls for each part, one after the other; the span is not walked.
    Each part is read by ``client.list_applications(part=part)``, on any machine, in any order
    and at any time. Together they yield each application once, those aside that
    are updated meanwhile. Since the sizes are estimates, more parts than machines
    spread the work best: each machine takes the next part once it is done with one.

    Where ``before`` is not set, or lies in the future, an update may move an application out
    of a part that nobody has read yet. So there is one more part, ``read_last``: read after
    all the others are done, it finds whatever was updated since, some of it a second time. It
    begins a minute before the present, or an hour more where ``service_timezone`` has summer
    time.

    Args:
        client: of the service.
        after: lower bound of the span, as for ``list_applications``; None for the beginning
            of time.
        before: upper bound, likewise; None for the present.
        parts: how many are wanted, 1 to 1000, besides the one that is read last.

    Returns:
        The parts in order of time; fewer than wanted where the rows lie so close that no cut
        can be made between them.

    Raises:
        ConfigurationError: an argument is invalid.
        IncomeClientError: a request failed after its retries.
    """
    if check_count("parts", parts) > _MOST_PARTS:
        raise ConfigurationError(f"parts must be at most {_MOST_PARTS}")
    session, zone = client._session, client._zone
    first, last = service_bounds(after, before, zone)
    ask = partial(ask_page, session, LARGEST_LIMIT, zone)
    present = (await ask_present(partial(ask_page, session, 1, zone))).present
    # A zone that gives its offset without a date has always had the same.
    settle = _LATE if zone.utcoffset(None) is not None else _LATE + _SHIFT
    questions = split_questions(
        first, last, present=present, settle=settle, parts=parts, limit=LARGEST_LIMIT
    )
    try:
        bounds = next(questions)
        while True:
            bounds = questions.send(await ask(bounds))
    except StopIteration as end:
        found: tuple[SpanPart, ...] = end.value
        return found
