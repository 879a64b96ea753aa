"""``income-client applications``: lists what was updated in a span, each application once."""

from contextlib import aclosing
from typing import Annotated, Final

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.text import Text

from income_client import (
    ApplicationPaginator,
    ApplicationSummary,
    Event,
    IncomeClient,
    PageCovered,
    RequestSent,
    to_json,
)

from .config import Connection, connect
from .exit_status import ExitStatus
from .options import (
    Bounds,
    MisuseError,
    Moment,
    When,
    ends_before_it_begins,
    overfull,
    service_time,
    span_between,
)
from .output import Column, OutputOption, QuietOption, RowWriter, counted
from .progress import StatusLine, say_warnings

_MOST_ON_A_PAGE: Final = 1000
COLUMNS: Final = (
    Column("application_id", "Application", style="cyan"),
    Column("application_reference_id", "Reference"),
    Column("application_date", "Date", is_optional=True),
)


async def applications(
    *,
    updated_after: When | None = None,
    updated_before: When | None = None,
    limit: Annotated[int | None, Parameter(validator=Number(gte=1), show_default=False)] = None,
    output: OutputOption = None,
    quiet: QuietOption = False,
    connection: Connection | None = None,
) -> int:
    """List the applications that were updated in a span, each once.

    Times are ISO 8601, the service's own if they have no zone, or go back from its
    present: 90min, 12h, 7d, 2w, now, beginning. Rows come as they are found, in no
    order. The output is a table on a terminal and JSON lines elsewhere, unless
    --output says table, jsonl, csv or json; -q gives ids alone, for other commands.
    The list has no time of update; application shows it. Where a second holds more
    applications than the service can list, that is said, and the exit status is 1.

    Example: income-client applications --updated-after 7d

    Args:
        updated_after: where the span begins; the beginning of time by default.
        updated_before: where it ends; the present by default.
        limit: most applications to list; the service has no order.
        output: how; a table on a terminal, else JSON lines.
        quiet: only ids, one a line.
        connection: which service.

    Returns:
        The exit status: 1 where a second holds more than can be listed, 2 for a span that
            ends before it begins, or begins in the future.
    """
    if ends_before_it_begins(updated_after, updated_before):
        raise MisuseError("--updated-after is later than --updated-before")
    line = StatusLine()
    say_warnings(line.say)
    alone = COLUMNS[0].key if quiet else None
    rows = RowWriter(COLUMNS, output, quiet=alone, before=line.make_way)
    progress = _Progress(line, has_beginning=updated_after not in (None, Moment()))
    try:
        async with connect(connection, on_event=progress.take) as client:
            span = await span_between(client, updated_after, updated_before)
            walk = client.list_applications(span.after, span.before, on_saturated="report")
            with rows:
                if limit is None or not await _write_page(client, span, rows, limit):
                    await _write_all(walk, rows, limit)
    finally:
        line.clear()
    for window in walk.saturated:
        line.say(overfull(window))
    if not rows.rows and not quiet:
        line.say("no application was updated in that span")
    return ExitStatus.FAILED if walk.saturated else ExitStatus.DONE


async def _write_page(client: IncomeClient, span: Bounds, rows: RowWriter, limit: int) -> bool:
    """Write as many rows as are wanted if a single page has them; else write none."""
    if limit > _MOST_ON_A_PAGE:
        return False
    page = await client.get_application_page(span.after, span.before, limit)
    # A service may apply other bounds than those it was asked for.
    begins_inside = span.after is None or service_time(span.after) <= page.updated_after
    ends_inside = span.before is None or page.updated_before <= service_time(span.before, up=True)
    found = {summary.application_id: summary for summary in page.applications}
    if len(found) < limit or not begins_inside or not ends_inside:
        return False
    for summary in [*found.values()][:limit]:
        write_summary(summary, rows)
    return True


async def _write_all(walk: ApplicationPaginator, rows: RowWriter, limit: int | None) -> None:
    async with aclosing(walk), aclosing(walk.pages()) as pages:
        async for page in pages:
            for summary in page.applications:
                write_summary(summary, rows)
                if rows.rows == limit:
                    return


def write_summary(summary: ApplicationSummary, rows: RowWriter) -> None:
    """Write a row of the list.

    Args:
        summary: the row.
        rows: where to; its columns are `COLUMNS`.
    """
    row = {column.key: getattr(summary, column.key) for column in COLUMNS}
    rows.write(row, to_json(summary))


class _Progress:
    """Draws how far a walk has come."""

    def __init__(self, line: StatusLine, *, has_beginning: bool) -> None:
        self._line = line
        # Most of all time since 1970 is empty, and a share of it tells nothing.
        self._has_beginning = has_beginning
        self._rows = 0

    def take(self, event: Event) -> None:
        """Be told of an event."""
        match event:
            case PageCovered():
                self._rows += event.rows
                self._draw(event)
            case RequestSent() if not self._line.is_drawn:
                self._draw(None)
            case _:
                pass

    def _draw(self, page: PageCovered | None) -> None:
        parts = [Text.assemble((counted(self._rows, "application"), "bold cyan"))]
        if page is not None:
            if self._has_beginning:
                parts.append(Text(f"{int(page.covered_fraction * 100)}% of the span"))
            parts.append(Text(counted(page.requests, "request"), style="dim"))
        self._line.draw(parts)
