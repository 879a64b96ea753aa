"""How the README's examples of exports are run, and what must come of each."""

import json
import re
import shlex
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from tests.support.readme import README

from income_client.emulator import Emulator
from tests.support.examples import python, served

_LINES: Final = "income-client export --to june.jsonl"
_TABLES: Final = "income-client export --to tables --format parquet"


async def exports_by_command(service: Emulator, folder: Path, command: str) -> list[str]:
    """Run the command as it is shown, and return the lines that it printed."""
    program, *arguments = shlex.split(command)
    assert program == "income-client"
    # Its summary is told on standard error, which has to stay empty here.
    quiet = (
        "import contextlib, io, sys; from income_client.cli import main\n"
        "with contextlib.redirect_stderr(io.StringIO()): main()"
    )
    return await python(service, folder, "-c", quiet, *arguments)


def all_served(service: Emulator) -> list[Any]:
    """Return what the service itself says of each application."""
    return [served(service, application_id) for application_id in service.world.ids]


def incomes(service: Emulator) -> list[tuple[Any, int, Decimal]]:
    """Return applicant, year and amount of all that was calculated."""
    return [
        (application["applicants"].get(slot), income["year"], source["calculated_income_amount"])
        for application in all_served(service)
        for slot, calculation in application["income_calculations"].items()
        for income in calculation["incomes"]
        for source in income["income_sources"]
    ]


async def totals_agree(service: Emulator, path: Path) -> None:
    """The sum of each year is the service's own, and the manifest holds what its table says."""
    await exports_by_command(service, path.parent, _LINES)
    manifest = json.loads((path.parent / "june.jsonl.manifest.json").read_text("utf-8"))
    table = README.partition("| manifest |")[2].partition("\n\n")[0]
    firsts = re.findall(r"^\| (.*?) \|", table, re.MULTILINE)
    told = [*re.findall(r"`(\w+)`", " ".join(firsts)), "missing", "saturated_seconds"]
    assert sorted(told) == sorted([*manifest, "rows"])
    printed = [line.split() for line in await python(service, path.parent, path.name)]
    sums: dict[str, Decimal] = {}
    for _, year, amount in incomes(service):
        sums[str(year)] = sums.get(str(year), Decimal(0)) + amount
    assert {year: Decimal(total) for year, total in printed} == sums


async def averages_by_state(service: Emulator, path: Path) -> None:
    """There is a row for each state in which somebody lives, and each year."""
    await exports_by_command(service, path.parent, _TABLES)
    printed = [line.split() for line in await python(service, path.parent, path.name)]
    pairs = {
        (entry["address"]["state"], year)
        for applicant, year, _ in incomes(service)
        for entry in applicant["address_info"]
        if entry["is_current"]
    }
    assert {(state, int(year)) for state, year, *_ in printed} == pairs
    assert all(int(words[2]) > 0 and float(words[4]) > 0 for words in printed)


async def names_those_without(service: Emulator, path: Path) -> None:
    """Each application is named that has no recent pay slip, and no other."""
    await exports_by_command(service, path.parent, _TABLES)
    lines = await python(service, path.parent, path.name)
    limit = datetime.now(UTC).date() - timedelta(days=60)
    expected = []
    for application_id in service.world.ids:
        documents = served(service, application_id, "/documents")
        slips = documents["documents"].get("paystub", [])
        days = [date.fromisoformat(slip["extracted_data"]["pay_date"]) for slip in slips]
        if not any(day > limit for day in days):
            expected.append(documents["application_reference_id"])
    assert lines == [f"{one} has no pay slip of the last 60 days" for one in sorted(expected)]


async def names_the_suspected(service: Emulator, path: Path) -> None:
    """Each line is an income that a doubted document supports."""
    await exports_by_command(service, path.parent, _TABLES)
    lines = await python(service, path.parent, path.name)
    expected = {
        application["application_id"]
        for application in all_served(service)
        for calculation in application["income_calculations"].values()
        for income in calculation["incomes"]
        for source in income["income_sources"]
        if set(source["document_ids"]) & set(calculation["suspected_fraudulent"]["document_ids"])
    }
    assert {line.split()[0] for line in lines} == expected
    assert expected


async def prints_net_pay(service: Emulator, path: Path) -> None:
    """Each line is an application, a day of payment and an exact amount."""
    lines = await python(service, path.parent, path.name)
    assert lines
    assert all(re.fullmatch(r"app-[0-9a-f]{10} [0-9-]{10} [\d,]+\.\d\d", one) for one in lines)


RUN: Final[Mapping[str, Callable[[Emulator, Path], Awaitable[None]]]] = {
    "incomes_by_state.py": averages_by_state,
    "net_pay.py": prints_net_pay,
    "suspected_incomes.py": names_the_suspected,
    "totals.py": totals_agree,
    "without_pay_slip.py": names_those_without,
}
