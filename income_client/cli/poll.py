"""``income-client poll``: writes every update as a line of JSON, and keeps how far it has come."""

import os
import signal
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter
from cyclopts.validators import Number

from income_client import (
    ApplicationRecord,
    CheckpointConflictError,
    CheckpointError,
    ConfigurationError,
    IncomeClient,
    Poller,
    SQLiteCheckpointStore,
    to_json,
)

from .accounts.connecting import Connection, connect
from .arguments.moments import Moment, When, span_between
from .output.lines import OutputLines
from .output.package_warnings import say_warnings
from .output.row_text import inert
from .output.status_line import StatusLine
from .poll_watch import Watch
from .stopping.signals import StopSignals

_FAILED: Final = 1
_INTERRUPTED: Final = 130
_TERMINATED: Final = 143
_BEGINNING: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - the service's times carry no zone
_UNITS: Final = {
    "day": timedelta(days=1),
    "hour": timedelta(hours=1),
    "minute": timedelta(minutes=1),
    "second": timedelta(seconds=1),
}
_START_HELP: Final = (
    "now, unless given; beginning, a span back from now such as 7d or 12h, or a time in ISO 8601, "
    "the service's own if it has no zone. Ignored once the file knows the name; to begin again, "
    "take another name."
)
_SAID_BY_THE_WATCH: Final = "income_client.poller"

Seconds = Annotated[float, Parameter(validator=Number(gte=0))]
Switch = Annotated[bool, Parameter(negative=(), show_default=False)]


async def poll(
    *,
    store: Path,
    name: str = "default",
    start: Annotated[When | None, Parameter(help=_START_HELP)] = None,
    interval: Annotated[float, Parameter(validator=Number(gt=0))] = 30.0,
    settle: Seconds = 5.0,
    lookback: Seconds = 0.0,
    once: Switch = False,
    documents: Switch = False,
    pages: Switch = False,
    connection: Connection | None = None,
) -> int:
    """Write every update as a line of JSON, and keep how far it has come.

    Args:
        store: file that keeps how far it has come; made if there is none.
        name: under which name in that file; a process that begins ends the one that has it.
        start: where to begin.
        interval: seconds from one poll to the next.
        settle: seconds that the service may take to list an update.
        lookback: further seconds that each poll reads again.
        once: poll once, up to the present, and exit.
        documents: write each application together with its documents.
        pages: have the pages block in each document; implies --documents.
        connection: which service.

    Returns:
        The exit status: 1 for a failure, 130 after Ctrl-C, 143 for a single
            poll that SIGTERM cut short.
    """
    line = StatusLine()
    say_warnings(line.say, _SAID_BY_THE_WATCH)
    checkpoints, is_known = await _opened(store, name)
    if line.is_shown:
        _say_where_it_begins(name, start, line, is_known=is_known)
    watch = Watch(checkpoints, name, line)
    async with connect(connection, on_event=watch.take) as client:
        poller = client.poll(
            checkpoints,
            name=name,
            start=None if is_known else await _start(start, client),
            interval=interval,
            settle=settle,
            lookback=lookback,
            documents=documents or pages,
            pages=pages,
        )
        if once:
            poller.stop(after_poll=True)
        signals = StopSignals(poller.stop)
        try:
            async with watch.over(poller):
                failure = await _write_all(poller, line)
        except CheckpointConflictError:
            line.say(f"another process has begun to poll as {name!r} in {store}; this one ends")
            return _FAILED
    if failure is not None:
        reason = os.strerror(failure.errno or 0).lower()
        line.say(f"cannot write to standard output: {reason}")
        return _FAILED
    if once and watch.losses < poller.status.dead_letters:
        line.say(f"{poller.status.dead_letters:,} could not be read so far, and are tried again")
    return _status(poller, signals.received, once=once)


async def _opened(store: Path, name: str) -> tuple[SQLiteCheckpointStore, bool]:
    """Return the store, and whether it knows the name; refuse here what cannot be one."""
    fault = None
    try:
        checkpoints = SQLiteCheckpointStore(store)
    except ConfigurationError:
        raise ConfigurationError("--store: this is no path of a file") from None
    try:
        stored = await checkpoints.load(name)
    except CheckpointError as error:
        is_lost = not store.parent.is_dir()
        fault = f"--store: {f'there is no folder {store.parent}' if is_lost else error.message}"
    except ConfigurationError as error:
        fault = f"--name: {error.message}"
    if fault is not None:
        raise ConfigurationError(fault)
    return checkpoints, bool(stored.version)


def _say_where_it_begins(
    name: str, start: Moment | None, line: StatusLine, *, is_known: bool
) -> None:
    if is_known and not _is_now(start):
        line.say(f"--start is ignored: {name!r} is known, and goes on where it was")
    if not is_known:
        line.say(f"{name!r} is new, and begins {_told(start)}")


def _is_now(start: Moment | None) -> bool:
    return start is None or start == Moment(back=timedelta(0))


def _told(start: Moment | None) -> str:
    if start is None or _is_now(start):
        return "at now"
    if start.back is None:
        return f"at {start.at or 'beginning'}"
    unit, count = next(
        (unit, start.back // size) for unit, size in _UNITS.items() if not start.back % size
    )
    return f"{count:,} {unit}{'s' * (count != 1)} ago"


async def _start(start: Moment | None, client: IncomeClient) -> datetime | None:
    if start is None or _is_now(start):
        return None
    return (await span_between(client, start, None)).after or _BEGINNING


async def _write_all(poller: Poller, line: StatusLine) -> OSError | None:
    lines = OutputLines()
    async for batch in poller.batches():
        for record in batch:
            line.make_way()
            failure = lines.write(_json(record))
            if failure is not None:
                return failure
        failure = lines.keep()
        if failure is not None:
            return failure
        await batch.commit()
    return None


def _json(record: ApplicationRecord) -> bytes:
    return inert(to_json(record.application if record.documents is None else record))


def _status(poller: Poller, received: signal.Signals | None, *, once: bool) -> int:
    if received is signal.SIGINT:
        return _INTERRUPTED
    if once and not poller.status.polls:
        return _TERMINATED
    return 0
