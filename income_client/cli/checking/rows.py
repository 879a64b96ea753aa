"""Looks for single rows in windows of a second or two; knows no meaning of what it sees."""

from collections.abc import Sequence
from typing import Final

from attrs import frozen

from income_client import Window

from .facts import Trouble
from .list_facts import LARGEST, Sight, Trial
from .questions import Questions

_SAMPLES: Final = (0.0, 0.07, 0.26, 0.43, 0.78, 1.0)
"""Where on a page; at even distances, rows strewn evenly would seem to be in order."""
_TRIALS: Final = 3
_QUESTIONS_OF_A_TRIAL: Final = 6
_KEPT_FOR_LIMITS: Final = 4
_AROUND: Final = Window(-1, 1)
"""Seconds from that of the row; in whatever the bounds mean, it is within."""


@frozen(kw_only=True)
class Sample:
    """An application whose last update was read."""

    application_id: str
    """Which one."""
    second: int
    """Of its last update, in seconds since 1970 UTC."""


@frozen(kw_only=True)
class Samples:
    """Some applications of one page."""

    read: tuple[Sample, ...]
    """Those that could be read, in the page's order."""
    unread: tuple[str, ...]
    """Errors of the others."""

    @property
    def seconds(self) -> tuple[int, ...]:
        """Their update times."""
        return tuple(each.second for each in self.read)


@frozen(kw_only=True)
class Trials:
    """Rows that were looked for."""

    made: tuple[Trial, ...]
    """Where they were seen."""
    shift: int
    """Seconds from the time in UTC to that of the list, by which they were looked for."""


async def samples_of(questions: Questions, ids: Sequence[str]) -> Samples:
    """Read the update times of a few applications of a page."""
    last = len(ids) - 1
    places = dict.fromkeys(round(last * share) for share in _SAMPLES)
    read: list[Sample] = []
    unread: list[str] = []
    for place in places if ids else ():
        answer = await questions.updated_at(ids[place])
        if isinstance(answer, Trouble):
            unread.append(f"{answer.kind}: {answer.text}")
        else:
            read.append(Sample(application_id=ids[place], second=answer))
    return Samples(read=tuple(read), unread=tuple(unread))


async def trials_of(questions: Questions, samples: Samples, shift: int) -> Trials:
    """Look for a few rows at, between and beside the bounds.

    Args:
        questions: ask.
        samples: the applications to choose from.
        shift: seconds that the list's times seem to be ahead of UTC; none is tried first.
    """
    chosen = _chosen(samples.read)
    shifts = dict.fromkeys((0, shift))
    used = 0
    if chosen and len(shifts) > 1:
        for used in shifts:
            if await _sight(questions, chosen[0], used, _AROUND) is Sight.THERE:
                break
    made: list[Trial] = []
    for sample in chosen:
        if questions.left < _QUESTIONS_OF_A_TRIAL + _KEPT_FOR_LIMITS:
            break
        made.append(await _trial(questions, sample, used))
    return Trials(made=tuple(made), shift=used)


def _chosen(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    """Return some of different seconds, neither the oldest nor the latest if there are others."""
    by_second = {each.second: each for each in samples}
    ordered = [by_second[second] for second in sorted(by_second)]
    middle = ordered[1:-1] if len(ordered) > _TRIALS + 1 else ordered
    return tuple(middle[:_TRIALS])


async def _trial(questions: Questions, sample: Sample, shift: int) -> Trial:
    async def sight(window: Window) -> Sight:
        return await _sight(questions, sample, shift, window)

    return Trial(
        before=await sight(_AROUND),
        at_lower=await sight(Window(0, 1)),
        at_upper=await sight(Window(-1, 0)),
        below=await sight(Window(-2, -1)),
        above=await sight(Window(1, 2)),
        after=await sight(_AROUND),
    )


async def _sight(questions: Questions, sample: Sample, shift: int, window: Window) -> Sight:
    after = sample.second + shift + window.after
    before = sample.second + shift + window.before
    page = await questions.page(after, before, LARGEST)
    if isinstance(page, Trouble):
        return Sight.UNASKED
    if (page.after, page.before) != (after, before):
        return Sight.ELSEWHERE
    if sample.application_id in page.ids:
        return Sight.THERE
    return Sight.HIDDEN if len(page.ids) >= LARGEST else Sight.ABSENT
