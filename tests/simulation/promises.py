"""The promises of a poller, each judged by one function.

A function is called at the moment at which its promise can be broken, with the run and what has
just happened, and has the world fail. What no promise covers is in `exclusions`.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from income_client import (
    AuthenticationError,
    CheckpointConflictError,
    CheckpointError,
    IncomeClientError,
    InvalidRequestError,
)
from income_client.polling.listings import PARTS_OF_AGE

from .deliveries import Beginning, Save, position_of, read
from .exclusions import exclusion_of
from .letters import judge_letters
from .loops import EPOCH_OF_RUNS, Machine
from .stores import LONGEST_CALL, Row

if TYPE_CHECKING:
    from .callbacks import WakeUp
    from .cluster import Cluster
    from .consumers import Process

LONGEST_RETRY: Final = 60.0
"""Seconds after an outage within which everything that failed is tried again."""
CLOCK_RATE: Final = 0.02
"""By how much the clocks of two machines may differ."""


# Promise 8: everything is delivered, and once


def judge_delivery(run: "Cluster", machine: Machine, row: Row) -> None:
    """Judge a record that a consumer is given: each version comes once without a reason."""
    if run.books.is_repeated(machine, row):
        _fail(run, "8, once", f"{machine.name} is given {_name(row)} again", row.application_id)


def judge_effects(run: "Cluster", rows: Iterable[Row]) -> None:
    """Judge rows that are committed with the checkpoint: each takes effect once."""
    for row in rows:
        if not row.is_torn and run.store.state.committed.get(row.application_id) == row.version:
            _fail(run, "8, once", f"{_name(row)} takes effect twice", row.application_id)


def judge_passing(run: "Cluster", save: Save) -> None:
    """Judge the position of a save: nothing before it is left to deliver."""
    position = position_of(save.new)
    for version in run.books.pending.values():
        is_passed = version.second < position and version.number not in run.books.behind
        if is_passed and exclusion_of(run, version) is None:
            what = f"the checkpoint ({position - EPOCH_OF_RUNS}) passes {version}, not delivered"
            _fail(run, "8, at least once", what, version.application_id)


def judge_coverage(run: "Cluster", save: Save) -> None:
    """Judge the batches that a save covers: none whose block has failed is among them."""
    life = run.books.lives[save.machine]
    for row in [] if save.is_takeover else life.uncommitted:
        if row.sequence <= save.new.sequence and row in life.failed:
            what = f"a save covers {_name(row)}, whose block has failed"
            _fail(run, "8, at least once", what, row.application_id)


def judge_quiet(run: "Cluster", *, is_last: bool) -> None:
    """Judge what a quiet period leaves: the latest version of everything is delivered."""
    for version in run.books.pending.values():
        if version.second > run.service.second - 300 and not is_last:
            run.world.count("quiet: update ahead of a clock that was set back")
            continue
        exclusion = exclusion_of(run, version)
        if exclusion is None:
            _fail(run, "8, at least once", f"{version} is lost", version.application_id)
        else:
            run.world.count(f"excluded: {exclusion}")


def judge_beginning(run: "Cluster", save: Save) -> None:
    """Judge the first save into an empty store: who knows a past does not begin at the present."""
    books, second = run.books, save.new.since
    if save.old is not None:
        return
    if books.beginning is None:
        books.beginning = Beginning(save.at, second)
        return
    process = run.process_of(save.machine)
    known = None if process is None else process.known
    run.world.count(f"emptied: begun again by a process that {'knew' if known else 'was new'}")
    if process is not None and process.must_exist and process.client.seen is None:
        _fail(run, "8, no new beginning", f"{save.machine.name} begins anew, with must_exist")
    # A store that was restored meanwhile has shown a beginning before this one.
    if known and second > max(books.beginning.second, read(known).since):
        what = f"{save.machine.name} begins at {second - EPOCH_OF_RUNS}, although it knew the name"
        _fail(run, "8, no new beginning", what)
    if not known:
        run.world.count("excluded: begun anew")
        books.beginning = Beginning(save.at, second)


def judge_sequences(run: "Cluster") -> None:
    """Judge what a consumer keeps by `Batch.sequence`: the greatest is that of the newest."""
    if run.store.lost_saves_at > 0:
        return
    for row in run.books.written.values():
        latest = run.service.applications[row.application_id].latest
        # A replica may give an older version again, which only another look at the list corrects.
        is_expected = row.application_id not in run.books.pending
        is_expected = is_expected and exclusion_of(run, latest) is None
        if is_expected and row.version != latest.number:
            what = f"the greatest sequence is that of {_name(row)}, the latest is v{latest.number}"
            _fail(run, "8, sequence", what, row.application_id)


# Promise 9: the checkpoint


def judge_progress(run: "Cluster", save: Save) -> None:
    """Judge the order of saves: the checkpoint moves forward, and stays behind service time."""
    old, new = save.old, save.new
    if old is None:
        return
    if old.progress > new.progress:
        _fail(run, "9, forward only", "the checkpoint goes back")
    settle = run.books.lives[save.machine].settings.settle
    latest = run.service.latest_second
    if new.reached > max(old.reached, latest - settle):
        what = (
            f"the checkpoint ({new.reached - EPOCH_OF_RUNS}) is later than service time "
            f"({latest - EPOCH_OF_RUNS}) minus settle ({settle:g})"
        )
        _fail(run, "9, behind service time", what)


def judge_holder(run: "Cluster", save: Save) -> None:
    """Judge who saves: nobody after another has taken over, nor before a lease has expired."""
    if save.new.holder in run.books.retired:
        _fail(run, "9, one holder", f"{save.machine.name} saves although it was replaced")
    last, old = run.books.last, save.old
    if not save.is_takeover or old is None or last is None:
        return
    run.world.note("store", f"is taken over by {save.machine.name}, lease {old.lease}")
    if save.new.takeovers <= old.takeovers:
        _fail(run, "9, one holder", f"{save.machine.name} saves, and has not taken over")
    if not save.is_other:
        run.world.count("takeover: by the same process")
        return
    run.world.count("takeover: expired" if old.lease else "takeover: given up")
    judge_first_poll(run, save)
    since_loss = run.world.now - run.store.lost_saves_at
    if not old.lease or not save.new.lease or since_loss <= 2 * old.lease:
        return
    age = save.at - last.at
    if age < old.lease * (1 - 2 * CLOCK_RATE):
        what = f"{save.machine.name} takes over {age:.2f} s after a save, lease {old.lease:g}"
        _fail(run, "9, lease", what)
    settled = LONGEST_RETRY + 12 * old.lease
    if run.is_quiet and run.calm_since < run.world.now - settled:
        what = f"{save.machine.name} takes over from {last.machine.name}, which works"
        _fail(run, "9, lease", what)


def judge_memory(run: "Cluster") -> None:
    """Judge the size of the checkpoint: it remembers what the list can show again."""
    text, rules, settings = run.store.state.stored.checkpoint, run.plan.rules, run.plan.settings
    if text is None or rules.oldest_read or run.service.set_back:
        return
    checkpoint = read(text)
    # A page that is read again lists its rows up to the present of that poll.
    read_again = 2 * settings.settle + settings.lookback + settings.interval
    slack = 65 + read_again + 3_600 * (rules.future == "accept")
    oldest = position_of(checkpoint) - settings.lookback - slack
    latest = [one.latest.second for one in run.service.applications.values()]
    most = sum(second >= oldest for second in latest) + len(run.store.state.letters) + 2
    # A saturated second is listed again: what it holds is remembered until the next poll.
    ends = [one.last_listed for one in checkpoint.seen.values()]
    seen = sum(not run.service.is_saturated(end - 1, run.plan.page) for end in ends)
    if seen > most:
        what = f"the checkpoint remembers {seen} versions of {most}"
        _fail(run, "9, small", what)


# Promise 10: failures; dead letters are judged in `letters`


def judge_polls(run: "Cluster", before: dict["Process", int], received: int) -> None:
    """Judge half a quiet period in which nothing was delivered: whoever works has polled."""
    if run.world.situations["consumer: record received"] > received:
        return
    for process in run.processes:
        polls = before.get(process)
        is_leader = polls is not None and not process.is_standby
        if is_leader and process.poller.status.polls == polls:
            _fail(run, "10, nothing blocks", f"{process.machine.name} has not ended a poll")


def judge_end(run: "Cluster", process: "Process", error: BaseException | None) -> None:
    """Judge how a program has ended: transient failures end none that is not to poll just once."""
    match error:
        case None if run.plan.once and hasattr(process, "poller"):
            # One that loses its lease before it has stored the end of its poll polls again.
            takeovers = run.books.lives[process.machine].takeovers
            is_sound = process.poller.status.polls <= max(1, takeovers)
        case None:
            is_sound = True
        case AuthenticationError():
            is_sound = run.world.situations["service: 401"] > 0
        case CheckpointConflictError():
            is_sound = not run.plan.standby
        case CheckpointError() if not error.retryable:
            is_sound = process.must_exist and process.client.found_nothing
            is_sound = is_sound and process.client.seen is None
            run.world.count("store: emptied, and refused")
        case InvalidRequestError() if run.plan.once and run.plan.rules.future == "refuse":
            # Bounds of the poll came to lie in the future. The next one follows the clock.
            is_sound = any(at >= process.began_at for at, _ in run.service.set_back)
        case IncomeClientError() if run.plan.once:
            is_sound = error.retryable and run.was_disturbed_since(process.began_at)
            run.world.count("once: the error of a poll")
        case CheckpointError():
            is_sound = process.is_stopping
        case _:
            is_sound = False
    if not is_sound:
        _fail(run, "10, failures", f"{process.machine.name} ends with {error!r}")


# The guide's wake-ups: scaling.md


def judge_answer(
    run: "Cluster", process: "Process", *, is_standby: bool, is_passed_on: bool
) -> None:
    """Judge what `Poller.wake` returns: False for a standby alone whose store has no bell."""
    last, longest = run.books.last, 10 * process.settings.lease
    if last is not None and run.leader is process and run.world.now - last.at > longest:
        return  # it may have given its lease up, which no save of its own has told the store
    is_reached = run.plan.kind.has_bell or run.leader is process
    if is_passed_on < is_reached or (is_passed_on and is_standby and not is_reached):
        _fail(run, "scaling, wake-ups", f"wake() of {process.machine.name} returns {is_passed_on}")


def judge_wake_up(run: "Cluster", wake_up: "WakeUp", leader: "Process") -> None:
    """Judge how long a poller waits although it was woken, and what was updated is not delivered.

    It begins a poll at once, a second after the last one began; through the store, within two
    seconds more. A wake-up that is lost costs an interval. What was listed late is looked for
    the more seldom the later it was.
    """
    version = wake_up.version
    late = version.listed_at + run.plan.rules.oldest_read - version.made_at
    longest = leader.settings.interval + 2 + late / PARTS_OF_AGE
    if wake_up.is_sure:
        longest = 1.0 if wake_up.is_direct else 3.0
    if wake_up.waited > longest + 0.5:
        what = f"{leader.machine.name} has waited for {wake_up.waited:g} s since {wake_up.who} woke"
        _fail(run, "scaling, wake-ups", f"{what} it", version.application_id)


def judge_first_poll(run: "Cluster", save: Save) -> None:
    """Expect a poller that takes over to poll at once: what the one before was woken for."""
    disturbances, polls = run.disturbances, len(run.service.lists)

    def judge() -> None:
        process = run.process_of(save.machine)
        # The reply to a save that was sent in an outage may still be under way.
        is_calm = run.is_calm and save.at - run.calm_since > LONGEST_CALL
        is_disturbed = run.disturbances != disturbances or not (is_calm and run.is_serving)
        if process is None or process.is_stopping or not process.is_awake or is_disturbed:
            return
        run.world.count("wake-up: a poll after a takeover")
        if len(run.service.lists) == polls:
            _fail(run, "scaling, wake-ups", f"{save.machine.name} takes over, and does not poll")

    run.world.after(2.0, judge)


# Promise 11: the end


def judge_rest(run: "Cluster", machine: Machine) -> None:
    """Judge what an ended program leaves: no task, no error that nobody has seen."""
    if machine.open_tasks or machine.errors:
        what = f"{machine.name} leaves {machine.open_tasks} {machine.errors}"
        _fail(run, "11, nothing is left", what)


def judge_stopped(run: "Cluster") -> None:
    """Judge the end of a run: every program ends within half a minute of its stop."""
    left = [machine.name for machine in run.world.machines]
    if left:
        _fail(run, "11, stopping", f"{left} did not end")


def _name(row: Row) -> str:
    return f"{row.application_id} v{row.version}"


def _fail(run: "Cluster", promise: str, what: str, application_id: str | None = None) -> None:
    run.world.fail(f"promise {promise}", what, application_id)


def judge_save(run: "Cluster", save: Save) -> None:
    """Judge a save by every promise about saves."""
    for judge in (judge_beginning, judge_holder, judge_progress, judge_passing, judge_coverage):
        judge(run, save)
    judge_letters(run, save.machine)
