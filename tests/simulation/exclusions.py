"""Exclusions from the promises, each with the sentence of the guide that states it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from attrs import frozen

from income_client.records.dead_letters import key_of_application

from .applications import Version
from .letters import is_overdue, names

if TYPE_CHECKING:
    from .cluster import Cluster

_POLLS_SEEN: Final = 5
"""List calls after which a poller must have noticed that the clock was set back."""


@frozen
class Exclusion:
    """A reason for which a version need not have been delivered."""

    name: str
    page: str
    sentence: str
    covers: Callable[["Cluster", Version], bool]


def exclusion_of(run: "Cluster", version: Version) -> str | None:
    """Return the name of the exclusion that covers a version; None if none does."""
    return next((one.name for one in EXCLUSIONS if one.covers(run, version)), None)


def _is_deleted(run: "Cluster", version: Version) -> bool:
    return run.service.applications[version.application_id].is_deleted


def _is_dead_letter(run: "Cluster", version: Version) -> bool:
    """Return whether the application is a dead letter that need not have been tried again yet."""
    letter = run.store.state.letters.get(key_of_application(version.application_id))
    return letter is not None and not is_overdue(run, letter)


def _is_saturated(run: "Cluster", version: Version) -> bool:
    return f"window:{version.second}" in run.store.state.letters


def _is_nameless(run: "Cluster", version: Version) -> bool:
    """Return whether the list has shown it without its id, and a dead letter says so."""
    if run.service.applications[version.application_id].nameless_at < version.made_at:
        return False
    letters = [one for one in run.store.state.letters.values() if one.key.startswith("rows")]
    about = [letter for letter in letters if names(letter, version)]
    return any(not is_overdue(run, letter) for letter in about)


def _has_lost_letter(run: "Cluster", version: Version) -> bool:
    return any(names(letter, version) for letter in run.books.letters.lost)


def _is_forgotten(run: "Cluster", version: Version) -> bool:
    """Return whether its dead letter was forgotten after a replica did not know it yet."""
    forgotten_at = run.books.letters.forgotten.get(version.application_id, float("-inf"))
    return version.made_at <= forgotten_at


def _is_before_start(run: "Cluster", version: Version) -> bool:
    begun = run.books.beginning
    return begun is None or (version.second < begun.second and version.made_at < begun.at)


def _is_listed_late(run: "Cluster", version: Version) -> bool:
    """Return whether the service listed it later than settle, by its own clock."""
    shown = run.service.utc_second_at(version.listed_at + run.plan.rules.oldest_read)
    return shown - version.utc_second > run.plan.settings.settle + 1


def _is_hidden(run: "Cluster", version: Version) -> bool:
    """Return whether nobody polled between a clock's setting back and its catching up."""
    for at, seconds in run.service.set_back:
        if at <= version.made_at <= at + seconds and seconds > run.plan.settings.lookback:
            polls = sum(at < one < at + seconds - 60 for one in run.service.lists)
            if polls < _POLLS_SEEN:
                return True
    return False


def _is_before_restored(run: "Cluster", version: Version) -> bool:
    """Return whether a store was restored that does not know that the clock was set back.

    A poll notices that while the clock is behind the restored checkpoint.
    """
    for at, position in run.books.restored:
        caught_up = at + max(0, position - run.service.second_at(at))
        polls = sum(at < one < caught_up for one in run.service.lists)
        is_hidden = version.made_at <= caught_up and version.second < position
        if is_hidden and polls < _POLLS_SEEN:
            return True
    return False


def _is_made_while_suspended(run: "Cluster", version: Version) -> bool:
    """Return whether a machine was suspended between a clock's setting back and the update.

    Its own clock stood still: it lists again what was updated since its last poll by that clock.
    """
    made_at, longest = version.made_at, 2 * run.plan.settings.interval
    is_back = any(
        at <= made_at <= at + seconds and seconds > run.plan.settings.lookback
        for at, seconds in run.service.set_back
    )
    return is_back and any(
        begin - longest <= made_at <= end for begin, end in run.world.suspensions
    )


EXCLUSIONS: Final = (
    Exclusion(
        name="deleted",
        page="polling.md",
        sentence="If it is deleted after an update and before it is read, reading is a 404",
        covers=_is_deleted,
    ),
    Exclusion(
        name="dead letter",
        page="polling.md",
        sentence="A dead letter is tried again after one to four minutes (two after a 404)",
        covers=_is_dead_letter,
    ),
    Exclusion(
        name="saturated",
        page="polling.md",
        sentence="A second with too many rows for the list call is a dead letter without an id",
        covers=_is_saturated,
    ),
    Exclusion(
        name="row without an id",
        page="polling.md",
        sentence="and so is a part of the list with a row whose id cannot be read, until that part",
        covers=_is_nameless,
    ),
    Exclusion(
        name="forgotten",
        page="polling.md",
        sentence="Do not forget one that may be readable later: its update would not be delivered",
        covers=_is_forgotten,
    ),
    Exclusion(
        name="dead letters lost, checkpoint kept",
        page="polling.md",
        sentence="If it is lost, so are they",
        covers=_has_lost_letter,
    ),
    Exclusion(
        name="before the start",
        page="polling.md",
        sentence="a time where the very first poll begins",
        covers=_is_before_start,
    ),
    Exclusion(
        name="listed later than settle",
        page="polling.md",
        sentence="One that is listed later is missed until the application is updated again",
        covers=_is_listed_late,
    ),
    Exclusion(
        name="clock set back while nobody polled",
        page="polling.md",
        sentence="the poller was stopped, or its machine suspended, while clocks went back",
        covers=_is_hidden,
    ),
    Exclusion(
        name="restored from before the clock was set back",
        page="polling.md",
        sentence="or the store to a time before the service's clock was set back, poll under a new",
        covers=_is_before_restored,
    ),
    Exclusion(
        name="clock set back while a machine was suspended",
        page="polling.md",
        sentence="or its machine suspended, while clocks went back, run one poll with `lookback",
        covers=_is_made_while_suspended,
    ),
)
AHEAD: Final = ("polling.md", "Either waits while it lies ahead of a clock that was set back")
"""The page and the sentence that let a second or a part of the list not be tried again."""
PAGE_TRIED: Final = ("reading.md", "A page with 25 rows or more that is not full is tried")
"""The page and the sentence that let a walk ask further while its consumer works on a page."""
NEW_BEGINNING: Final = ("scaling.md", "A process that is started then begins anew")
"""The page and the sentence that let a new process begin a name anew whose store was emptied."""
