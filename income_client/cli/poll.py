"""``income-client poll``: writes every update as a line of JSON, and keeps how far it has come."""

import signal
import sys
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Final

from attrs import frozen
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

from .config import Connection, connect
from .exit_status import ExitStatus
from .options import NOW, MisuseError, Moment, Seconds, Switch, When, span_between
from .output import OutputLines, cell_text, counted, inert, without_addresses
from .poll_watch import Watch
from .progress import StatusLine, say_warnings
from .signals import StopSignals

_START_HELP: Final = (
    "now, unless given; beginning, a span back from now such as 7d or 12h, or a time in ISO 8601, "
    "the service's own if it has no zone. Ignored once the file knows the name; to begin again, "
    "take another name."
)
_SAID_BY_THE_WATCH: Final = "income_client.poller"


@frozen
class _Opened:
    """A file that can keep how far a poller has come."""

    store: SQLiteCheckpointStore
    """Keeps it."""
    is_known: bool
    """Whether it knows the name already."""


async def poll(
    *,
    store: Path,
    name: str = "default",
    start: Annotated[When | None, Parameter(help=_START_HELP)] = None,
    interval: Annotated[float, Parameter(validator=Number(gt=0))] = 30.0,
    settle: Seconds = 5.0,
    lookback: Seconds = 0.0,
    once: Switch = False,
    documents: bool = True,
    pages: Switch = False,
    show_personal_data: Switch = False,
    addresses: Switch = False,
    connection: Connection | None = None,
) -> int:
    """Write every update of every application to standard output, as lines of JSON.

    A line is the service's own JSON, without the addresses of files unless
    --addresses is given. On a terminal it is time, id and reference, unless
    --show-personal-data is given. It is written before the file notes that it was,
    so that nothing is lost in a crash; at worst the last lines come again. Run it
    again with the same file, and it goes on where it was. What could not be read is
    kept in the file, and tried again later.

    Ctrl-C and SIGTERM stop it once the lines at hand are written and noted; a
    second one ends it at once. The exit status is 0 after SIGTERM, or 143 if that
    cut --once short; 130 after Ctrl-C, 141 when nobody reads the output any more,
    1 after a failure, 2 where settings cannot be meant, and 4 where the credentials
    are refused. What fails for a while is tried again for ever, so a service
    manager need only start it (systemd: Restart=on-failure; the README has a unit),
    and cron runs it with --once. One name has one process: the newer goes on, and
    the older ends with 1.

    Address and credentials come from the environment, INCOME_BASE_URL, and
    INCOME_CLIENT_ID and INCOME_CLIENT_SECRET or INCOME_USERNAME and
    INCOME_PASSWORD; or from the file of --config. So do INCOME_PROXY and
    INCOME_CA_FILE, of an HTTP proxy and of a private authority. On a terminal a
    line tells how far it has come, in service time.

    Example: income-client poll --store polls.db --start 7d >> all.jsonl

    Args:
        store: file that keeps how far it has come; made if there is none.
        name: under which name in that file; a process that begins ends the one that has it.
        start: where to begin.
        interval: seconds from one poll to the next.
        settle: seconds that the service may take to list an update.
        lookback: further seconds that each poll reads again, each application updated in them.
        once: poll once, up to the present, and exit.
        documents: whether the documents are read and written too.
        pages: have the pages block in each document.
        show_personal_data: write whole lines to a terminal too, with all that names the borrowers.
        addresses: keep the addresses of files in lines: who has one can read the file.
        connection: which service.

    Returns:
        The exit status: 1 for a failure, 2 for arguments that cannot be meant,
            130 after Ctrl-C, 143 for a single poll that SIGTERM cut short.
    """
    if pages and not documents:
        raise MisuseError("--pages is about documents, and cannot be combined with --no-documents")
    line = StatusLine()
    is_for_a_person = sys.stdout.isatty() and not show_personal_data
    written = _shown if is_for_a_person else partial(_json, addresses=addresses)
    say_warnings(line.say, _SAID_BY_THE_WATCH)
    start = start or NOW
    opened = await _opened(store, name)
    if line.is_shown:
        _say_where_it_begins(name, start, line, is_known=opened.is_known)
    watch = Watch(opened.store, name, line)
    async with connect(connection, on_event=watch.take) as client:
        poller = client.poll(
            opened.store,
            name=name,
            start=None if opened.is_known else await _start(start, client),
            interval=interval,
            settle=settle,
            lookback=lookback,
            documents=documents,
            pages=pages,
        )
        if once:
            poller.stop(after_poll=True)
        signals = StopSignals(poller.stop)
        try:
            async with watch.over(poller):
                await _write_all(poller, line, written)
        except CheckpointConflictError:
            line.say(f"another process has begun to poll as {name!r} in {store}; this one ends")
            return ExitStatus.FAILED
    if once and watch.losses < poller.status.dead_letters:
        line.say(f"{poller.status.dead_letters:,} could not be read so far, and are tried again")
    return _status(poller, signals.received, once=once)


async def _opened(store: Path, name: str) -> _Opened:
    """Return the store; refuse here what cannot be one."""
    fault: ConfigurationError
    try:
        checkpoints = SQLiteCheckpointStore(store)
    except ConfigurationError:
        raise MisuseError("--store: this is no path of a file") from None
    try:
        stored = await checkpoints.load(name)
    except CheckpointError as error:
        is_lost = not store.parent.is_dir()
        reason = f"there is no folder {store.parent}" if is_lost else error.message
        fault = ConfigurationError(f"--store: {reason}")
    except ConfigurationError as error:
        fault = MisuseError(f"--name: {error.message}")
    else:
        return _Opened(checkpoints, is_known=bool(stored.version))
    raise fault


def _say_where_it_begins(name: str, start: Moment, line: StatusLine, *, is_known: bool) -> None:
    if is_known and start != NOW:
        line.say(f"--start is ignored: {name!r} is known, and goes on where it was")
    if not is_known:
        begins = f"{start.text} ago" if start.back else f"at {start.text}"
        line.say(f"{name!r} is new, and begins {begins}")


async def _start(start: Moment, client: IncomeClient) -> datetime | None:
    return None if start == NOW else (await span_between(client, start, None)).after


async def _write_all(
    poller: Poller, line: StatusLine, written: Callable[[ApplicationRecord], bytes]
) -> None:
    """Write batch after batch, each on the disk before it is committed."""
    lines = OutputLines()
    async for batch in poller.batches():
        for record in batch:
            line.make_way()
            lines.write(written(record))
        lines.keep()
        await batch.commit()


def _json(record: ApplicationRecord, *, addresses: bool) -> bytes:
    return inert(to_json(record if addresses else without_addresses(record)))


def _shown(record: ApplicationRecord) -> bytes:
    """Return a line that names nobody."""
    application = record.application
    facts = [
        cell_text(application.last_updated_at),
        cell_text(application.application_id),
        cell_text(application.application_reference_id),
    ]
    if record.documents is not None:
        facts.append(counted(len([*record.documents.all()]), "document"))
    return "  ".join(facts).encode("utf-8", "replace")


def _status(poller: Poller, received: signal.Signals | None, *, once: bool) -> int:
    if received is signal.SIGINT:
        return ExitStatus.INTERRUPTED
    if once and not poller.status.polls:
        return ExitStatus.TERMINATED
    return ExitStatus.DONE
