"""``income-client status``: shows how the pollers of a store are, and changes nothing."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
from attrs import asdict, frozen
from cyclopts import Parameter
from cyclopts.validators import Number
from rich.console import Group
from rich.table import Table
from rich.text import Text

from income_client import CheckpointError, ConfigurationError, IncomeClientError, Secret
from income_client.polling.checkpoint import Checkpoint, read_checkpoint
from income_client.records.dead_letters import is_second
from income_client.records.window import EPOCH
from income_client.settings import Timeouts, service_digest
from income_client.system.texts import printable

from .connection import Connection, described, make_client, read_settings
from .dead_letters import shown_reason
from .exit_status import ExitStatus
from .options import Seconds, TableOrJson, Whole
from .output import OutputLines, counted, duration, inert, print_lines, say
from .progress import StatusLine
from .stores import CredsOption, StoreOption, load_name, open_store, read_address

if TYPE_CHECKING:
    from income_client import CheckpointStore, DeadLetter, StoredCheckpoint
    from income_client.configuration import Configuration

_WATCH_SECONDS: Final = 15.0
"""Longest time for which the renewal of a lease is awaited."""
_ANSWER_SECONDS: Final = 15.0
"""Longest time for which the service's answer is awaited."""
_LOOKS: Final = 20
"""Loads of a checkpoint during the time for which it is watched."""
_MOST_SHOWN: Final = 5
"""Number of reasons and of saturated seconds that are drawn."""

_DAMAGED: Final = "the checkpoint was not written by a poller, or is damaged"

LeaseState = Literal["none", "released", "held", "expired", "silent"]


@frozen(kw_only=True)
class Lease:
    """The lease of a name, as its saves show it."""

    state: LeaseState
    """``held``: it was renewed while it was watched; ``expired``: it was not for all its seconds;
    ``silent``: it was not while it was watched, which is shorter; ``none``: the poller runs without
    standbys, and renews nothing."""
    seconds: float | None
    """Length of the lease."""
    machine: str | None
    """Name of the machine of the poller that has saved last."""
    process: int | None
    """Number of that poller's process."""


@frozen(kw_only=True)
class Late:
    """How late updates were listed in the day before ``reached``."""

    greatest: int
    """The greatest lateness in seconds."""
    updates: int
    """Number of updates whose lateness is known."""
    settle: int | None
    """Seconds by which polling stays behind the service."""


@frozen(kw_only=True)
class Reason:
    """A reason for which dead letters could not be read."""

    reason: str
    count: int


@frozen(kw_only=True)
class NameStatus:
    """The state of one name, as the command prints it in JSON."""

    name: str
    reached: datetime | None
    """Service time before which every update was delivered; None if the checkpoint is damaged."""
    lag: float | None
    """Seconds from ``reached`` to the service's present; None if that is not known."""
    lease: Lease | None
    late: Late | None
    dead_letters: int
    reasons: tuple[Reason, ...]
    """Reasons of the dead letters, the most frequent first."""
    next_try_at: datetime | None
    """Service time of the next try of a dead letter."""
    saturated: tuple[datetime, ...]
    """Seconds that hold more rows than the service can list."""
    problems: tuple[str, ...]
    """Reasons for exit status 1."""


@frozen
class _Limits:
    """The limits that ``status`` was given; None for none."""

    lag: float | None
    dead_letters: int | None


@frozen
class _Present:
    """The present of the configured service."""

    second: int | None
    """Service time; None if the service was not asked, or has not answered."""
    digests: frozenset[str]
    """Digests of the service's address and of the account, as a checkpoint may hold them."""
    reason: str
    """Reason for a missing time."""

    def lag_of(self, checkpoint: Checkpoint) -> float | None:
        """Return the seconds from what is delivered to the present; None if unknown."""
        is_other = checkpoint.service is not None and checkpoint.service not in self.digests
        if self.second is None or is_other:
            return None
        return float(max(0, self.second - checkpoint.position))


async def status(
    *,
    store: StoreOption = None,
    name: Annotated[str | None, Parameter(metavar="NAME", show_default=False)] = None,
    max_lag: Annotated[Seconds | None, Parameter(metavar="SECONDS", show_default=False)] = None,
    max_dead_letters: Annotated[
        Whole | None,
        Parameter(metavar="COUNT", validator=Number(gte=0), show_default=False),
    ] = None,
    creds: CredsOption = None,
    connection: Connection | None = None,
    output: TableOrJson = "table",
) -> int:
    """Show how the pollers of a store are.

    For each name: how far it has come and how far that is behind the service, who
    holds its lease, how late updates were listed, and what it could not read, by
    reason. Times are the service's. Nothing is written: a user that may only read is
    enough, and no poller notices.

    A lease is watched until it is renewed, which takes up to half its length, and for
    15 seconds at most. The lag is asked of the configured service, in one request as
    a rule; without configuration it is left out.

    Exits with 1 if a lease has expired, so that nobody polls, if a checkpoint cannot be
    read, if there is no such store or name, or if a limit is exceeded. So cron or a
    monitor can run it with --max-lag; a lag that is not known exceeds it.

    The password of a database comes from PGPASSWORD, or an address with a password
    from INCOME_STORE_URL.

    Example: income-client status --store postgresql://reader@db.internal/lending

    Args:
        store: Store of the pollers, as for poll: file, postgresql:// or nats://host/bucket.
            Default: $INCOME_STORE_URL.
        name: Name of a poller there. Default: all.
        max_lag: Fail if a name is further behind the service.
        max_dead_letters: Fail if a name has more dead letters.
        creds: File of credentials for a store in NATS.
        connection: The service.
        output: Format of the output.
    """
    address = read_address(store)
    service = _read_service(connection, is_needed=max_lag is not None)
    async with open_store(address, creds, must_exist=True) as checkpoints:
        names = await checkpoints.names() if name is None else (name,)
        loaded = [(each, await load_name(checkpoints, address, each)) for each in names]
        if not loaded:
            raise IncomeClientError(f"no poller has saved a checkpoint in {address.place}")
        if name is not None and not loaded[0][1].version:
            raise address.unknown_error(name)
        line = StatusLine()
        line.draw(["watching the leases"])
        try:
            watched = await asyncio.gather(
                *(_watch(checkpoints, each, stored) for each, stored in loaded)
            )
        finally:
            line.stop()
        letters = [await checkpoints.dead_letters(each) for each in names]
    present = await _ask_service(service)
    limits = _Limits(max_lag, max_dead_letters)
    states = [
        _status_of(each, seen, letters_of_name, present, limits)
        for each, seen, letters_of_name in zip(names, watched, letters, strict=True)
    ]
    if output == "json":
        content = msgspec.json.encode([asdict(each) for each in states])
        OutputLines().write(inert(msgspec.json.format(content, indent=2)))
    else:
        drawings = [_drawing(each, address.place) for each in states]
        print_lines(Group(*[part for drawing in drawings for part in (drawing, "")][:-1]))
    for note in _notes(states, present):
        say(note)
    problems = [f"{each.name!r}: {problem}" for each in states for problem in each.problems]
    for problem in problems:
        say(problem)
    return ExitStatus.FAILED if problems else ExitStatus.DONE


def _notes(states: Sequence[NameStatus], present: "_Present") -> Iterator[str]:
    """Yield why the lag of some names is not known."""
    if present.second is None:
        yield f"the lag is not known: {present.reason}"
        return
    for each in states:
        if each.lag is None and each.reached is not None:
            yield f"{each.name!r} reads another address or account: its lag is not known"


# What is looked at


def _read_service(
    connection: Connection | None, *, is_needed: bool
) -> "Configuration | ConfigurationError":
    """Return the configured service, or why there is none if it is not needed."""
    try:
        return read_settings(connection)
    except ConfigurationError as error:
        if is_needed or connection is not None:
            raise
        return error


async def _ask_service(service: "Configuration | ConfigurationError") -> _Present:
    if isinstance(service, ConfigurationError):
        return _Present(None, frozenset(), str(service))
    account = service.account
    url, (kind,) = account.base_url or "", account.kinds
    named = kind.make(getattr(account, kind.name), Secret("-"))
    # A program may give its credentials as a function, whose account is not known.
    digests = frozenset({service_digest(url, named), service_digest(url, lambda: named)})
    async with make_client(service, timeouts=Timeouts(deadline=_ANSWER_SECONDS)) as client:
        try:
            present = await client.service_time()
        except IncomeClientError as error:
            return _Present(None, digests, described(client, error))
    second = (present.replace(tzinfo=None) - EPOCH) // timedelta(seconds=1)
    return _Present(second, digests, "")


@frozen
class _Seen:
    """A checkpoint, as it was at the end of the time for which it was watched."""

    checkpoint: Checkpoint | None
    """The checkpoint; None if its text is damaged."""
    state: LeaseState


async def _watch(store: "CheckpointStore", name: str, stored: "StoredCheckpoint") -> _Seen:
    """Watch a lease until it is renewed, has expired, or was watched for long enough."""
    checkpoint = _read(stored)
    if checkpoint is None or not checkpoint.lease:
        return _Seen(checkpoint, _state_after_save(checkpoint))
    seconds = min(checkpoint.lease, _WATCH_SECONDS)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        await asyncio.sleep(seconds / _LOOKS)
        newer = await store.load(name)
        if newer != stored:
            checkpoint = _read(newer)
            return _Seen(checkpoint, _state_after_save(checkpoint))
    return _Seen(checkpoint, "expired" if seconds == checkpoint.lease else "silent")


def _state_after_save(checkpoint: Checkpoint | None) -> LeaseState:
    if checkpoint is None or checkpoint.lease is None:
        return "none"
    return "held" if checkpoint.lease else "released"


def _read(stored: "StoredCheckpoint") -> Checkpoint | None:
    try:
        return read_checkpoint(stored.checkpoint)
    except CheckpointError:
        return None


# What it means


def _status_of(
    name: str,
    seen: _Seen,
    letters: Sequence["DeadLetter"],
    present: _Present,
    limits: _Limits,
) -> NameStatus:
    checkpoint = seen.checkpoint
    lag = None if checkpoint is None else present.lag_of(checkpoint)
    reasons = Counter(shown_reason(letter.reason, letter.application_id) for letter in letters)
    seconds = [letter.window for letter in letters if _is_saturated(letter)]
    return NameStatus(
        name=name,
        reached=None if checkpoint is None else EPOCH + timedelta(seconds=checkpoint.reached),
        lag=lag,
        lease=None if checkpoint is None else _lease_of(checkpoint, seen.state),
        late=None if checkpoint is None else _late_of(checkpoint),
        dead_letters=len(letters),
        reasons=tuple(Reason(reason=text, count=count) for text, count in reasons.most_common()),
        next_try_at=min((letter.next_try_at for letter in letters), default=None),
        saturated=tuple(sorted(window.starts_at for window in seconds)),
        problems=tuple(_problems(seen, lag, len(letters), limits)),
    )


def _is_saturated(letter: "DeadLetter") -> bool:
    """Return whether a dead letter stands for a saturated second."""
    return letter.application_id is None and is_second(letter.window)


def _lease_of(checkpoint: Checkpoint, state: LeaseState) -> Lease:
    machine = process = None
    match (checkpoint.holder or "").rsplit("/", 2):
        case [host, number, _] if number.isdecimal():
            machine, process = host, int(number)
    return Lease(state=state, seconds=checkpoint.lease, machine=machine, process=process)


def _late_of(checkpoint: Checkpoint) -> Late:
    lateness = checkpoint.lateness
    return Late(greatest=lateness.greatest, updates=lateness.updates, settle=checkpoint.settle)


def _problems(seen: _Seen, lag: float | None, letters: int, limits: _Limits) -> Iterator[str]:
    if seen.checkpoint is None:
        yield _DAMAGED
    if seen.state == "expired":
        yield "the lease has expired: no process of the name could renew it"
    if limits.lag is not None and lag is None:
        yield "the lag is not known"
    if limits.lag is not None and lag is not None and lag > limits.lag:
        yield f"{duration(lag)} behind the service, more than {duration(limits.lag)}"
    if limits.dead_letters is not None and letters > limits.dead_letters:
        yield f"{counted(letters, 'dead letter')}, more than {limits.dead_letters:,}"


# How it is drawn


def _drawing(status: NameStatus, place: str) -> Group:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column()
    for heading, lines in (
        ("reached", _reached_lines(status)),
        ("lease", _lease_lines(status.lease)),
        ("late", _late_lines(status.late)),
        ("dead letters", _letter_lines(status)),
        ("saturated", _saturated_lines(status)),
    ):
        for number, line in enumerate(lines):
            table.add_row("" if number else f"  {heading}", line)
    title = Text.assemble((printable(status.name), "bold cyan"), f" in {printable(place)}")
    return Group(title, table)


def _reached_lines(status: NameStatus) -> Iterator[Text]:
    if status.reached is None:
        yield Text(_DAMAGED, "bold red")
        return
    behind = "" if status.lag is None else f", {duration(status.lag)} behind the service"
    yield Text(f"{status.reached}{behind}")


def _lease_lines(lease: Lease | None) -> Iterator[Text]:
    if lease is None:
        return
    who = "a poller"
    if lease.machine is not None:
        who = printable(f"process {lease.process} on {lease.machine}")
    seconds = duration(lease.seconds or 0)
    match lease.state:
        case "none":
            yield Text(f"none, without standbys; saved last by {who}")
        case "released":
            yield Text(f"released by {who}: nobody polls")
        case "held":
            yield Text(f"held by {who}, for {seconds} at a time", "green")
        case "expired":
            yield Text(f"expired: {who} has not renewed it for {seconds}", "bold red")
        case "silent":
            watched = duration(_WATCH_SECONDS)
            yield Text(f"{who} has not renewed it for {watched} of {seconds}", "yellow")


def _late_lines(late: Late | None) -> Iterator[Text]:
    if late is None:
        return
    settle = "" if late.settle is None else f"; settle is {late.settle} s"
    if not late.updates:
        yield Text(f"no new update in 24 h{settle}")
    elif not late.greatest:
        yield Text(f"none of {counted(late.updates, 'update')} in 24 h{settle}")
    else:
        is_near = late.settle is not None and late.greatest > late.settle / 2
        advice = ": give the poller a greater settle" if is_near else ""
        text = f"listed up to {late.greatest} s late in 24 h{settle}{advice}"
        yield Text(text, "bold yellow" if is_near else "")


def _letter_lines(status: NameStatus) -> Iterator[Text]:
    if not status.dead_letters:
        yield Text("none")
        return
    yield Text(f"{status.dead_letters:,}, next try at {status.next_try_at}", "yellow")
    for reason in status.reasons[:_MOST_SHOWN]:
        yield Text(f"{reason.count:,} x {printable(reason.reason)}")
    if (more := len(status.reasons) - _MOST_SHOWN) > 0:
        yield Text(f"and {counted(more, 'other reason')}")


def _saturated_lines(status: NameStatus) -> Iterator[Text]:
    for second in status.saturated[:_MOST_SHOWN]:
        yield Text(str(second), "yellow")
    if (more := len(status.saturated) - _MOST_SHOWN) > 0:
        yield Text(f"and {counted(more, 'other second')}")
