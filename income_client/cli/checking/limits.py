"""Finds out what pages hold; a page below the limit that hides rows would lose them unnoticed."""

from collections.abc import Sequence
from statistics import median_low
from typing import Final

from .facts import Trouble
from .list_facts import LARGEST, Limits
from .questions import Page, Questions

_SMALL: Final = 5


async def limits_of(
    questions: Questions, *, default: Page, large: Page, seconds: Sequence[int]
) -> Limits:
    """Find out what pages hold (contract section 4.1).

    Args:
        questions: ask.
        default: the page that the service gave without being told anything.
        large: the page with the largest limit that there is, of as much as there is.
        seconds: update times of some of its rows.
    """
    small_limit = min(_SMALL, len(large.ids) - 1)
    small: Page | Trouble | None = None
    if small_limit > 0:
        small = await questions.page(large.after, large.before, small_limit)
    hidden = None
    if seconds and len(large.ids) < LARGEST:
        hidden = await _hidden(questions, large, median_low(seconds))
    is_read = isinstance(small, Page)
    return Limits(
        default_rows=len(default.ids),
        large=len(large.ids),
        small_limit=small_limit if is_read else 0,
        small=len(small.ids) if isinstance(small, Page) else 0,
        hidden=hidden,
        repeats=small.ids == large.ids[: len(small.ids)] if isinstance(small, Page) else None,
    )


async def _hidden(questions: Questions, large: Page, cut: int) -> int | None:
    """Count the rows that two halves of a window have, and its page had not."""
    older = await questions.page(large.after, cut + 1, LARGEST)
    newer = await questions.page(cut - 1, large.before, LARGEST)
    if isinstance(older, Trouble) or isinstance(newer, Trouble):
        return None
    more = {*older.ids, *newer.ids} - set(large.ids)
    if not more:
        return 0
    # Where something has changed meanwhile, the same question shows it now.
    again = await questions.page(large.after, large.before, LARGEST)
    return None if isinstance(again, Trouble) else len(more - set(again.ids))
