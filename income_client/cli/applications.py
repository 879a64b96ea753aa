"""``income-client applications``: lists the applications updated in a period, or finds one."""

from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter
from rich.text import Text

from income_client import ConfigurationError, DecodeError

from .connection import Connection, connect
from .exit_status import ExitStatus
from .options import (
    Count,
    Moment,
    Span,
    When,
    overfull,
    pages_of,
    span_between,
)
from .output import counted, say
from .progress import StatusLine
from .rows import Column, OutputOption, QuietOption, RowWriter

if TYPE_CHECKING:
    from income_client import ApplicationSummary, IncomeClient
    from income_client.events import Event
    from income_client.walk import ApplicationPaginator

_MOST_ON_A_PAGE: Final = 1000
_COLUMNS: Final = (
    Column("application_id", "Application", style="cyan"),
    Column("application_reference_id", "Reference"),
    Column("application_date", "Date", dropped=1),
)


async def applications(
    *,
    updated_after: When | None = None,
    updated_before: When | None = None,
    limit: Annotated[Count | None, Parameter(show_default=False)] = None,
    reference: Annotated[str | None, Parameter(show_default=False)] = None,
    output: OutputOption = None,
    quiet: QuietOption = False,
    connection: Connection | None = None,
) -> int:
    """List the applications updated in a period, each once, or the one with a reference.

    One that is updated meanwhile may come twice. Rows come in no order, without
    the time of the update; the command application shows it.

    A time is ISO 8601, in the service's time if it has no zone, or counted back
    from the present: 90min, 12h, 7d, 2w, now, beginning.

    The output is a table on a terminal and JSON lines elsewhere. Exits with 1 if
    a second holds more applications than the service can list, a row is malformed, or
    no application has the reference.

    Example: income-client applications --updated-after 7d

    Args:
        updated_after: Start of the period. Default: the beginning of time.
        updated_before: End of the period. Default: the present.
        limit: List at most this many applications.
        reference: List only the application that was registered under this
            application_reference_id.
        output: Format of the output.
        quiet: Print ids only, one a line.
        connection: The service.
    """
    line = StatusLine()
    alone = _COLUMNS[0].key if quiet else None
    rows = RowWriter(_COLUMNS, output, quiet=alone, before=line.make_way)
    if reference is not None:
        if (updated_after, updated_before, limit) != (None, None, None):
            raise ConfigurationError("--reference cannot be combined with a period or --limit")
        return await _write_found(reference, rows, connection)
    progress = ListProgress(line, has_beginning=updated_after not in (None, Moment()))
    malformed: list[DecodeError] = []
    try:
        async with connect(connection, on_event=progress.draw_event) as client:
            span = await span_between(client, updated_after, updated_before)
            walk = client.list_applications(span.after, span.before, on_saturated="report")
            with rows:
                if limit is None or not await _write_page(client, span, rows, limit):
                    await _write_all(walk, malformed, rows, limit)
    finally:
        line.stop()
    for window in walk.saturated:
        say(overfull(window))
    if not rows.rows and not quiet:
        say("no application was updated in that period")
    return ExitStatus.FAILED if walk.saturated or malformed else ExitStatus.DONE


async def _write_found(reference: str, rows: RowWriter, connection: Connection | None) -> int:
    """Write the application with a reference; return the exit status."""
    async with connect(connection) as client:
        try:
            summary = await client.find_application(reference)
        except ConfigurationError as error:
            if error.argument != "reference":
                raise
            raise ConfigurationError(f"--reference {error.detail}") from None
    if summary is None:
        say(f'no application has the reference "{reference}"')
        return ExitStatus.FAILED
    with rows:
        _write_summary(summary, rows)
    return ExitStatus.DONE


async def _write_page(client: "IncomeClient", span: Span, rows: RowWriter, limit: int) -> bool:
    """Write the rows of a single page if these are enough; else write none, and return False."""
    if limit > _MOST_ON_A_PAGE:
        return False
    try:
        page = await client.get_application_page(span.after, span.before, limit)
    except DecodeError:
        return False  # the walk has the good rows
    # A service may apply other bounds than those requested.
    begins_inside = span.after is None or span.after <= page.updated_after
    ends_inside = span.before is None or page.updated_before <= span.before
    summaries = {summary.application_id: summary for summary in page.applications}
    if len(summaries) < limit or not begins_inside or not ends_inside:
        return False
    for summary in [*summaries.values()][:limit]:
        _write_summary(summary, rows)
    return True


async def _write_all(
    walk: "ApplicationPaginator", malformed: list[DecodeError], rows: RowWriter, limit: int | None
) -> None:
    async with aclosing(walk), aclosing(pages_of(walk, malformed)) as pages:
        async for page in pages:
            for summary in page.applications:
                _write_summary(summary, rows)
                if rows.rows == limit:
                    return


def _write_summary(summary: "ApplicationSummary", rows: RowWriter) -> None:
    from income_client import to_json

    row = {column.key: getattr(summary, column.key) for column in _COLUMNS}
    rows.write(row, to_json(summary))


class ListProgress:
    """Draws the progress of a walk."""

    def __init__(self, line: StatusLine, *, has_beginning: bool) -> None:
        self._line = line
        # Most of the time since 1970 is empty: a share of it says nothing.
        self._has_beginning = has_beginning
        self._rows = 0

    def draw_event(self, event: "Event") -> None:
        """Update the drawing for an event of the client."""
        from income_client.events import PageCovered, RequestSent

        parts = []
        match event:
            case PageCovered():
                self._rows += event.rows
                if self._has_beginning:
                    parts.append(Text(f"{int(event.covered_fraction * 100)}% of the period"))
                parts.append(Text(counted(event.requests, "request"), style="dim"))
            case RequestSent() if not self._line.is_drawn:
                pass
            case _:
                return
        self._line.draw([Text(counted(self._rows, "application"), style="bold cyan"), *parts])
