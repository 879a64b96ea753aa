"""``income-client poll``: writes every update as a line, and stores its progress."""

import asyncio
import logging
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Annotated, Final

from attrs import define, field
from cyclopts import Parameter
from cyclopts.validators import Number
from rich.text import Text

from income_client import (
    ApplicationRecord,
    CheckpointConflictError,
    ConfigurationError,
    DeadLetter,
    IncomeClientError,
    to_json,
)
from income_client.events import CheckpointCreated, DeadLettered, Event, PollFailed

from .connection import Connection, connect
from .exit_status import ExitStatus
from .options import NOW, MaxRate, Moment, Seconds, Switch, When, span_between
from .output import (
    OutputLines,
    counted,
    duration,
    inert,
    say,
    without_addresses,
)
from .progress import StatusLine, filter_log
from .rows import AlignedLines
from .signals import StopSignals
from .stores import CredsOption, StoreOption, load_name, open_store, read_address

if TYPE_CHECKING:
    from income_client import IncomeClient, Poller, PollerStatus

_LOOKS: Final = 2
"""Number of looks at the store after which a standby is reported."""
_DRAW_SECONDS: Final = 0.2
_MOST_LETTERS: Final = 10


async def poll(
    *,
    store: StoreOption = None,
    name: Annotated[str, Parameter(metavar="NAME")] = "default",
    start: When | None = None,
    interval: Annotated[float, Parameter(metavar="SECONDS", validator=Number(gt=0))] = 30.0,
    settle: Annotated[Seconds, Parameter(metavar="SECONDS")] = 60.0,
    lookback: Annotated[Seconds, Parameter(metavar="SECONDS")] = 0.0,
    max_rate: MaxRate = None,
    once: Switch = False,
    standby: Switch = False,
    lease: Annotated[float, Parameter(metavar="SECONDS", validator=Number(gt=0))] = 15.0,
    creds: CredsOption = None,
    must_exist: Switch = False,
    documents: Annotated[bool, Parameter(show_default=False)] = True,
    pages: Switch = False,
    show_personal_data: Switch = False,
    addresses: Switch = False,
    connection: Connection | None = None,
) -> int:
    """Write every update of every application to standard output, one line each.

    In a file or a pipe, a line is the JSON of an application and its documents. On
    a terminal it is the time, the id, the number of documents and the reference.

    A line is written before the checkpoint in --store moves past it: a crash loses
    nothing, and repeats the last lines at most. Run the same command again to
    resume. What cannot be read is kept in --store and retried later; see
    dead-letters.

    Ctrl-C and SIGTERM stop it once the lines at hand are written; a second one
    stops it at once. Failures are retried for as long as it runs. A service
    manager only has to start it (systemd: Restart=on-failure and
    RestartPreventExitStatus=2 3 4; the guide has a unit on its page about polling),
    and cron can run it with --once.

    The checkpoint is kept in a file on this machine, or for several machines in
    PostgreSQL (postgresql://user@host/database, with the password in PGPASSWORD and
    the tables of income-client schema postgres) or in a bucket of NATS
    (nats://host:4222/bucket). An address with a password is set as INCOME_STORE_URL.

    A name belongs to one process at a time. The newest takes it over, and the one
    before ends with exit status 3. With --standby it waits instead until the other
    has ended, or has died. The exit status is 0 after SIGTERM, or 143 if
    that cut --once short. With --once it is 1 if something could not be read that
    was no dead letter before; all else is written.

    Standard error has a line whenever a name is new in --store, and a summary at
    the end of --once. With --must-exist, for every run but the first, a new name or
    file is an error: a mistyped one would begin anew.

    Example: income-client poll --store polls.db --start 7d >> all.jsonl

    Args:
        store: File that keeps the checkpoint, created if it does not exist; or the address of
            PostgreSQL or NATS. Default: $INCOME_STORE_URL.
        name: Name of the checkpoint there.
        start: Where a new name begins: a time, 7d or 12h back, now or beginning. Default: now.
        interval: Seconds from one poll to the next.
        settle: Seconds that the service may take to list an update.
        lookback: Further seconds that each poll reads again.
        max_rate: Most requests a second, retries included. Default: no limit.
        once: Poll once, up to the present, and exit.
        standby: Wait while another process polls by this name, and take over when it ends.
        lease: Seconds after which a standby takes over from a process that has died.
        creds: File of credentials for a store in NATS.
        must_exist: Fail if the checkpoint does not exist yet. Not together with --start.
        documents: Read and write the documents too. Default: --documents.
        pages: Include the pages block of each document.
        show_personal_data: Write the JSON, with personal data, to a terminal too.
        addresses: Include the addresses of files; anyone who has one can read the file.
        connection: The service.
    """
    if pages and not documents:
        raise ConfigurationError("--pages cannot be combined with --no-documents")
    address = read_address(store)
    start = checked_start(start, must_exist=must_exist)
    line = StatusLine()
    filter_log(belongs_to_log)
    watch = Watch(address.place, line, is_single=once)
    async with (
        open_store(address, creds) as checkpoints,
        connect(connection, on_event=watch.take_event, max_rate=max_rate) as client,
    ):
        is_known = bool((await load_name(checkpoints, address, name)).version)
        check_name(name, address.place, start, is_known=is_known, must_exist=must_exist)
        poller = client.poll(
            checkpoints,
            name=name,
            start=None if is_known else await start_time(start, client),
            interval=interval,
            settle=settle,
            lookback=lookback,
            standby=lease if standby else False,
            must_exist=must_exist,
            documents=documents,
            pages=pages,
        )
        if once:
            poller.stop(after_poll=True)
        signals = StopSignals(poller.stop)
        text_of = partial(_json_line, addresses=addresses)
        if sys.stdout.isatty() and not show_personal_data:
            text_of = partial(_masked_line, AlignedLines())
        try:
            async with watch.following(poller):
                await _write_all(poller, line, text_of, is_standby=standby)
        except CheckpointConflictError as error:
            say(f"{address.place}: {error.message}; this one ends")
            return ExitStatus.REPLACED
    if once and watch.losses < poller.status.dead_letters:
        say(f"{poller.status.dead_letters:,} could not be read so far, and are tried again")
    return ending_status(poller, signals.received, watch, once=once)


def belongs_to_log(record: logging.LogRecord) -> bool:
    """Return whether the log prints a record; `Watch` prints the poller's warnings itself."""
    return record.name != "income_client.poller" or record.levelno < logging.WARNING


def checked_start(start: Moment | None, *, must_exist: bool) -> Moment:
    """Return the beginning of a new name."""
    if must_exist and start is not None:
        message = "--must-exist cannot be combined with --start, which is where a new name begins"
        raise ConfigurationError(message)
    return start or NOW


def check_name(name: str, place: str, start: Moment, *, is_known: bool, must_exist: bool) -> None:
    """Refuse a new name with ``must_exist``; report an ignored start of an existing name."""
    if must_exist and not is_known:
        advice = "check the name and where it is kept, or leave out --must-exist to begin anew"
        raise IncomeClientError(
            f"--must-exist: there is no checkpoint {name!r} in {place}; {advice}"
        )
    if is_known and start != NOW:
        say(f"--start is ignored: {name!r} is known, and resumes where it was")


async def start_time(start: Moment, client: "IncomeClient") -> datetime | None:
    """Return the beginning of a new name, by the service's time."""
    return None if start == NOW else (await span_between(client, start, None)).after


async def _write_all(
    poller: "Poller",
    line: StatusLine,
    text_of: Callable[[ApplicationRecord], bytes],
    *,
    is_standby: bool,
) -> None:
    """Write all batches, each to the disk before its commit."""
    lines = OutputLines()
    async for batch in poller.batches():
        for record in batch:
            line.make_way()
            lines.write(text_of(record))
        lines.keep()
        try:
            await batch.commit()
        except CheckpointConflictError:
            if not is_standby:
                raise
            say("another process has taken over; this one waits for its turn")


def _json_line(record: ApplicationRecord, *, addresses: bool) -> bytes:
    return inert(to_json(record if addresses else without_addresses(record)))


def _masked_line(lines: AlignedLines, record: ApplicationRecord) -> bytes:
    """Return a line without personal names."""
    application, documents = record.application, record.documents
    what = "updated"
    if documents is not None:
        what = counted(len([*documents.all()]), "document").rjust(len("10 documents"))
    return lines.line(
        application.last_updated_at,
        application.application_id,
        what,
        application.application_reference_id,
        optional=3,
    )


def ending_status(
    poller: "Poller", received: signal.Signals | None, watch: "Watch", *, once: bool
) -> int:
    """Return the exit status for the end of a poller."""
    if received is signal.SIGINT:
        return ExitStatus.INTERRUPTED
    if once and not poller.status.polls:
        return ExitStatus.TERMINATED
    # Without --once, only a person or a service manager ends it, who look at other things.
    return ExitStatus.FAILED if once and watch.losses else ExitStatus.DONE


@define
class Watch:
    """Shows a poller's progress; prints new beginnings, failures and dead letters."""

    _place: str
    _line: StatusLine
    _is_single: bool = field(kw_only=True)
    """Whether the command polls once, and prints its result at the end."""
    losses: int = 0
    """Number of printed dead letters."""
    _poller: "Poller | None" = None
    _new: list[DeadLetter] = field(factory=list)

    def take_event(self, event: Event) -> None:
        """Handle an event, as the ``on_event`` of the poller's client."""
        match event:
            case CheckpointCreated(name=name, reached=reached):
                begins = datetime.fromtimestamp(reached, UTC)
                say(f"{name!r} is new in {self._place}, begins at {begins:%Y-%m-%d %H:%M:%S}")
            case PollFailed(is_last=False) if self._poller is not None:
                say(_failure_text(self._poller.status))
            case DeadLettered(letter=letter, is_new=True):
                self._new.append(letter)
                # They come many at a time, and are printed together.
                asyncio.get_running_loop().call_soon(self._print_losses)

    @asynccontextmanager
    async def following(self, poller: "Poller") -> AsyncIterator[None]:
        """Watch a poller while the block iterates over it."""
        self._poller = poller
        drawing = asyncio.create_task(self._keep_drawing(poller))
        try:
            yield
        finally:
            drawing.cancel()
            self._line.stop()
        self._print_losses()
        facts = [*_status_facts(poller.status)]
        self._line.draw(facts)
        self._line.leave()
        if self._is_single and self._line.disable:
            say(", ".join(fact.plain for fact in facts))

    async def _keep_drawing(self, poller: "Poller") -> None:
        looks = 0  # that found a standby, one after the other
        while True:
            status = poller.status
            if status.is_standby:
                looks += 1
                # The first look may come before an idle name was taken.
                if looks == _LOOKS:
                    say("standing by: another poller of this name works")
            else:
                if looks >= _LOOKS:
                    say("took over: this poller works now")
                looks = 0
            self._line.draw([_state_text(status), *_status_facts(status)])
            await asyncio.sleep(_DRAW_SECONDS)

    def _print_losses(self) -> None:
        new, self._new = self._new, []
        self.losses += len(new)
        for letter in new[:_MOST_LETTERS]:
            say(_loss_text(letter))
        if len(new) > _MOST_LETTERS:
            say(f"and {len(new) - _MOST_LETTERS:,} more could not be read")


def _failure_text(status: "PollerStatus") -> str:
    text = f"poll failed: {status.last_error}"
    if status.next_poll_at is not None:
        text += f"; next try in {_time_until(status.next_poll_at)}"
    return text


def _loss_text(letter: DeadLetter) -> str:
    what = letter.application_id
    if what is None:
        what = f"the list in {letter.window}"
    elif not what:
        what = "an application with an empty id"
    tries = counted(letter.attempts, "attempt")
    return f"{what} could not be read in {tries} ({letter.reason}); it is tried again later"


def _state_text(status: "PollerStatus") -> Text:
    if status.failures and status.next_poll_at is not None:
        return Text(f"next try in {_time_until(status.next_poll_at)}", style="bold red")
    if status.is_standby and status.reached is None:
        return Text("standing by", style="bold")
    if status.reached is None:
        return Text("starting", style="bold")
    if status.next_poll_at is None:
        return Text("polling", style="bold cyan")
    return Text(f"next poll in {_time_until(status.next_poll_at)}", style="bold")


def _status_facts(status: "PollerStatus") -> Iterator[Text]:
    if status.failures:
        yield Text(counted(status.failures, "failure"), style="red")
    yield Text(counted(status.polls, "poll"))
    yield Text(counted(status.records, "record"))
    if status.dead_letters:
        yield Text(counted(status.dead_letters, "dead letter"), style="yellow")
    if status.lag is not None:
        yield Text(f"{duration(status.lag)} behind")
    if status.reached is not None:
        yield Text(f"at {status.reached:%Y-%m-%d %H:%M:%S}", style="dim")


def _time_until(moment: datetime) -> str:
    """Return the duration until a time, rounded up and never zero."""
    seconds = max(0.1, (moment - datetime.now(UTC)).total_seconds())
    return duration(seconds if seconds < 1 else ceil(seconds))
