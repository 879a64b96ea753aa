"""The goals of the core in one run: ``python -m benchmarks.core [row ...] [--quick]``.

Knows which measurements there are and how they are called. Each runs in a
process of its own, against the emulator in another. Nothing is asserted here:
the table says what was measured, what the goal is, and whether it is met.
"""

import argparse
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeAlias

from . import fetching, walking
from .processes import measured_afresh
from .scale import FULL, QUICK, Scale
from .table import Row, render

Measurement: TypeAlias = Callable[[Scale], Coroutine[Any, Any, list[Row]]]

MEASUREMENTS: Final[Mapping[str, Measurement]] = {
    "walk-bursts": walking.walk_bursts,
    "walk-uniform": walking.walk_uniform,
    "stream": walking.stream_summaries,
    "in-flight": walking.walk_concurrently,
    "first-calls": fetching.first_calls,
    "records": fetching.fetch_records,
}
"""Every measurement by the name that the command line knows it by."""


def measure(name: str, scale: Scale) -> list[Row]:
    """Return the rows of one measurement; a failure is a row as well."""
    try:
        return measured_afresh(MEASUREMENTS[name], scale)
    except Exception as error:  # noqa: BLE001 - the other measurements go on
        return [Row(what=name, measured=type(error).__name__, goal="no failure", is_met=False)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for, and print the table.

    Args:
        arguments: in place of those of the process.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.core", description=__doc__)
    parser.add_argument("row", nargs="*", help=f"one of {', '.join(MEASUREMENTS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="tiny loads, whose figures say little")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.row) - set(MEASUREMENTS))
    if unknown:
        parser.error(f"there is no row {', '.join(unknown)}")
    scale = QUICK if options.quick else FULL
    began = time.perf_counter()
    rows: list[Row] = []
    for name in options.row or MEASUREMENTS:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        rows += measure(name, scale)
    print(render(rows))
    print(f"\nmeasured in {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
