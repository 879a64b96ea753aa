"""``income-client demo``: reads a whole emulated service, as any program would read a real one."""

from collections.abc import Iterator
from datetime import timedelta
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Final

from attrs import define, field
from cyclopts import Parameter
from cyclopts.validators import Number
from rich.bar import Bar
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from income_client import ApplicationRecord, YearlyIncome

from .exit_status import ExitStatus
from .output import print_lines
from .progress import Stages

if TYPE_CHECKING:
    from income_client.emulator import Emulator

_LATENCY: Final = 0.02
_IN_FLIGHT: Final = 16
_ALL: Final = timedelta(days=91)
"""Further back than the emulator's data goes, which covers 90 days."""
_RECENT: Final = timedelta(days=7)
_USABLE_ROWS: Final = 999
"""Most rows of a page that is not full, and so known to hide nothing."""
_BAR_WIDTH: Final = 32


async def demo(
    *,
    applications: Annotated[int, Parameter(validator=Number(gte=1))] = 5000,
    seed: int = 7,
) -> int:
    """Read an emulated service and check the result.

    It lists all applications, reads the records of those updated in the last days
    and compares what it found with what the service holds. All data is invented.
    The exit status is 1 if they differ.

    Example: income-client demo --applications 20000

    Args:
        applications: Number of applications of the service.
        seed: Random seed of the invented data.

    Returns:
        The exit status.
    """
    # The help needs no server and no client.
    from income_client.emulator import Emulator

    async with Emulator(applications, seed=seed, latency=_LATENCY, time_flows=True) as service:
        with Stages() as stages:
            found = await _read(service, stages)
    print_lines(Group(*_summary(found)))
    return ExitStatus.FAILED if found.mistakes else ExitStatus.DONE


@define(kw_only=True)
class _Found:
    """What was read, beside what the service holds and saw."""

    existing: frozenset[str]
    ids: list[str] = field(factory=list)
    """Ids of all applications, in the order in which they were listed."""
    recent: frozenset[str] = frozenset()
    read: list[str] = field(factory=list)
    """Ids of those recently updated whose record was read."""
    documents: int = 0
    borrower: str = ""
    incomes: tuple[YearlyIncome, ...] = ()
    """Income of the borrower of whom most years are known, without anything that identifies."""
    present_year: int = 0
    list_requests: int = 0
    requests: int = 0
    token_requests: int = 0
    seconds: float = 0.0

    def add(self, record: ApplicationRecord) -> None:
        """Count a record, and keep the incomes that make the best chart."""
        self.read.append(record.application_id)
        if record.documents is not None:
            self.documents += sum(1 for _ in record.documents.all())
        for slot, calculation in record.application.income_calculations.items():
            if len(calculation.incomes) > len(self.incomes):
                self.borrower = f"{slot} of {record.application_id}"
                self.incomes = tuple(sorted(calculation.incomes, key=lambda each: each.year))

    @property
    def mistakes(self) -> list[str]:
        """How what was read differs from what the service holds."""
        counts = {
            "missing": len(self.existing.difference(self.ids)),
            "unknown to the service": len(set(self.ids) - self.existing),
            "twice": len(self.ids) - len(set(self.ids)),
            "recent and not read": len(self.recent.difference(self.read)),
        }
        return [f"{count:,} {what}" for what, count in counts.items() if count]


async def _read(service: "Emulator", stages: Stages) -> _Found:
    """Walk the whole list, then read the records of the last few days."""
    from income_client import IncomeClient

    found = _Found(existing=frozenset(service.world.ids))
    began = perf_counter()
    async with IncomeClient(service.url, auth=service.oauth2, concurrency=_IN_FLIGHT) as client:
        # The service's own present, which its bounds are measured by.
        now = (await client.get_application_page(limit=1)).updated_before
        found.present_year = now.year
        paginator = client.list_applications(updated_after=now - _ALL)
        with stages.stage("Walking the list", total=1) as stage:
            async for page in paginator.pages():
                found.ids += [row.application_id for row in page.applications]
                stage.reach(paginator.progress.covered_fraction, f"{len(found.ids):,} applications")
            stage.reach(1, f"{len(found.ids):,} applications")
        found.list_requests = paginator.progress.requests
        recent = [row async for row in client.list_applications(updated_after=now - _RECENT)]
        found.recent = frozenset(row.application_id for row in recent)
        with stages.stage("Reading records", total=len(recent)) as stage:
            async for record in client.fetch_records(recent, concurrency=_IN_FLIGHT):
                found.add(record)
                count = len(found.read)
                stage.reach(count, f"{count:,} records, {found.documents:,} documents")
    found.seconds = perf_counter() - began
    found.requests = len(service.requests)
    found.token_requests = service.token_requests
    return found


def _summary(found: _Found) -> Iterator[RenderableType]:
    yield Text("Income demo: an emulated service, all data invented", style="bold")
    yield ""
    yield _counts(found)
    yield ""
    if found.incomes:
        title = f"Income by year of one invented borrower ({found.borrower})"
        yield Text(title, style="bold")
        yield ""
        yield _chart(found)
        yield ""
    if found.mistakes:
        yield Text(f"The counts disagree: {', '.join(found.mistakes)}.", style="bold red")
    else:
        yield Text("The counts agree: nothing lost, nothing twice.", style="bold green")


def _counts(found: _Found) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right", style="bold")
    table.add_column(style="dim")
    existing = len(found.existing)
    least = -(-existing // _USABLE_ROWS)
    table.add_row("Applications found", f"{len(set(found.ids)):,}", f"of {existing:,} existing")
    table.add_row("List requests", f"{found.list_requests:,}", f"{least:,} at the least")
    days = f"updated in the last {_RECENT.days} days"
    table.add_row("Records read", f"{len(found.read):,}", days)
    table.add_row("Documents read", f"{found.documents:,}", "with the data taken from each")
    rate = f"{found.requests / found.seconds:,.0f}"
    latency = f"{_IN_FLIGHT} in flight, {_LATENCY * 1000:.0f} ms of latency"
    table.add_row("Requests a second", rate, latency)
    table.add_row(
        "Tokens requested", f"{found.token_requests:,}", f"for {found.requests:,} requests"
    )
    table.add_row("Seconds", f"{found.seconds:.1f}", "from the first request to the last record")
    return table


def _chart(found: _Found) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(max_width=_BAR_WIDTH)
    table.add_column(no_wrap=True, justify="right")
    highest = float(max(income.total for income in found.incomes)) or 1.0
    for income in found.incomes:
        year = f"{income.year}" if income.year < found.present_year else f"{income.year} so far"
        bar = Bar(highest, 0, float(income.total), color="cyan")
        table.add_row(year, bar, f"{income.total:,.2f}")
    return table
