"""Measure speed, requests and memory side by side in one run.

``python -m benchmarks [--only part,part] [--quick] [--into DIRECTORY]``.

A whole run writes results.json and results.md beside this file, and its figures into README.md
and the pages of the guide. One of some parts, or a quick one, only prints its
rows, unless ``--into`` says where to write. Nothing is asserted: a row says what was measured,
what the goal is, and whether it is met.
"""

import argparse
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from .report import (
    FULL,
    QUICK,
    PartReport,
    Report,
    Row,
    Scale,
    figures_written_in,
    these_libraries,
    this_machine,
    to_json,
    to_markdown,
)
from .services import measured_afresh

PARTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "decoding": "bytes to records, against pydantic",
        "calls": "what one call costs, against bare aiohttp and httpx with pydantic",
        "walking": "list requests of a walk, against other ways to divide time",
        "reading": "records, memory and files",
        "polling": "what polling costs the service and the machine",
    }
)
"""Subject of each part, in the order of the report; each part is a module of this package.

A part has ``MEASUREMENTS``: coroutine functions by their names, which take the scale and return
rows. Each runs in a process of its own.
"""

_HERE: Final = Path(__file__).parent


def write(report: Report, directory: Path) -> None:
    """Write a report into a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "results.json").write_text(to_json(report), "utf-8")
    (directory / "results.md").write_text(to_markdown(report), "utf-8")


def pages() -> Iterator[Path]:
    """Return the pages whose tables quote figures."""
    yield _HERE.parent / "README.md"
    yield from sorted((_HERE.parent / "income_client" / "guide").glob("*.md"))


def run_part(name: str, scale: Scale) -> PartReport:
    """Measure all of a part; a measurement that fails is a row, and the others continue."""
    began = time.perf_counter()
    rows: list[Row] = []
    measurements: Mapping[str, Callable[[Scale], Coroutine[Any, Any, list[Row]]]] = import_module(
        f"{__package__}.{name}"
    ).MEASUREMENTS
    for measurement, measure in measurements.items():
        label = f"{name} {measurement}"
        started = time.perf_counter()
        try:
            rows += measured_afresh(measure, scale)
        except Exception as error:  # noqa: BLE001 - the other measurements continue
            rows.append(Row(label=label, measured=repr(error), goal="no failure", is_met=False))
        print(f"{label}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    seconds = round(time.perf_counter() - began)
    return PartReport(name=name, about=PARTS[name], seconds=seconds, rows=rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for, print it, and write it down."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", metavar="PARTS", help=f"some of {','.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="tiny loads; its figures mean nothing")
    parser.add_argument("--into", metavar="DIRECTORY", type=Path, help="where to write")
    options = parser.parse_args(arguments)
    names = options.only.split(",") if options.only else list(PARTS)
    unknown = sorted(set(names) - set(PARTS))
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}")
    scale = QUICK if options.quick else FULL
    report = Report(
        date=datetime.now(UTC).date().isoformat(),
        machine=this_machine(),
        libraries=these_libraries(),
        is_quick=options.quick,
        parts=[run_part(name, scale) for name in names],
    )
    print(to_markdown(report))
    is_whole = not options.only and not options.quick
    if options.into or is_whole:
        write(report, options.into or _HERE)
    if is_whole and not options.into:
        for page in pages():
            page.write_text(figures_written_in(page.read_text("utf-8"), report), "utf-8")


if __name__ == "__main__":
    main()
