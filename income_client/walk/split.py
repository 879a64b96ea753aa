"""Cut a span into parts that hold about as many rows each, by a few list calls.

First a sampler estimates where the rows are; then the page around each cut is asked for, since
a cut counts only where that page hides no row. Where the cuts lie decides how even the parts
are, never what they hold together.
"""

from collections.abc import Generator
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from income_client.records.parts import SpanPart
from income_client.records.window import EPOCH, Window

from .edges import Cuts, bounds_around, is_whole
from .sampling import SpanSampler
from .windows import Answer, Bounds, second_of

_QUESTIONS: Final = 30
"""List calls for each part that look for where the rows are."""
_ASIDE: Final = (0, -4, 4, -16, 16, -64, 64, -256, 256)
"""Seconds beside the best place for a cut where it is tried."""

Questions = Generator[Bounds, Answer, tuple[SpanPart, ...]]


def split_questions(
    after: int | None, before: int | None, *, present: int, settle: int, parts: int, limit: int
) -> Questions:
    """Yield what to ask about a span, take the answers, and return its parts.

    A span that reaches to the present has one more part, from shortly before it on, for what
    is updated while the others are read. There are fewer parts where no cut can be made.

    Args:
        after: lower bound of the span, in seconds; None for the beginning of time.
        before: upper bound; None for the present.
        present: the service's present.
        settle: seconds before it that are left to the part that is read last: whatever is
            updated from now on is listed there.
        parts: how many are wanted, the one that is read last aside.
        limit: rows at which a page is full.
    """
    is_open = before is None or before >= present
    start = min(0, before or 0) if after is None else after
    end = present - settle if before is None or is_open else before
    cuts: list[int] = []
    estimates = [0.0]
    if start < end:
        sampler = SpanSampler(
            Window(start, end), limit=limit, parts=parts, questions=_QUESTIONS * parts
        )
        while (window := sampler.next()) is not None:
            answer = yield Bounds(window.after, window.before)
            sampler.receive(answer.echo, len(answer.rows), is_full=answer.is_full)
        for place in sampler.cuts(parts):
            cuts += yield from _cut_near(place, within=Window(max([start, *cuts]) + 1, end))
        if is_open:
            cuts += yield from _cut_near(end, within=Window(max([start, *cuts]) + 1, end + 1))
        estimates = [sampler.rows(*pair) for pair in pairwise([start, *cuts, end + 1])]
    edges = list(pairwise([after, *cuts, before]))
    return tuple(
        SpanPart(
            number=number,
            of=len(edges),
            updated_after=_time(bounds[0]),
            updated_before=_time(bounds[1]),
            estimated_applications=round(rows),
            read_last=is_open and number == len(edges),
        )
        for number, (bounds, rows) in enumerate(zip(edges, estimates, strict=True), 1)
    )


def bounds_of(part: SpanPart) -> tuple[int | None, int | None]:
    """Return the bounds of a part, in seconds of the service's frame."""
    after, before = part.updated_after, part.updated_before
    return None if after is None else second_of(after), (
        None if before is None else second_of(before)
    )


def cuts_of(part: SpanPart) -> Cuts:
    """Return the cuts at which a part meets other parts."""
    after, before = bounds_of(part)
    return Cuts(
        after=after if part.number > 1 else None,
        before=before if part.number < part.of else None,
    )


def _cut_near(place: int, *, within: Window) -> Generator[Bounds, Answer, list[int]]:
    """Return a cut near a place, or none if the pages around all that were tried are full."""
    for aside in _ASIDE:
        cut = place + aside
        if within.after <= cut < within.before:
            answer = yield bounds_around(cut)
            if is_whole(cut, answer):
                return [cut]
    return []


def _time(second: int | None) -> datetime | None:
    return None if second is None else EPOCH + timedelta(seconds=second)
