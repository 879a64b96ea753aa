"""Measure speed, requests and memory side by side in one run.

``python -m benchmarks [--only part,part] [--quick]``.

A whole run writes results.json and results.md beside this file, and draws its
charts. One of some parts, or a quick one, only prints its tables, unless it is
told where to write. Nothing is asserted: a table says what was measured, what
the goal is, and whether it is met.
"""

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from .charts import draw
from .parts import PARTS, run_part
from .report import Report, from_json, this_machine, to_json, to_markdown
from .table import render

_HERE: Final = Path(__file__).parent


def write(report: Report, directory: Path) -> None:
    """Write a report and its charts into a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    found = to_json(report)
    (directory / "results.json").write_text(found, "utf-8")
    # Read again, so that the table and the charts have the very figures that were written.
    report = from_json(found)
    (directory / "results.md").write_text(to_markdown(report), "utf-8")
    draw(report, directory / "charts")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for, print it, and write it down.

    Args:
        arguments: in place of those of the process.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", metavar="PARTS", help=f"some of {','.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="tiny loads, whose figures say little")
    parser.add_argument("--into", metavar="DIRECTORY", type=Path, help="where to write")
    options = parser.parse_args(arguments)
    names = options.only.split(",") if options.only else list(PARTS)
    unknown = sorted(set(names) - set(PARTS))
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}")
    parts = [run_part(name, is_quick=options.quick) for name in names]
    report = Report(
        date=datetime.now(UTC).date().isoformat(),
        machine=this_machine(),
        is_quick=options.quick,
        parts=parts,
    )
    for part in parts:
        print(f"\n{part.name}: {part.about} ({part.seconds} s)\n")
        print(render(part.rows))
    met, goals = report.goals
    print(f"\n{met} of {goals} goals met; measured in {report.seconds} s")
    is_whole = not options.only and not options.quick
    if options.into or is_whole:
        write(report, options.into or _HERE)


if __name__ == "__main__":
    main()
