"""How the guide's example of exports is run, and what must come of it."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from income_client.emulator import Emulator
from tests.support.examples import RunExample, python, served

_TABLES: Final = "income-client export --to tables --format parquet"
_FIELDS: Final = {
    "missing",
    "next_updated_after",
    "records",
    "rows",
    "saturated_seconds",
    "updated_after",
    "updated_before",
    "whole",
}
"""What the page says of the manifest."""


async def exports_by_command(service: Emulator, folder: Path, command: str) -> list[str]:
    """Run the command as it is shown, and return the lines that it printed."""
    program, *arguments = shlex.split(command)
    assert program == "income-client"
    # Its summary goes to standard error, which has to stay empty here.
    quiet = (
        "import contextlib, io, sys; from income_client.cli import main\n"
        "with contextlib.redirect_stderr(io.StringIO()): main()"
    )
    return await python(service, folder, "-c", quiet, *arguments)


async def averages_by_state(service: Emulator, path: Path) -> None:
    """There is a row for each state in which an applicant lives, and each year."""
    await exports_by_command(service, path.parent, _TABLES)
    manifest = json.loads((path.parent / "tables" / "manifest.json").read_text("utf-8"))
    assert manifest.keys() >= _FIELDS
    printed = [line.split() for line in await python(service, path.parent, path.name)]
    assert {(state, int(year)) for state, year, *_ in printed} == set(_places(service))
    assert all(int(words[2]) > 0 and float(words[4]) > 0 for words in printed)


def _places(service: Emulator) -> list[tuple[str, int]]:
    """Return the state and the year of each calculated income."""
    applications: list[Any] = [served(service, one) for one in service.world.ids]
    return [
        (entry["address"]["state"], income["year"])
        for application in applications
        for slot, calculation in application["income_calculations"].items()
        for income in calculation["incomes"]
        if income["income_sources"]
        for entry in application["applicants"][slot]["address_info"]
        if entry["is_current"]
    ]


RUN: Final[Mapping[str, RunExample]] = {"incomes_by_state.py": averages_by_state}
