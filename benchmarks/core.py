"""The goals of the core in one run: ``python -m benchmarks.core [row ...] [--quick]``.

Knows which measurements there are and how they are called. Each runs in a
process of its own, against the emulator in another. Nothing is asserted here:
the table says what was measured, what the goal is, and whether it is met.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from . import fetching, streaming, walking
from .command import run
from .processes import measured_afresh
from .scale import FULL, QUICK, Scale
from .table import Row

Measurement: TypeAlias = Callable[[Scale], Coroutine[Any, Any, list[Row]]]

MEASUREMENTS: Final[Mapping[str, Measurement]] = {
    "walk-bursts": walking.walk_bursts,
    "walk-uniform": walking.walk_uniform,
    "stream": streaming.stream_summaries,
    "stream-records": streaming.stream_records,
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
    run(
        {name: partial(measure, name) for name in MEASUREMENTS},
        arguments,
        prog="python -m benchmarks.core",
        description=__doc__,
        quick=QUICK,
        full=FULL,
    )


if __name__ == "__main__":
    main()
