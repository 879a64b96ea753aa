"""What receiving callbacks costs: ``python -m benchmarks.callbacks [row ...] [--quick]``.

Knows which measurements there are and how they are called. Each runs in a
process of its own, against web servers in others. Nothing is asserted here:
the table says what was measured, what the goal is, and whether it is met.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeAlias

from .callback_costs import ring_aiohttp, ring_uvicorn
from .callback_flood import flood
from .callback_scale import FULL, QUICK, CallbackScale
from .callback_waking import wake
from .command import run_afresh
from .table import Row

Measurement: TypeAlias = Callable[[CallbackScale], Coroutine[Any, Any, list[Row]]]

MEASUREMENTS: Final[Mapping[str, Measurement]] = {
    "aiohttp": ring_aiohttp,
    "uvicorn": ring_uvicorn,
    "flood": flood,
    "wake": wake,
}
"""Every measurement by the name that the command line knows it by."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for, and print the table.

    Args:
        arguments: in place of those of the process.
    """
    run_afresh(
        MEASUREMENTS, arguments, part="callbacks", description=__doc__, quick=QUICK, full=FULL
    )


if __name__ == "__main__":
    main()
