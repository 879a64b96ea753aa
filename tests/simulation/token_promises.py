"""The promises about tokens, each judged by one function."""

from typing import TYPE_CHECKING, Final

from .token_service import seconds_left, wall_time_of

if TYPE_CHECKING:
    from .tokens import Call, Process, TokenRun

OWN_TOKENS: Final = (
    "scaling.md",
    "which ends those of the others if the service keeps only the newest",
)
"""The page and the sentence that exclude calls whose token another process has ended."""

_REFUSED_SECONDS: Final = 10.0
"""Seconds for which refused credentials are not sent again."""
_AWAY_SECONDS: Final = 75.0
"""Seconds for which a silent store is not asked, including the time of a slow answer."""
_CLAIM_SECONDS: Final = 4.0
"""Least seconds for which a claim makes other processes wait."""
_SLACK: Final = 0.1


# Promise 12: token requests


def judge_request(run: "TokenRun", process: "Process") -> None:
    """Judge a token request that is being sent: it is the only one, and there is a reason."""
    name, now = process.machine.name, process.machine.time()
    if process.requested_at is not None:
        _fail(run, "12, one request", f"{name} sends a second token request beside one under way")
    plan = run.plan
    left = process.seconds_until(min(300.0, plan.lifetime / 4))
    if left > _SLACK:
        what = f"{name} requests a token, although its own is fresh for {left:.1f} s"
        _fail(run, "12, one request", what)
    since_refusal = now - process.locked_at
    if since_refusal < _REFUSED_SECONDS - _SLACK:
        what = f"{name} sends credentials {since_refusal:.1f} s after they were refused"
        _fail(run, "12, account lock", what)
    _judge_sharing(run, process)


def _judge_sharing(run: "TokenRun", process: "Process") -> None:
    """Judge a token request beside a store that has answered all the time."""
    plan, shelf, name = run.plan, run.shelf, process.machine.name
    parts = ("store", "machines", "endpoint")
    if plan.store == "none" or not run.is_calm(_AWAY_SECONDS, *parts):
        return
    run.world.count("store: token requested while it answers")
    is_old = run.world.now - shelf.saved_at > 1 + 4 * plan.store_delay
    stored = shelf.token
    if stored is not None and is_old and stored.access_token.reveal() not in process.refused:
        left = seconds_left(stored, wall_time_of(run.world, process.wall_offset))
        if left > 1 + 4 * plan.store_delay:
            what = f"{name} requests a token, although the store has one for {left:.1f} s more"
            _fail(run, "12, shared", what)
    if plan.store != "claiming":
        return
    for other in run.processes:
        began_at = other.requested_at
        if other is process or began_at is None:
            continue
        if run.world.now - began_at < _CLAIM_SECONDS - 4 * plan.store_delay:
            what = f"{name} and {other.machine.name} request a token at the same time"
            _fail(run, "12, shared", what)


# Promise 12: the token of a call


def judge_sending(run: "TokenRun", process: "Process", call: "Call", token: str) -> None:
    """Judge an attempt of a call: at once with a token that serves, and once more after a 401."""
    name = process.machine.name
    waited = run.world.now - call.began_at
    if call.must_go_out and not call.is_sent and waited > _SLACK and not _was_paused(process, call):
        what = f"a call of {name} waited {waited:.1f} s, although there was a token that served"
        _fail(run, "12, in the background", what)
    call.is_sent = True
    if token in call.refused:
        _fail(run, "12, repeated once", f"{name} sends {token} again, which was refused")
    shared = set() if process.store is None else process.store.loaded
    most = 1 + (len(call.refused) == 2 and call.refused[1] in shared)
    if len(call.refused) > most:
        what = f"a call of {name} is sent after {len(call.refused)} refusals"
        _fail(run, "12, repeated once", what)
    if call.refused:
        run.world.count("call: repeated after a 401")


# Promises 12 and 13: the end of a call


def judge_call(
    run: "TokenRun", process: "Process", call: "Call", error: BaseException | None
) -> None:
    """Judge a call that has ended: in time, and well unless something else was not."""
    took = process.machine.time() - call.machine_began_at
    if took > run.plan.deadline + _SLACK and not _was_paused(process, call):
        what = f"a call of {process.machine.name} ends after {took:.1f} s"
        _fail(run, "13, deadline", what)
    if error is None:
        return
    # A token request that has begun while the endpoint hung may end that much later.
    seconds = run.world.now - call.began_at + _REFUSED_SECONDS + run.plan.deadline + 2
    if not run.is_calm(seconds, "endpoint", "API", "revoked", "machines"):
        return
    if run.plan.keeps_newest and run.plan.machines > 1:
        is_apart = run.plan.store != "claiming" or not run.is_calm(_AWAY_SECONDS + seconds, "store")
        if is_apart:
            run.world.count("excluded: token ended by that of another process")
            return
    _fail(run, "12, calls succeed", f"a call of {process.machine.name} fails with {error!r}")


def _was_paused(process: "Process", call: "Call") -> bool:
    return process.machine.paused_until >= call.began_at


# Promise 11: the end


def judge_rest(run: "TokenRun", process: "Process") -> None:
    """Judge what a closed client leaves: no task, no error that nobody has seen."""
    machine = process.machine
    if machine.open_tasks or machine.errors:
        what = f"{machine.name} leaves {machine.open_tasks} {machine.errors}"
        _fail(run, "11, nothing is left", what)


def judge_end(run: "TokenRun") -> None:
    """Judge the end of a run: every program has ended."""
    if run.world.machines:
        left = [machine.name for machine in run.world.machines]
        _fail(run, "11, stopping", f"{left} did not end")


def _fail(run: "TokenRun", promise: str, what: str) -> None:
    run.world.fail(f"promise {promise}", what)
