"""What downloads cost: ``python -m benchmarks.downloads [row ...] [--quick]``.

Knows which measurements there are and how they are called. Each runs in a
process of its own, against a host of files in another. Nothing is asserted here:
the table says what was measured, what the goal is, and whether it is met.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeAlias

from .command import run_afresh
from .downloads_scale import FULL, QUICK, DownloadScale
from .downloads_timed import cut_short, large_memory, many_small, one_large
from .table import Row

Measurement: TypeAlias = Callable[[DownloadScale], Coroutine[Any, Any, list[Row]]]

MEASUREMENTS: Final[Mapping[str, Measurement]] = {
    "large": one_large,
    "memory": large_memory,
    "small": many_small,
    "cut": cut_short,
}
"""Every measurement by the name that the command line knows it by."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for, and print the table.

    Args:
        arguments: in place of those of the process.
    """
    run_afresh(
        MEASUREMENTS, arguments, part="downloads", description=__doc__, quick=QUICK, full=FULL
    )


if __name__ == "__main__":
    main()
