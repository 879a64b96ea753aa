"""Dead letters: the program of the guide that forgets some, and how all of them are judged."""

import asyncio
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from attrs import define, field, frozen

from income_client import Application, DeadLetter, IncomeClientError, NotFoundError
from income_client.http import endpoints
from income_client.http.replies import read_reply
from income_client.records.dead_letters import is_second
from income_client.records.window import EPOCH

from .applications import Version
from .loops import EPOCH_OF_RUNS, FOREVER, Machine
from .service import session_of
from .stores import client_of

if TYPE_CHECKING:
    from .cluster import Cluster
    from .consumers import Process

_SLOW_RETRY: Final = 120.0
"""Seconds after which a dead letter that is due must have been tried, beside three polls."""
_ATTEMPTS: Final = {"NotFoundError": 2, "DecodeError": 2, "DeadlineExceededError": 1}
"""By its error, after how many attempts an application is given up; three for all others."""
_POLLS: Final = 2
"""Polls that a process may end after a removal and still store what it knew before."""


@frozen
class Removal:
    """The removal of a dead letter from the store."""

    at: float
    is_forgotten: bool
    polls: dict["Process", int]
    """Number of polls that each process had ended by then."""


@define(eq=False)
class LetterBook:
    """The dead letters of a run."""

    stored: dict[str, DeadLetter] = field(factory=dict)
    """Dead letters in the store after the last save, by key."""
    removed: dict[str, Removal] = field(factory=dict)
    """Dead letters that are not in the store any more, by key."""
    lost: list[DeadLetter] = field(factory=list)
    """Dead letters that a store has lost while its consumer has kept the checkpoint."""
    forgotten: dict[str, float] = field(factory=dict)
    """Times at which a deleted application's dead letter was forgotten, by the application's id."""


def names(letter: DeadLetter, version: Version) -> bool:
    """Return whether a dead letter says that a version may not be delivered."""
    if letter.application_id is not None:
        return letter.application_id == version.application_id
    return letter.window.after <= version.second < letter.window.before


def is_overdue(run: "Cluster", letter: DeadLetter) -> bool:
    """Return whether a dead letter should have been tried again since all faults have ended."""
    if run.quiet_since is None:
        return False
    slack = timedelta(seconds=3 * run.plan.settings.interval + _SLOW_RETRY)
    began, now = (_earliest_at(run, moment) for moment in (run.quiet_since, run.world.now))
    return max(letter.next_try_at, began) + slack < now


def _earliest_at(run: "Cluster", moment: float) -> datetime:
    """Return the service's time, as a poller reads it from `Date`.

    `Date` does not say in which pass of an hour the service is whose clocks repeat it. Until
    the second pass, a poller takes the time for an hour earlier, so that it misses nothing.
    """
    zone, second = run.service.zone, run.service.utc_second_at(moment)
    is_first_pass = zone.changes_at + zone.shift <= second < zone.changes_at
    local = zone.local_second(second) + zone.shift * is_first_pass
    return EPOCH + timedelta(seconds=local)


def judge_letters(run: "Cluster", machine: Machine) -> None:
    """Judge which dead letters a save has added: each has a cause of its own."""
    book, stored = run.books.letters, run.store.state.letters
    for key, letter in stored.items():
        if key not in book.stored:
            run.world.count(f"dead letter: {key.partition(':')[0]}")
            _judge_cause(run, letter, _known_since(run, machine, key))
    for key in book.stored.keys() - stored.keys():
        run.world.count("dead letter: resolved")
        _note_removal(run, key, is_forgotten=False)
    book.stored = dict(stored)


def _note_removal(run: "Cluster", key: str, *, is_forgotten: bool) -> None:
    polls = {one: one.poller.status.polls for one in run.processes if hasattr(one, "poller")}
    run.books.letters.removed[key] = Removal(run.world.now, is_forgotten, polls)


def _known_since(run: "Cluster", machine: Machine, key: str) -> Removal | None:
    """Return the removal of a dead letter that a process must know when it stores it again."""
    removal, process = run.books.letters.removed.get(key), run.process_of(machine)
    if removal is None or process is None:
        return None
    ended = process.poller.status.polls - removal.polls.get(process, -_POLLS)
    return removal if ended >= _POLLS else None


def _judge_cause(run: "Cluster", letter: DeadLetter, removal: Removal | None) -> None:
    """Judge a new dead letter; what has caused it must be later than its removal."""
    since = -FOREVER if removal is None else removal.at
    if letter.application_id is not None:
        application = run.service.applications[letter.application_id]
        attempts = _ATTEMPTS.get(letter.reason.partition(":")[0], 3)
        if letter.attempts < attempts:
            _fail(run, f"{letter.key} was tried {letter.attempts} times and not {attempts}")
        if application.failed_at <= since:
            _fail(run, f"{letter.key}: no reading of it has failed")
        if removal is not None and removal.is_forgotten and application.listed_at <= since:
            _fail(run, f"{letter.key} was forgotten, and comes back without being listed")
        return
    start, applications = letter.window.after, run.service.applications.values()
    if is_second(letter.window):
        if not run.service.is_saturated(start, run.plan.page):
            _fail(run, f"second {start - EPOCH_OF_RUNS} is called saturated")
    elif all(application.nameless_at <= since for application in applications):
        what = f"second {start - EPOCH_OF_RUNS}"
        _fail(run, f"a row without an id is reported from {what} on: there is none")


def judge_due_letters(run: "Cluster") -> None:
    """Judge what a quiet period leaves of the dead letters: those that are due were tried again."""
    if any(run.books.lives[one.machine].uncommitted for one in run.processes):
        return  # it is removed with the next commit, as the guide says
    for letter in run.store.state.letters.values():
        is_ahead = letter.application_id is None and letter.window.before > run.service.second
        if is_overdue(run, letter) and not is_ahead:  # AHEAD excludes it
            _fail(run, f"{letter.key} is due since {letter.next_try_at}, and was not tried again")


def forget_deleted(run: "Cluster") -> None:
    """Run the guide's program that forgets the dead letters of deleted applications."""
    machine = Machine(run.world, f"cron-{run.world.steps}", rate=1.0, offset=0.0)
    task = machine.create_task(_forget_deleted(run, machine))

    def end(task: "asyncio.Task[None]") -> None:
        if (error := task.exception()) is not None:
            _fail(run, f"the program that forgets them ends with {error!r}")
        machine.kill("has ended")

    task.add_done_callback(end)


async def _forget_deleted(run: "Cluster", machine: Machine) -> None:
    store = client_of(run.store, machine)
    session = session_of(run.service, machine)
    try:
        for letter in await store.dead_letters("default"):
            if letter.application_id is None:
                continue
            asked_at, request = run.world.now, endpoints.get_application(letter.application_id)
            try:
                await session.call(request, partial(read_reply, Application, request))
            except NotFoundError:
                run.books.letters.forgotten[letter.application_id] = asked_at
                await store.forget("default", [letter.key])
            except IncomeClientError:
                continue
    except IncomeClientError:  # of the store: the next run forgets them
        run.world.count("dead letter: not forgotten, the store fails")
    finally:
        await session.aclose()


def note_forgotten(run: "Cluster", key: str) -> None:
    """Note that the store has forgotten a dead letter."""
    run.world.count("dead letter: forgotten")
    run.books.letters.stored.pop(key, None)
    _note_removal(run, key, is_forgotten=True)


def _fail(run: "Cluster", what: str) -> None:
    run.world.fail("promise 10, dead letters", what)
