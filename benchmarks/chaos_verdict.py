"""Holds what workers wrote against what the service had; a calculation, without clock or socket."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from attrs import define, field, frozen

from .chaos_chronicle import Chronicle, PollBegun, Version
from .chaos_nursery import Lived

_FIELDS: Final = 5


@frozen(kw_only=True)
class Delivery:
    """A record as a worker noted it."""

    life: int
    """Which worker."""
    batch: int
    """In which of its batches."""
    application_id: str
    """Whose it is."""
    application: str
    """The mark of the application."""
    documents: str
    """The mark of its documents."""


@frozen(kw_only=True)
class CalmLife:
    """A life in which nothing failed at the service."""

    number: int
    """Which one."""
    born: int
    """Its first moment."""
    letters: frozenset[str]
    """Applications among the dead letters when it began: those are due later."""


@define(kw_only=True)
class Verdict:
    """What was found; every version is named by its application and its number."""

    delivered: set[tuple[str, int]] = field(factory=set)
    """Versions of which some record was delivered."""
    owed: int = 0
    """Versions that were current during a whole poll."""
    lost: list[Version] = field(factory=list)
    """Of these, the ones that were not delivered."""
    stale: list[Version] = field(factory=list)
    """Last versions that were not delivered."""
    repeated: Counter[int] = field(factory=Counter)
    """By the life that was killed over them: records that came again."""
    unexcused: list[Delivery] = field(factory=list)
    """Records that came again although their batch was committed, or their life went on."""
    unknown: list[Delivery] = field(factory=list)
    """Records that say what the service never said."""
    backward: list[Delivery] = field(factory=list)
    """Records older than one that the application had before."""


def read_results(path: Path) -> list[Delivery]:
    """Return what all workers noted, without the lines that death has cut short."""
    deliveries = []
    for line in path.read_text().splitlines():
        parts = line.split(" ")
        if len(parts) == _FIELDS and len(parts[-1]) == len(parts[-2]):
            life, batch, application_id, application, documents = parts
            deliveries.append(
                Delivery(
                    life=int(life),
                    batch=int(batch),
                    application_id=application_id,
                    application=application,
                    documents=documents,
                )
            )
    return deliveries


def judge(
    chronicle: Chronicle,
    deliveries: Sequence[Delivery],
    lives: Iterable[Lived],
    calm: Iterable[CalmLife],
) -> Verdict:
    """Compare both sides of the story.

    Args:
        chronicle: the service's; closed.
        deliveries: the workers', in the order in which they were noted.
        lives: how each life ended.
        calm: those whose polls must have shown everything that was there.
    """
    verdict = Verdict()
    _look_at_contents(verdict, chronicle, deliveries)
    _look_at_repetitions(verdict, deliveries, {life.number: life for life in lives})
    owed = _owed(chronicle, {life.number: life for life in calm})
    verdict.owed = len(owed)
    verdict.lost = [v for v in owed if (v.application_id, v.number) not in verdict.delivered]
    verdict.stale = [
        v for v in chronicle.last_versions if (v.application_id, v.number) not in verdict.delivered
    ]
    return verdict


def _look_at_contents(
    verdict: Verdict, chronicle: Chronicle, deliveries: Iterable[Delivery]
) -> None:
    newest: dict[str, tuple[int, int]] = {}
    for one in deliveries:
        application = chronicle.number_of(one.application_id, one.application)
        documents = chronicle.number_of(one.application_id, one.documents)
        if application is None or documents is None:
            verdict.unknown.append(one)
            continue
        before = newest.get(one.application_id, (0, 0))
        if application < before[0] or documents < before[1]:
            verdict.backward.append(one)
        newest[one.application_id] = (application, documents)
        # The two are read one by one, and an update may come in between.
        if application == documents:
            verdict.delivered.add((one.application_id, application))


def _look_at_repetitions(
    verdict: Verdict, deliveries: Iterable[Delivery], lives: Mapping[int, Lived]
) -> None:
    before: dict[tuple[str, str, str], Delivery] = {}
    for one in deliveries:
        key = (one.application_id, one.application, one.documents)
        last = before.get(key)
        before[key] = one
        if last is None:
            continue
        if last.life != one.life and lives[last.life].uncommitted == last.batch:
            verdict.repeated[last.life] += 1
        else:
            verdict.unexcused.append(one)


def _owed(chronicle: Chronicle, calm: Mapping[int, CalmLife]) -> list[Version]:
    polls: dict[int, list[PollBegun]] = defaultdict(list)
    for poll in chronicle.polls:
        if poll.life in calm:
            polls[poll.life].append(poll)
    return [
        version
        for version in chronicle.versions
        if any(_is_owed(version, calm[life], begun) for life, begun in polls.items())
    ]


def _is_owed(version: Version, life: CalmLife, polls: Sequence[PollBegun]) -> bool:
    """Tell whether a version was there when a poll of a life began, and when the next one did."""
    if version.gone is not None and version.gone < life.born:
        return False
    if version.made < life.born and version.application_id in life.letters:
        return False
    for poll, following in pairwise(polls):
        if poll.moment >= version.made and poll.second >= version.shown:
            return version.gone is None or version.gone > following.moment
    return False
