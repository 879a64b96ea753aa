"""Report of a run: rows, their JSON and Markdown, and the tables of pages that quote them.

What is compared takes turns, so that a machine that slows down slows both.
"""

import json
import os
import platform
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from statistics import median
from typing import Any, Final

from attrs import asdict, frozen

_LIBRARIES: Final = (
    *("aiohttp", "attrs", "cattrs", "httpx", "msgspec", "orjson", "pydantic"),
    *("tenacity", "yarl"),
)
_MET: Final[Mapping[bool | None, str]] = {True: "yes", False: "**no**", None: ""}
_BAR_LETTERS: Final = 40
_TEXT_BLOCK: Final = re.compile(r"^```text\n([^\n]+)\n\n.*?^```$", re.MULTILINE | re.DOTALL)
_UNITS: Final = {"s": 1.0, "ms": 1e3, "us": 1e6}


@frozen(kw_only=True)
class Scale:
    """The sizes of all loads."""

    rounds: int = 9  # times that ways take turns
    few_rounds: int = 3  # the same, where one round takes seconds
    decoded: int = 6_000_000  # bytes, in each way and round
    calls: int = 400  # of each way in each round
    simulated: int = 1_000_000  # applications of simulated walks
    streamed: int = 1_000_000  # summaries that are read while memory is watched
    fetched: int = 10_000  # records that are read while memory is watched
    records: int = 1_000  # that are read against the clock
    latency: float = 0.020  # seconds that the service takes, where that matters
    large_bytes: int = 10**9  # of the large file
    files: int = 500  # small ones of one round
    polls: int = 40  # of everyday life
    speed: float = 4.0  # seconds of these in one of the machine's
    polled: float = 10.0  # updates in a second of these
    settles: tuple[int, ...] = (5, 20, 60, 300)  # of pollers in simulated time
    followed: float = 120.0  # seconds of theirs
    history: int = 1_500  # applications that a first poll finds
    commits: int = 50  # to the store in each round


FULL: Final = Scale()
"""Scale of the quoted figures."""

QUICK: Final = Scale(
    rounds=1,
    few_rounds=1,
    decoded=50_000,
    calls=8,
    simulated=3_000,
    streamed=5_000,
    fetched=200,
    records=40,
    latency=0.002,
    large_bytes=4_000_000,
    files=10,
    polls=4,
    speed=12.0,
    polled=2.0,
    settles=(5,),
    followed=2.0,
    history=60,
    commits=3,
)
"""Enough to see every row; its figures mean nothing."""

OURS: Final = "income_client"
"""Name of this package where ways are compared."""


@frozen(kw_only=True)
class Row:
    """One figure."""

    label: str
    """Measured quantity, in words that a reader of the README understands; unique."""
    measured: str
    """The figure as it is quoted, with its unit."""
    goal: str = ""
    """The figure to reach; empty where the row is there for comparison."""
    is_met: bool | None = None
    """Whether it was reached; None where there is no goal."""
    value: float | None = None
    """The figure as a number, where it is one."""
    rounds: int | None = None
    """Number of rounds of which the figure is the median; None for one."""


def at_most(
    label: str,
    value: float,
    goal: float,
    *,
    shown: str | None = None,
    rounds: int | None = None,
) -> Row:
    """Return the row of a figure that should be small."""
    return Row(
        label=label,
        measured=shown or f"{value:.2f}",
        goal=f"<= {goal:g}",
        is_met=value <= goal,
        value=value,
        rounds=rounds,
    )


def exactly(label: str, found: object, expected: object, *, shown: str | None = None) -> Row:
    """Return the row of what must be so."""
    return Row(
        label=label,
        measured=shown or f"{found}",
        goal="all" if shown else f"{expected}",
        is_met=found == expected,
    )


async def in_turns(
    ways: Mapping[str, Callable[[], Awaitable[float]]], rounds: int
) -> dict[str, list[float]]:
    """Return the cost of each way in each round; the first of one round is the last of the next."""
    costs: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds):
        for name in ways if turn % 2 == 0 else reversed([*ways]):
            costs[name].append(await ways[name]())
    return costs


async def timed(work: Awaitable[object]) -> float:
    """Return how many seconds some work took."""
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


def compared(
    label: str,
    seconds: Mapping[str, Sequence[float]],
    one: str,
    other: str,
    *,
    unit: str,
    goal: float | None = None,
) -> Row:
    """Return the row of what one way costs over another: the median of the rounds' ratios."""
    ratio = median(a / b for a, b in zip(seconds[one], seconds[other], strict=True))
    costs = ", ".join(in_unit(median(seconds[name]), unit) for name in (one, other))
    shown, rounds = f"{ratio:.2f} ({costs})", len(seconds[one])
    if goal is None:
        return Row(label=label, measured=shown, value=ratio, rounds=rounds)
    return at_most(label, ratio, goal, shown=shown, rounds=rounds)


def in_unit(seconds: float, unit: str) -> str:
    """Return a time as text: whole units, or with a decimal below ten."""
    value = seconds * _UNITS[unit]
    return f"{value:.0f} {unit}" if value >= 10 else f"{value:.1f} {unit}"


@frozen(kw_only=True)
class PartReport:
    """Results of one part."""

    name: str
    """As the command line has it."""
    about: str
    """Subject of the part, in one line."""
    seconds: int
    """Seconds that the part took."""
    rows: Sequence[Row]
    """Figures of the part."""


@frozen(kw_only=True)
class Report:
    """Results of one run, and the class of the machine without its name and paths."""

    date: str
    """Of the run, in ISO 8601."""
    machine: str
    """Cores, system and Python."""
    libraries: Mapping[str, str]
    """Version of each that is measured or measured against."""
    is_quick: bool
    """Whether the loads were tiny, so that the figures mean nothing."""
    parts: Sequence[PartReport]
    """In the order in which they ran."""

    @property
    def summary(self) -> str:
        """Date and machine of the run, and the number of goals that are met."""
        seconds = sum(part.seconds for part in self.parts)
        goals = [row.is_met for row in self.rows() if row.is_met is not None]
        return f"{self.date}: {self.machine}. {seconds} s, {sum(goals)} of {len(goals)} goals met."

    def rows(self) -> Iterator[Row]:
        """Return the rows of all parts."""
        return (row for part in self.parts for row in part.rows)


def this_machine() -> str:
    """Return what kind of machine this is."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{cores} cores, {platform.system()} {platform.machine()}, {python}"


def these_libraries() -> dict[str, str]:
    """Return the version of each library that is there."""
    found: dict[str, str] = {}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def to_json(report: Report) -> str:
    """Return a report as JSON, which `from_json` reads."""
    return json.dumps(asdict(report), indent=1, ensure_ascii=False) + "\n"


def from_json(text: str) -> Report:
    """Return the report that `to_json` wrote."""
    found: dict[str, Any] = json.loads(text)
    parts = [
        PartReport(**{**part, "rows": [Row(**row) for row in part["rows"]]})
        for part in found.pop("parts")
    ]
    return Report(**found, parts=parts)


def to_markdown(report: Report) -> str:
    """Return a report as tables for a reader."""
    libraries = ", ".join(f"{name} {text}" for name, text in report.libraries.items())
    lines = ["# Measured", "", f"By `python -m benchmarks` on {report.summary}", "", libraries]
    if report.is_quick:
        lines += ["", "The loads were tiny: these figures mean nothing."]
    for part in report.parts:
        lines += ["", f"## {part.name}: {part.about}", ""]
        lines += ["| what | measured | goal | met | rounds |", "|---|---:|---:|:---:|---:|"]
        lines += [
            _line(row.label, row.measured, row.goal, _MET[row.is_met], f"{row.rounds or ''}")
            for row in part.rows
        ]
    return "\n".join(lines) + "\n"


def bars_of(label: str, report: Report) -> str:
    """Return a row and those that are compared with it as bars of text, a line each."""
    rows = {
        row.label.removeprefix(label).removeprefix(": ") or OURS: row.value
        for row in report.rows()
        if row.value is not None and f"{row.label}: ".startswith(f"{label}: ")
    }
    width, most = max(map(len, rows)), max(rows.values())
    return "\n".join(
        f"{name:<{width}}  {'█' * round(_BAR_LETTERS * value / most)} {value:.2f}"
        for name, value in rows.items()
    )


def figures_written_in(text: str, report: Report) -> str:
    """Return a page with the figures of a report in every table that has a column ``measured``.

    The first cell of a line is the label of a row. A line of any other label stays as it is. A
    block of text that begins with a label gets the bars of that row.
    """
    figures = {row.label: row.measured for row in report.rows()}

    def with_bars(block: re.Match[str]) -> str:
        label = block[1]
        if label not in figures:
            return block[0]
        return f"```text\n{label}\n\n{bars_of(label, report)}\n```"

    text = _TEXT_BLOCK.sub(with_bars, text)
    lines: list[str] = []
    column: int | None = None
    for line in text.split("\n"):
        cells = cells_of(line)
        if not cells:
            column = None
        elif column is None:
            column = cells.index("measured") if "measured" in cells else -1
        elif column >= 0 and cells[0] in figures:
            cells[column] = figures[cells[0]]
            lines.append(_line(*cells))
            continue
        lines.append(line)
    return "\n".join(lines)


def cells_of(line: str) -> list[str]:
    """Return the cells of a line of a Markdown table; none of any other line."""
    if not line.startswith("|"):
        return []
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
