"""``income-client audit``: compares what the service lists with what is held."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number

from income_client import IncomeClientError
from income_client.system.texts import reason_of

from .applications import ListProgress
from .connection import Connection, connect
from .exit_status import ExitStatus
from .held import exported_span, read_pairs
from .options import (
    STANDARD_INPUT,
    HeldArgument,
    Length,
    MaxRate,
    When,
    Whole,
    overfull,
    span_between,
)
from .output import counted, duration, inert, say, write_text
from .progress import StatusLine
from .rows import Column, OutputOption, QuietOption, RowWriter

if TYPE_CHECKING:
    from income_client.audit import Audit

_COLUMNS: Final = (
    Column("finding", "Finding"),
    Column("application_id", "Application", style="cyan"),
    Column("held_at", "Held", dropped=1),
    Column("updated_after", "Updated from", dropped=2),
    Column("updated_before", "To", dropped=2),
)
_TIME: Final = "%Y-%m-%dT%H:%M:%S"
_DAY: Final = 86_400.0


async def audit(
    held: HeldArgument,
    /,
    *,
    updated_after: When | None = None,
    updated_before: When | None = None,
    settle: Annotated[Whole, Parameter(metavar="SECONDS", validator=Number(gte=0))] = 60,
    margin: Length = _DAY,
    max_rate: MaxRate = None,
    output: OutputOption = None,
    quiet: QuietOption = False,
    connection: Connection | None = None,
) -> int:
    """Find out whether you hold every application that the service lists.

    HELD is a file with the ids and update times that you hold: CSV with the columns
    application_id and last_updated_at, a row a line, or JSON lines with these
    fields; - reads standard input. It may be what export wrote: lines, or a
    folder of tables. Its period is then audited.

    The output has a row for each application that is missing, stale (updated
    since the time held), or unlisted (held, but no longer listed). With --output
    json, it is an object with these findings, and how many there are of what.
    With --quiet, these are the ids of what is missing or stale, for export to
    read again. Only the list is read, and up to a thousand ids that it lacks.

    Nothing else is missing. An update may be passed over if it came soon after
    the time held: a day at the most, or the time that --margin gives. That takes
    up to one request for each day of the period, or for each such time.

    Exits with 0 if nothing is found, and with 1 if anything is, if --margin is not
    reached, if a time held lies in the future, or if a second holds more applications
    than can be listed.

    Example: income-client audit held.csv
    income-client audit held.csv --updated-after 7d --margin 1h --output json
    income-client audit june --quiet | income-client export - --to again.jsonl

    Args:
        held: File, or folder of an export.
        updated_after: Start of the period. Default: that of an export, or the beginning.
        updated_before: The time as of which HELD is. Default: the end of an export, or now.
        settle: Seconds that an update may take until you hold it: later ones do not count.
        margin: Miss no update that came later than this after the time held, such as 1h.
            Default: 1d.
        max_rate: Most requests a second, retries included. Default: no limit.
        output: Format of the output.
        quiet: Print the ids of what is missing or stale only, one a line.
        connection: The service.
    """
    if str(held) != STANDARD_INPUT:
        _check_exists(held)
    line = StatusLine()
    progress = ListProgress(line, has_beginning=False)
    alone = "application_id" if quiet else None
    rows = RowWriter(_COLUMNS, output, quiet=alone, before=line.make_way)
    try:
        async with connect(connection, on_event=progress.draw_event, max_rate=max_rate) as client:
            span = await span_between(client, updated_after, updated_before)
            after, before = exported_span(held)
            result = await client.audit(
                read_pairs(held),
                updated_after=after if updated_after is None else span.after,
                updated_before=before if updated_before is None else span.before,
                settle=settle,
                margin=margin,
            )
    finally:
        line.stop()
    if output == "json" and not quiet:
        write_text(msgspec.json.format(inert(msgspec.json.encode(_report(result)))).decode())
    else:
        with rows:
            for row in _rows_of(result):
                if not quiet or row["finding"] != "unlisted":
                    rows.write(row)
    for window in result.saturated:
        say(overfull(window))
    say(_summary(result))
    return ExitStatus.DONE if result.is_complete else ExitStatus.FAILED


def _check_exists(path: Path) -> None:
    try:
        path.stat()
    except OSError as error:
        raise IncomeClientError(f"{path} cannot be read: {reason_of(error)}") from None


def _rows_of(result: "Audit") -> Iterator[Mapping[str, object]]:
    for application_id in result.missing:
        yield {"finding": "missing", "application_id": application_id}
    for stale in result.stale:
        yield {
            "finding": "stale",
            "application_id": stale.application_id,
            "held_at": stale.held_at,
            "updated_after": stale.listed_in.starts_at,
            "updated_before": stale.listed_in.ends_at,
        }
    for application_id in result.unlisted:
        yield {"finding": "unlisted", "application_id": application_id}


def _findings(result: "Audit") -> Mapping[str, Sequence[object]]:
    return {"missing": result.missing, "stale": result.stale, "unlisted": result.unlisted}


def _report(result: "Audit") -> Mapping[str, object]:
    return {
        "is_complete": result.is_complete,
        "updated_after": result.after,
        "until": result.until,
        "held": result.held,
        "listed": result.listed,
        **{name: len(ids) for name, ids in _findings(result).items()},
        "undecided": result.undecided,
        "in_future": result.in_future,
        "later_than_listed": result.later_than_listed,
        "margin_seconds": int(result.margin.total_seconds()),
        "saturated": [second.starts_at for second in result.saturated],
        "unreadable": result.unreadable,
        "list_calls": result.requests,
        "findings": list(_rows_of(result)),
    }


def _summary(result: "Audit") -> str:
    begins = "the beginning" if result.after is None else result.after.strftime(_TIME)
    ends = result.until.strftime(_TIME)
    parts = [
        ", ".join(f"{len(ids):,} {name}" for name, ids in _findings(result).items()),
        f"{result.listed:,} listed that were updated from {begins} to {ends}",
        f"{result.held:,} held",
        counted(result.requests, "request"),
    ]
    if result.margin:
        margin = duration(result.margin.total_seconds())
        parts.append(f"an update up to {margin} after the time held may have been passed over")
    if result.undecided:
        parts.append(f"{result.undecided:,} undecided")
    if result.in_future:
        parts.append(
            f"{result.in_future:,} held with a time after the service's present, which hides "
            "updates: check the zone of the times"
        )
    if result.later_than_listed:
        parts.append(f"{result.later_than_listed:,} held with a later time than they are listed by")
    if result.unreadable:
        parts.append(f"{counted(result.unreadable, 'row')} of the list without a readable id")
    return "; ".join(parts)
