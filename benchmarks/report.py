"""What one run found, as a value, as JSON and as Markdown; measures nothing, draws nothing.

Of the machine it knows the class: how many cores, which Python, which libraries. No name, no path.
"""

import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from attrs import frozen

from .table import Row

_LIBRARIES: Final = (
    "aiohttp",
    "attrs",
    "cattrs",
    "fastapi",
    "httpx",
    "msgspec",
    "orjson",
    "pydantic",
    "tenacity",
    "uvicorn",
    "yarl",
)
_MET: Final[Mapping[bool | None, str]] = {True: "yes", False: "**no**", None: ""}


@frozen(kw_only=True)
class Machine:
    """What kind of machine measured."""

    cores: int
    """That this process may use."""
    system: str
    """Such as Linux x86_64."""
    python: str
    """Implementation and version."""
    libraries: Mapping[str, str]
    """Version of each that is measured or measured against."""

    def __str__(self) -> str:
        cores = "1 core" if self.cores == 1 else f"{self.cores} cores"
        return f"{cores}, {self.system}, {self.python}"


@frozen(kw_only=True)
class PartReport:
    """What one part found."""

    name: str
    """As the command line knows it."""
    about: str
    """What it is about, in one line."""
    seconds: int
    """That it took."""
    rows: Sequence[Row]
    """What it found."""


@frozen(kw_only=True)
class Report:
    """What one run found."""

    date: str
    """Of the run, in ISO 8601."""
    machine: Machine
    """What kind of machine measured."""
    is_quick: bool
    """Whether the loads were tiny, so that the figures say little."""
    parts: Sequence[PartReport]
    """In the order in which they ran."""

    @property
    def seconds(self) -> int:
        """How long all took."""
        return sum(part.seconds for part in self.parts)

    @property
    def goals(self) -> tuple[int, int]:
        """How many goals are met, and how many there are."""
        found = [row.is_met for row in self.rows() if row.is_met is not None]
        return sum(found), len(found)

    def rows(self) -> Iterator[Row]:
        """Return the rows of all parts."""
        return (row for part in self.parts for row in part.rows)


def this_machine() -> Machine:
    """Return what kind of machine this is."""
    found: dict[str, str] = {}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return Machine(
        cores=len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1,
        system=f"{platform.system()} {platform.machine()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        libraries=found,
    )


def to_json(report: Report) -> str:
    """Return a report as JSON, which `from_json` reads."""
    parts = [
        {
            "name": part.name,
            "about": part.about,
            "seconds": part.seconds,
            "rows": [_row_to_json(row) for row in part.rows],
        }
        for part in report.parts
    ]
    machine = report.machine
    found = {
        "date": report.date,
        "quick": report.is_quick,
        "seconds": report.seconds,
        "machine": {
            "cores": machine.cores,
            "system": machine.system,
            "python": machine.python,
            "libraries": dict(machine.libraries),
        },
        "parts": parts,
    }
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def from_json(text: str) -> Report:
    """Return the report that `to_json` wrote."""
    found: Mapping[str, Any] = json.loads(text)
    return Report(
        date=found["date"],
        machine=Machine(**found["machine"]),
        is_quick=found["quick"],
        parts=[
            PartReport(
                name=part["name"],
                about=part["about"],
                seconds=part["seconds"],
                rows=[_row_from_json(row) for row in part["rows"]],
            )
            for part in found["parts"]
        ],
    )


def _row_to_json(row: Row) -> dict[str, Any]:
    found = {
        "name": row.what,
        "measured": row.measured,
        "value": None if row.value is None else float(f"{row.value:.6g}"),
        "goal": row.goal,
        "most": row.most,
        "met": row.is_met,
        "rounds": row.rounds,
    }
    return {name: value for name, value in found.items() if value not in (None, "")}


def _row_from_json(found: Mapping[str, Any]) -> Row:
    return Row(
        what=found["name"],
        measured=found["measured"],
        value=found.get("value"),
        goal=found.get("goal", ""),
        most=found.get("most"),
        is_met=found.get("met"),
        rounds=found.get("rounds"),
    )


def to_markdown(report: Report) -> str:
    """Return a report as tables for a reader."""
    met, goals = report.goals
    libraries = ", ".join(f"{name} {text}" for name, text in report.machine.libraries.items())
    lines = [
        "# Measured",
        "",
        f"By `python -m benchmarks` on {report.date}: {report.machine}.",
        f"{report.seconds} s, {met} of {goals} goals met.",
        "",
        libraries,
    ]
    if report.is_quick:
        lines += ["", "The loads were tiny: these figures mean nothing."]
    for part in report.parts:
        lines += ["", f"## {part.name}: {part.about}", ""]
        lines += ["| what | measured | goal | met | rounds |", "|---|---:|---:|:---:|---:|"]
        lines += [_line(row) for row in part.rows]
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    what = row.what.replace("|", "\\|")
    indent = "&nbsp;&nbsp;" * ((len(what) - len(what.lstrip())) // 2)
    goal = row.goal.replace("<=", "≤")
    rounds = row.rounds or ""
    return f"| {indent}{what.lstrip()} | {row.measured} | {goal} | {_MET[row.is_met]} | {rounds} |"
