"""The summary of a demonstration on standard output; knows layout, and nothing of reading."""

from collections.abc import Iterator
from typing import Final

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from income_client.cli.output import Screen, write_text

from .findings import Borrower, Findings

_BAR_WIDTH: Final = 32
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_BAR_STYLE: Final = Style(color="cyan")


class Bar:
    """A horizontal bar, in eighths of a cell where the output's encoding has them.

    Args:
        share: its length as a share of the width that there is, 0 to 1.
    """

    def __init__(self, share: float) -> None:
        self._share = min(max(share, 0.0), 1.0)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(options.max_width, _BAR_WIDTH)
        cells, rest = divmod(round(self._share * width * 8), 8)
        text = "#" * cells if options.ascii_only else _EIGHTHS[8] * cells + _EIGHTHS[rest]
        yield Segment(text[:width].ljust(width), _BAR_STYLE)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, min(options.max_width, _BAR_WIDTH))


def show_summary(findings: Findings) -> None:
    """Print the summary.

    Args:
        findings: what was found.
    """
    screen = Screen(highlight=False)
    with screen.capture() as captured:
        screen.print(Group(*_parts(findings)))
    lines = [line.rstrip() for line in captured.get().splitlines()]
    if screen.is_terminal:
        lines = ["", *lines, ""]
    write_text(*lines)


def _parts(findings: Findings) -> Iterator[RenderableType]:
    yield Text("Income demo: an emulated service, all data invented", style="bold")
    yield ""
    yield _counts(findings)
    yield ""
    borrower = findings.harvest.borrower
    if borrower is not None:
        yield Text(
            f"Income by year of one invented borrower "
            f"({borrower.slot} of {borrower.application_id})",
            style="bold",
        )
        yield ""
        yield _chart(borrower)
        yield ""
    yield _verdict(findings)


def _counts(findings: Findings) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right", style="bold")
    table.add_column(style="dim")
    rate = findings.requests / findings.seconds
    rows = (
        ("Applications found", len(set(findings.found)), f"of {len(findings.existing):,} existing"),
        ("List requests", findings.list_requests, f"{findings.least_requests:,} at the least"),
        (
            "Records read",
            len(findings.harvest.ids),
            f"updated in the last {findings.recent_days} days",
        ),
        ("Documents read", findings.harvest.documents, "with the data taken from each"),
        (
            "Requests a second",
            round(rate),
            f"{findings.in_flight} in flight, {findings.latency * 1000:.0f} ms of latency",
        ),
        ("Tokens requested", findings.token_requests, f"for {findings.requests:,} requests"),
        ("Seconds", f"{findings.seconds:.1f}", "from the first request to the last record"),
    )
    for name, figure, remark in rows:
        table.add_row(name, figure if isinstance(figure, str) else f"{figure:,}", remark)
    return table


def _chart(borrower: Borrower) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column()
    table.add_column(no_wrap=True, justify="right")
    highest = max(total.amount for total in borrower.totals) or 1
    for total in borrower.totals:
        year = str(total.year) if total.is_over else f"{total.year} so far"
        table.add_row(year, Bar(float(total.amount / highest)), f"{total.amount:,.2f}")
    return table


def _verdict(findings: Findings) -> Text:
    if findings.agree:
        return Text("The counts agree: nothing lost, nothing twice.", style="bold green")
    wrong = (
        (findings.missing, "missing"),
        (findings.unknown, "unknown to the service"),
        (findings.repeated, "twice"),
        (findings.unread, "recent and not read"),
    )
    parts = ", ".join(f"{count:,} {what}" for count, what in wrong if count)
    return Text(f"The counts disagree: {parts}.", style="bold red")
