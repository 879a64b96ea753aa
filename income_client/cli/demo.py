"""``income-client demo``: reads a whole emulated service, as any program would read a real one."""

import asyncio
import webbrowser
from collections.abc import Iterable, Iterator
from datetime import timedelta
from threading import Thread
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Final

from attrs import define, field
from cyclopts import Parameter
from rich.bar import Bar
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from income_client import ApplicationRecord
from income_client.records import YearlyIncome

from .exit_status import ExitStatus
from .options import Count, Switch, Whole
from .output import print_lines, say
from .progress import Bars
from .signals import StopSignals

if TYPE_CHECKING:
    from income_client.emulator import Emulator

_LATENCY: Final = 0.02
_SHOWN_LATENCY: Final = 0.2
"""Seconds of each request, slow enough to follow on the page."""
_OPEN_SECONDS: Final = 15.0
"""Seconds for the browser to load the page, before the demo begins without it."""
_LOOK_SECONDS: Final = 0.2
_IN_FLIGHT: Final = 16
_ALL: Final = timedelta(days=91)
"""Period that covers the emulator's data of 90 days."""
_RECENT: Final = timedelta(days=7)
_USABLE_ROWS: Final = 999
"""Most rows of a page that certainly hides none."""
_BAR_WIDTH: Final = 32


async def demo(
    *,
    applications: Count = 5000,
    seed: Annotated[Whole, Parameter(metavar="NUMBER")] = 7,
    open_page: Annotated[Switch, Parameter(name="--open")] = False,
) -> int:
    """Read an emulated service and check the result.

    It lists all applications, reads the records of those updated in the last days
    and compares what it found with what the service holds. All data is invented.
    The exit status is 1 if they differ.

    --open shows each request on a page in the browser, as it comes. The service is
    slower then, and stays until Ctrl-C ends it.

    Example: income-client demo --applications 20000

    Args:
        applications: Number of applications of the service.
        seed: Random seed of the invented data.
        open_page: Show the requests on a page in the browser.
    """
    # The help needs no server and no client.
    from income_client.emulator import Emulator

    latency = _SHOWN_LATENCY if open_page else _LATENCY
    async with Emulator(applications, seed=seed, latency=latency, time_flows=True) as service:
        is_shown = open_page and await _show_page(service)
        with Bars() as bars:
            results = await _read_service(service, bars)
        mistakes = _find_mistakes(results, service)
        lines = Group(*_draw_summary(results, service, latency), _verdict_text(mistakes))
        print_lines(lines)
        if is_shown:
            await _keep_page(service)
    return ExitStatus.FAILED if mistakes else ExitStatus.DONE


async def _show_page(service: "Emulator") -> bool:
    """Open the service's page in the browser, and return whether the page was requested."""
    try:
        webbrowser.get()
    except webbrowser.Error:
        say(f"no browser was found; the page is at {service.url}")
        return False
    say(f"the browser opens {service.url}")
    # A browser within the terminal returns only once it is left.
    Thread(target=webbrowser.open, args=(service.url,), daemon=True).start()
    for _ in range(round(_OPEN_SECONDS / _LOOK_SECONDS)):
        if any(request.name == "control" for request in service.requests):
            return True
        await asyncio.sleep(_LOOK_SECONDS)
    return False


async def _keep_page(service: "Emulator") -> None:
    """Serve the page until a signal comes."""
    stop = asyncio.Event()
    StopSignals(stop.set)
    say(f"{service.url} stays; Ctrl-C ends it")
    await stop.wait()


@define
class _Results:
    """Applications that the demo has read."""

    ids: list[str] = field(factory=list)
    """Ids of all applications, in the order in which they were listed."""
    list_requests: int = 0
    recent: frozenset[str] = frozenset()
    records: list[ApplicationRecord] = field(factory=list)
    """Records of the applications that were updated last."""
    documents: int = 0
    present_year: int = 0
    seconds: float = 0.0


async def _read_service(service: "Emulator", bars: Bars) -> _Results:
    """Walk the whole list, then read the records of the last few days."""
    from income_client import IncomeClient

    results = _Results()
    began = perf_counter()
    async with IncomeClient(service.url, auth=service.oauth2, concurrency=_IN_FLIGHT) as client:
        # The service's own present, which its bounds are measured by.
        now = (await client.get_application_page(limit=1)).updated_before
        results.present_year = now.year
        paginator = client.list_applications(updated_after=now - _ALL)
        bar = bars.add_task("Walking the list", total=1, count="")
        async for page in paginator.pages():
            results.ids += [row.application_id for row in page.applications]
            count = f"{len(results.ids):,} applications"
            bars.update(bar, completed=paginator.progress.covered_fraction, count=count)
        bars.update(bar, completed=1)
        results.list_requests = paginator.progress.requests
        recent = [row async for row in client.list_applications(updated_after=now - _RECENT)]
        results.recent = frozenset(row.application_id for row in recent)
        bar = bars.add_task("Reading records", total=len(recent), count="")
        async for record in client.fetch_records(recent, concurrency=_IN_FLIGHT):
            results.records.append(record)
            results.documents += len([*record.documents.all()]) if record.documents else 0
            count = f"{len(results.records):,} records, {results.documents:,} documents"
            bars.update(bar, advance=1, count=count)
    results.seconds = perf_counter() - began
    return results


def _find_mistakes(results: _Results, service: "Emulator") -> list[str]:
    """Return the differences between the results and the service's data, in words."""
    existing, ids = set(service.world.ids), set(results.ids)
    read = {record.application_id for record in results.records}
    counts = {
        "missing": len(existing - ids),
        "unknown to the service": len(ids - existing),
        "twice": len(results.ids) - len(ids),
        "recent and not read": len(results.recent - read),
    }
    return [f"{count:,} {what}" for what, count in counts.items() if count]


def _draw_summary(
    results: _Results, service: "Emulator", latency: float
) -> Iterator[RenderableType]:
    yield Text("Income demo: an emulated service, all data invented", style="bold")
    yield ""
    yield _counts_table(results, service, latency)
    yield ""
    borrowers = {
        f"{slot} of {record.application_id}": calculation.incomes
        for record in results.records
        for slot, calculation in record.application.income_calculations.items()
        if calculation.incomes
    }
    borrower = max(borrowers, key=lambda label: len(borrowers[label]), default="")
    if borrower:
        yield Text(f"Income by year of one invented borrower ({borrower})", style="bold")
        yield ""
        yield _income_chart(borrowers[borrower], results.present_year)
        yield ""


def _verdict_text(mistakes: list[str]) -> Text:
    if mistakes:
        return Text(f"The counts disagree: {', '.join(mistakes)}.", style="bold red")
    return Text("The counts agree: nothing lost, nothing twice.", style="bold green")


def _counts_table(results: _Results, service: "Emulator", latency: float) -> Table:
    existing, requests = len(service.world.ids), service.journal.last
    least = -(-existing // _USABLE_ROWS)
    days = f"updated in the last {_RECENT.days} days"
    how = f"{_IN_FLIGHT} in flight, {latency * 1000:.0f} ms of latency"
    rows = (
        ("Applications found", len(set(results.ids)), f"of {existing:,} existing"),
        ("List requests", results.list_requests, f"{least:,} at the least"),
        ("Records read", len(results.records), days),
        ("Documents read", results.documents, "with the data taken from each"),
        ("Requests a second", round(requests / results.seconds), how),
        ("Tokens requested", service.token_requests, f"for {requests:,} requests"),
    )
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right", style="bold")
    table.add_column(style="dim")
    for name, count, explanation in rows:
        table.add_row(name, f"{count:,}", explanation)
    table.add_row("Seconds", f"{results.seconds:.1f}", "from the first request to the last record")
    return table


def _income_chart(incomes: Iterable[YearlyIncome], present_year: int) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(max_width=_BAR_WIDTH)
    table.add_column(no_wrap=True, justify="right")
    incomes = sorted(incomes, key=lambda each: each.year)
    highest = float(max(income.total for income in incomes)) or 1.0
    for income in incomes:
        year = f"{income.year}" if income.year < present_year else f"{income.year} so far"
        bar = Bar(highest, 0, float(income.total), color="cyan")
        table.add_row(year, bar, f"{income.total:,.2f}")
    return table
