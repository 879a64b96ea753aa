"""``income-client poll``: writes every update as a line of JSON, and keeps how far it has come."""

import os
import signal
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from income_client import (
    ApplicationRecord,
    CheckpointConflictError,
    IncomeClient,
    Poller,
    SQLiteCheckpointStore,
    to_json,
)

from .output_lines import OutputLines
from .package_warnings import say_warnings
from .poll_watch import Watch
from .status_line import StatusLine
from .stop_signals import StopSignals

_FAILED: Final = 1
_INTERRUPTED: Final = 130
_TERMINATED: Final = 143
_BEGINNING: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - the service's times carry no zone
_SAID_BY_THE_WATCH: Final = "income_client.poller"

Start = Literal["now", "beginning"] | datetime
Seconds = Annotated[float, Parameter(validator=Number(gte=0))]
Switch = Annotated[bool, Parameter(negative=(), show_default=False)]


async def poll(
    *,
    store: Path,
    name: str = "default",
    start: Start = "now",
    interval: Annotated[float, Parameter(validator=Number(gt=0))] = 30.0,
    settle: Seconds = 5.0,
    lookback: Seconds = 0.0,
    once: Switch = False,
    documents: Switch = False,
    pages: Switch = False,
) -> int:
    """Write every update as a line of JSON, and keep how far it has come.

    Args:
        store: file that keeps how far it has come; made if there is none.
        name: under which name in that file. A process that begins under a name ends
            the one that has it; to look, take another name.
        start: "now", "beginning", or a time in ISO 8601, the service's own if it has no zone.
            Ignored once the file knows the name; to begin again, take another name.
        interval: seconds from one poll to the next.
        settle: seconds that the service may take to list an update.
        lookback: further seconds that each poll reads again.
        once: poll once, up to the present, and exit.
        documents: write each application together with its documents.
        pages: have the pages block in each document; implies --documents.

    Returns:
        The exit status: 1 for a failure, 130 after Ctrl-C, 143 for a single
            poll that SIGTERM cut short.
    """
    checkpoints = SQLiteCheckpointStore(store)
    line = StatusLine()
    say_warnings(line.say, _SAID_BY_THE_WATCH)
    if line.is_shown:
        await _say_where_it_begins(checkpoints, name, start, line)
    async with IncomeClient.from_env() as client:
        poller = client.poll(
            checkpoints,
            name=name,
            start=_start(start),
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
            async with Watch(poller, checkpoints, name, line) as watch:
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


async def _say_where_it_begins(
    checkpoints: SQLiteCheckpointStore, name: str, start: Start, line: StatusLine
) -> None:
    is_known = bool((await checkpoints.load(name)).version)
    if is_known and start != "now":
        line.say(f"--start is ignored: {name!r} is known, and goes on where it was")
    if not is_known:
        line.say(f"{name!r} is new, and begins at {start}")


def _start(start: Start) -> datetime | None:
    match start:
        case "now":
            return None
        case "beginning":
            return _BEGINNING
        case moment:
            return moment


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
    return to_json(record.application if record.documents is None else record)


def _status(poller: Poller, received: signal.Signals | None, *, once: bool) -> int:
    if received is signal.SIGINT:
        return _INTERRUPTED
    if once and not poller.status.polls:
        return _TERMINATED
    return 0
