"""``income-client demo``: reads a whole emulated service, as any program would read a real one."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from time import perf_counter
from typing import Annotated, Final

from cyclopts import Parameter
from cyclopts.validators import Number

from income_client import ApplicationPaginator, ApplicationRecord, ApplicationSummary, IncomeClient
from income_client.emulator import Emulator

from .demonstration.findings import Borrower, Findings, Harvest, YearTotal
from .demonstration.summary import show_summary
from .exit_status import ExitStatus
from .progress import Stages

_LATENCY: Final = 0.02
_ALL: Final = timedelta(days=91)
"""Further back than the emulator's data goes, which covers 90 days."""
_RECENT: Final = timedelta(days=7)
_IN_FLIGHT: Final = 16


async def demo(
    *,
    applications: Annotated[int, Parameter(validator=Number(gte=1))] = 5000,
    seed: int = 7,
) -> int:
    """Read a whole emulated service of invented data, and say what was found.

    Progress goes to standard error, the summary to standard output. The exit
    status is 1 if the summary does not agree with what the service holds.

    Example: income-client demo --applications 20000

    Args:
        applications: how many the service holds.
        seed: what everything invented hangs on.

    Returns:
        The exit status: 1 if what was found is not what exists.
    """
    async with Emulator(applications, seed=seed, latency=_LATENCY, time_flows=True) as service:
        with Stages() as stages:
            findings = await read_service(service, stages)
    return conclude(findings)


async def read_service(service: Emulator, stages: Stages) -> Findings:
    """Walk the whole list, then read the applications of the last few days.

    Args:
        service: what to read.
        stages: where to show how far it has come.

    Returns:
        What was found, beside what the emulator knows.
    """
    began = perf_counter()
    async with IncomeClient(service.url, auth=service.oauth2, concurrency=_IN_FLIGHT) as client:
        # The service's own present, which its bounds are measured by.
        now = (await client.get_application_page(limit=1)).updated_before
        paginator = client.list_applications(updated_after=now - _ALL)
        found = await _walk(paginator, stages)
        recent = [row async for row in client.list_applications(updated_after=now - _RECENT)]
        harvest = await _harvest(client, recent, stages, present_year=now.year)
    seconds = perf_counter() - began

    return Findings(
        existing=frozenset(service.world.ids),
        found=found,
        list_requests=paginator.progress.requests,
        recent=tuple(row.application_id for row in recent),
        recent_days=_RECENT.days,
        harvest=harvest,
        requests=len(service.requests),
        token_requests=service.token_requests,
        seconds=seconds,
        latency=_LATENCY,
        in_flight=_IN_FLIGHT,
    )


def conclude(findings: Findings) -> int:
    """Print the summary and return the exit status: 0 if all counts agree, 1 if not."""
    show_summary(findings)
    return ExitStatus.DONE if findings.agree else ExitStatus.FAILED


async def _walk(paginator: ApplicationPaginator, stages: Stages) -> tuple[str, ...]:
    found: list[str] = []
    with stages.stage("Walking the list", total=1) as stage:
        async for page in paginator.pages():
            found += [row.application_id for row in page.applications]
            stage.reach(paginator.progress.covered_fraction, f"{len(found):,} applications")
        stage.reach(paginator.progress.covered_fraction, f"{len(found):,} applications")
    return tuple(found)


async def _harvest(
    client: IncomeClient,
    applications: Sequence[ApplicationSummary],
    stages: Stages,
    *,
    present_year: int,
) -> Harvest:
    read: list[str] = []
    documents = 0
    borrowers: list[Borrower] = []
    with stages.stage("Reading records", total=len(applications)) as stage:
        async for record in client.fetch_records(applications, concurrency=_IN_FLIGHT):
            read.append(record.application_id)
            if record.documents is not None:
                documents += sum(1 for _ in record.documents.all())
            borrowers += _borrowers(record, present_year)
            stage.reach(len(read), f"{len(read):,} records, {documents:,} documents")
    # The one of whom most years are known makes the best chart.
    shown = max(borrowers, key=lambda borrower: len(borrower.totals), default=None)
    return Harvest(ids=tuple(read), documents=documents, borrower=shown)


def _borrowers(record: ApplicationRecord, present_year: int) -> Iterator[Borrower]:
    for slot, calculation in record.application.income_calculations.items():
        totals = tuple(
            YearTotal(
                year=income.year,
                amount=sum((s.calculated_income_amount for s in income.income_sources), Decimal(0)),
                is_over=income.year < present_year,
            )
            for income in sorted(calculation.incomes, key=lambda income: income.year)
        )
        if totals:
            yield Borrower(application_id=record.application_id, slot=slot, totals=totals)
