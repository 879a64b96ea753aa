"""What polling costs: ``python -m benchmarks.polling [row ...] [--quick]``.

Knows which measurements there are and how they are called. Each runs in a
process of its own, against the emulator in another. Nothing is asserted here:
the table says what was measured, what the goal is, and whether it is met.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeAlias

from .command import run_afresh
from .polling_costs import commit, digest
from .polling_first import first_polls
from .polling_scale import FULL, QUICK, PollingScale
from .polling_steady import poll_steadily
from .table import Row

Measurement: TypeAlias = Callable[[PollingScale], Coroutine[Any, Any, list[Row]]]

MEASUREMENTS: Final[Mapping[str, Measurement]] = {
    "steady": poll_steadily,
    "first": first_polls,
    "digest": digest,
    "commit": commit,
}
"""Every measurement by the name that the command line knows it by."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for, and print the table.

    Args:
        arguments: in place of those of the process.
    """
    run_afresh(MEASUREMENTS, arguments, part="polling", description=__doc__, quick=QUICK, full=FULL)


if __name__ == "__main__":
    main()
