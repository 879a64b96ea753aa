"""The promises of a walk, each judged by one function."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from income_client import InvalidRequestError, UnexpectedResponseError
from income_client.walk.checkpoint import read_checkpoint

from .applications import Application, Version
from .loops import EPOCH_OF_RUNS

if TYPE_CHECKING:
    from .walks import Life, Walk, WalkRun

EXCLUDED: Final = (
    "what is updated while that stands still, or at a time that it shows twice, may be missing",
    "a bound ahead of it may be an error until it has come there",
    "so may an application that is updated twice within the last seconds of the walk",
    "The seconds beside it may be listed too: rows do not say which second they are of",
)
"""The sentences of `reading.md` that say what a walk does not promise."""


# Promises 1 and 4: what is yielded


def judge_rows(life: "Life", rows: Iterable[str]) -> None:
    """Judge rows: each was updated in the span; each comes once, unless it is updated meanwhile."""
    run = life.run
    for row in rows:
        versions = run.service.applications[row].versions
        is_inside = any(_is_inside(run, life.walk, version) for version in versions)
        if not is_inside and not run.service.set_back:
            _fail(run, "1, the span", f"{row} was never updated in the span", row)
        is_moved = versions[-1].made_at >= life.began_at
        if row in life.given and not is_moved:
            _fail(run, "1, each once", f"{life.machine.name} is given {row} again", row)


def judge_walk(run: "WalkRun", walk: "Walk") -> None:
    """Judge what all lives of a walk were given: nothing is missing, each second read is read."""
    run.world.count("walk: ended")
    for second in walk.saturated:
        _judge_saturated(run, second)
    for application in run.service.applications.values():
        if application.id in walk.given or not _is_expected(run, walk, application):
            continue
        promise = (
            "1, nothing is missing" if _is_unmoved(walk, application) else "4, nothing is missing"
        )
        _fail(run, promise, f"{application.latest} is missing", application.id)


def _is_expected(run: "WalkRun", walk: "Walk", application: Application) -> bool:
    """Return whether an application must have been yielded."""
    latest, service = application.latest, run.service
    is_there = not application.is_deleted and _is_inside(run, walk, latest)
    # From a saturated second it may have moved behind a page that was read already.
    is_saturated = any(one.second in walk.saturated for one in application.versions)
    if not is_there or is_saturated or latest.made_at > walk.last_sent_at:
        return False
    if _is_of_wrong_clock(run, walk, latest):
        run.world.count("excluded: clock that is wrong")
        return False
    present = service.second_at(walk.last_sent_at)
    if latest.second < present or run.plan.rules.future == "accept":
        return True
    if latest.made_at < walk.began_at:
        return all(at <= latest.made_at for at, _ in service.set_back)
    # Two pages up to the present stand in for the last one: the first of them has shown where an
    # application was before it moved to the second that the other hides.
    first = service.second_at(walk.sent_before_at)
    moves = sum(version.second >= first for version in application.versions)
    was_new = application.versions[0].made_at >= walk.began_at
    was_there = not was_new and application.restored_at < walk.sent_before_at
    if not was_there or moves != 1:
        return False
    return _is_inside(run, walk, application.versions[-2])


def _is_of_wrong_clock(run: "WalkRun", walk: "Walk", latest: Version) -> bool:
    """Return whether the clock stood still at an update, or has shown its time twice."""
    service = run.service
    present = service.second_at(walk.last_sent_at)
    is_twice = service.shows_twice(latest.second, since=walk.began_at)
    return latest.second > present or is_twice or (latest.second == present and service.is_standing)


def _is_inside(run: "WalkRun", walk: "Walk", version: Version) -> bool:
    """Return whether a version lies in the span, by what the bounds mean."""
    rules = run.plan.rules
    after = 0 if walk.after is None else walk.after
    is_behind = version.second - after >= (not rules.lower_closed)
    is_before = walk.before is None or walk.before - version.second >= (not rules.upper_closed)
    return is_behind and is_before


def _is_unmoved(walk: "Walk", application: Application) -> bool:
    return application.latest.made_at < walk.began_at


# Promise 2: saturated seconds, and the end


def _judge_saturated(run: "WalkRun", second: int) -> None:
    """Judge a second that is called saturated."""
    run.world.count("walk: saturated second")
    if run.service.shows_twice(second):
        run.world.count("excluded: clock that is wrong")
    elif not run.service.is_saturated(second, run.plan.page):
        what = f"second {second - EPOCH_OF_RUNS} is called saturated"
        _fail(run, "2, saturated", what)


def judge_end(run: "WalkRun", *, is_over: bool) -> None:
    """Judge the end of a run: every walk has ended."""
    if not is_over:
        _fail(run, "2, never a loop", "a walk does not end")


# Promise 3: memory


def judge_size(life: "Life", checkpoint: str | None, saturated: int) -> None:
    """Judge the length of a checkpoint: a gap for each request under way and each full second."""
    if checkpoint is None:
        return
    _, covered = read_checkpoint(checkpoint)
    most = life.intervals + 4 * life.run.plan.concurrency + 4 + saturated
    if len(covered) > most:
        _fail(life.run, "3, small", f"a checkpoint holds {len(covered)} intervals")


def judge_requests(life: "Life", sent: int) -> None:
    """Judge the requests sent while the program works on a page: a slow consumer stops them."""
    if sent > life.run.plan.concurrency and not life.run.has_trouble:
        _fail(life.run, "3, back-pressure", f"{sent} requests were sent ahead of the consumer")


# Promise 6: the end of a life


def judge_error(run: "WalkRun", life: "Life", error: BaseException | None) -> None:
    """Judge the error of a walk: the service answers badly, or has not come to what is asked."""
    walk, service = life.walk, run.service
    is_set_back = any(walk.began_at <= at for at, _ in service.set_back)
    match error:
        case None:
            is_sound = True
        case InvalidRequestError():
            # Its own bound, one that the clock has passed before, or the second after one that
            # does not end.
            latest = service.latest_second + service.is_standing
            refused = service.refused[life.refusals_before :]
            own = (walk.after, walk.before)
            is_sound = any(bound in own or bound <= latest for bound in refused)
            run.world.count("walk: bound ahead of the clock refused")
        case UnexpectedResponseError(retryable=True):
            is_sound = run.plan.rules.future == "clamp" and is_set_back
            run.world.count("walk: bound ahead of the clock lowered")
        case _:
            is_sound = run.has_trouble
    if not is_sound:
        _fail(run, "6, no error", f"{life.machine.name} ends with {error!r}")


def judge_rest(life: "Life") -> None:
    """Judge what an ended program leaves: no task, no error that nobody has seen."""
    machine = life.machine
    if machine.open_tasks or machine.errors:
        what = f"{machine.name} leaves {machine.open_tasks} {machine.errors}"
        _fail(life.run, "6, nothing is left", what)


def _fail(run: "WalkRun", promise: str, what: str, application_id: str | None = None) -> None:
    run.world.fail(f"promise {promise}", what, application_id)
