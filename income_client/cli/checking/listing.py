"""Asks the list call what the contract leaves open; concludes only what to ask next."""

from typing import Final

from attrs import evolve, frozen

from .facts import Trouble
from .limits import limits_of
from .list_facts import LARGEST, Clamp, Future, ListFacts
from .questions import Page, Questions
from .rows import samples_of, trials_of
from .times import Offset, Reading, offset_of, zone_shift

_HOUR: Final = 3600
_FURTHEST_ZONE: Final = 26 * _HOUR
"""No two zones are further apart: what is tells something else than the time of day."""


@frozen(kw_only=True)
class _Width:
    """What becomes of a very wide window."""

    clamp: Clamp
    seconds: int | None = None


async def examine_list(questions: Questions, first: Page, utc: Offset | None) -> ListFacts:
    """Find out what the list does.

    Args:
        questions: ask.
        first: the page that the service gave without being told anything.
        utc: how far the service's Date header is ahead of this machine, if it is known.
    """
    present = _present(first, utc)
    facts = ListFacts(
        default_span=first.before - first.after,
        starts_at_the_beginning=first.after <= 0,
        ends_at_the_present=bool(_readings(present, first)),
        future=await _future(questions, present),
    )
    wide = await questions.page(0, None, LARGEST)
    if isinstance(wide, Trouble):
        return evolve(facts, presents=_readings(present, first))
    width = await _width(questions, wide, present)
    facts = evolve(facts, clamp=width.clamp, clamp_seconds=width.seconds)
    if wide.before < present - _FURTHEST_ZONE and width.seconds is not None:
        # Cut at its end, it shows the beginning of time and nothing else.
        recent = await questions.page(present - width.seconds // 2, None, LARGEST)
        wide = recent if isinstance(recent, Page) else wide
    presents = _readings(present, first, wide)
    samples = await samples_of(questions, wide.ids)
    frame = offset_of(presents)
    shift = 0 if frame is None or utc is None else zone_shift(frame, utc)
    trials = await trials_of(questions, samples, shift)
    limits = await limits_of(questions, default=first, large=wide, seconds=samples.seconds)
    return evolve(
        facts,
        presents=presents,
        update_seconds=samples.seconds,
        unread=samples.unread,
        trials=trials.made,
        shift=trials.shift,
        limits=limits,
    )


def _present(first: Page, utc: Offset | None) -> int:
    """Return the service's present: the echoed bound, unless that is no present at all."""
    if utc is None:
        return first.before
    told = int(first.received_at + utc.seconds)
    return first.before if abs(first.before - told) <= _FURTHEST_ZONE else told


def _readings(present: int, *pages: Page) -> tuple[Reading, ...]:
    return tuple(
        Reading(second=page.before, sent_at=page.sent_at, received_at=page.received_at)
        for page in pages
        if abs(page.before - present) <= _FURTHEST_ZONE
    )


async def _future(questions: Questions, present: int) -> Future:
    after = present + _HOUR
    page = await questions.page(after, after + 1, 1)
    if isinstance(page, Trouble):
        return Future.REFUSED if page.kind == "InvalidRequestError" else Future.UNTOLD
    return Future.ACCEPTED if page.before == after + 1 else Future.LOWERED


async def _width(questions: Questions, wide: Page, present: int) -> _Width:
    seconds = wide.before - wide.after
    if wide.after <= 0:
        is_cut = wide.before < present - _FURTHEST_ZONE
        return _Width(clamp=Clamp.WIDTH, seconds=seconds) if is_cut else _Width(clamp=Clamp.NONE)
    # Where a beginning moves along with the end, it is the width that is limited.
    again = await questions.page(0, wide.after + seconds // 2, 1)
    if isinstance(again, Trouble):
        return _Width(clamp=Clamp.UNTOLD, seconds=seconds)
    is_fixed = abs(again.after - wide.after) <= seconds // 4
    return _Width(clamp=Clamp.OLDEST if is_fixed else Clamp.WIDTH, seconds=seconds)
