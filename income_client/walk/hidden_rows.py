"""Find out whether a page of the list that is not full hides rows.

A page has fewer rows than were asked for where there are no more, or where the service, or a
gateway before it, returns no more. In the second case a part of the page's window lists a row that
the page does not have.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from income_client.errors import InvalidRequestError

from .windows import Answer, Bounds, second_of

Ask = Callable[[Bounds], Awaitable[Answer]]

_NARROWEST: Final = 4
"""Seconds between the bounds of a part from which on both halves are narrower."""


async def hides_rows(page: Answer, bounds: Bounds, ask: Ask) -> bool | None:
    """Return whether a page for these bounds hides rows; None if that cannot be found out.

    ``ask`` makes list calls with the limit of the page. Nothing is proved where the service refuses
    one of them, or where one second has as many rows as the page.
    """
    try:
        hides = await _has_part_with_more(page, ask)
        # A row may have been added meanwhile: then the page has more when it is asked again.
        return hides and _size(await ask(bounds)) == _size(page)
    except InvalidRequestError:
        return None


async def _has_part_with_more(page: Answer, ask: Ask) -> bool | None:
    """Return whether a part of the page's window lists a row that the page does not have."""
    # Many applications are updated soon after their date.
    dates = sorted(second_of(row.application_date) for row in page.rows.values())
    date = dates[len(dates) // 2]
    parts = [Bounds(page.echo.after, page.echo.before)]
    is_known = True
    while parts:
        part = parts.pop()
        middle = _middle(part, date)
        if middle is None:
            is_known = False
            continue
        lower = await ask(Bounds(part.after, middle))
        if not lower.rows.keys() <= page.rows.keys():
            return True
        if not lower.rows:
            # The other half has all of the page, and is as doubtful.
            parts.append(Bounds(middle - 1, part.before))
            continue
        upper = await ask(Bounds(middle - 1, part.before))
        if not upper.rows.keys() <= page.rows.keys():
            return True
        halves = ((lower, Bounds(part.after, middle)), (upper, Bounds(middle - 1, part.before)))
        parts += [half for answer, half in halves if _size(answer) >= _size(page)]
    return False if is_known else None


def _middle(part: Bounds, date: int) -> int | None:
    """Return the second at which a part is divided; None if it is too narrow."""
    before = part.seconds.before - 1
    if before - part.after < _NARROWEST:
        return None
    return date if part.after + 1 < date < before else (part.after + before) // 2


def _size(answer: Answer) -> int:
    return len(answer.page.applications)
