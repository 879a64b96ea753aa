"""What measurements have in common on a command line: names, ``--quick`` and one table."""

import argparse
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from .processes import measured_afresh
from .table import Row, render

S = TypeVar("S")


def run(
    measurements: Mapping[str, Callable[[S], list[Row]]],
    arguments: Sequence[str] | None,
    *,
    prog: str,
    description: str | None,
    quick: S,
    full: S,
) -> None:
    """Measure what the command line asks for, and print the table.

    Args:
        measurements: each by the name that the command line knows it by.
        arguments: in place of those of the process.
        prog: how the command is called.
        description: what it measures.
        quick: the scale of a run whose figures say little.
        full: the scale of any other.
    """
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("row", nargs="*", help=f"one of {', '.join(measurements)}; all by default")
    parser.add_argument("--quick", action="store_true", help="tiny loads, whose figures say little")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.row) - set(measurements))
    if unknown:
        parser.error(f"there is no row {', '.join(unknown)}")
    scale = quick if options.quick else full
    began = time.perf_counter()
    rows: list[Row] = []
    for name in options.row or measurements:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        rows += measurements[name](scale)
    print(render(rows))
    print(f"\nmeasured in {time.perf_counter() - began:.0f} s")


def run_afresh(
    measurements: Mapping[str, Callable[[S], Coroutine[Any, Any, list[Row]]]],
    arguments: Sequence[str] | None,
    *,
    part: str,
    description: str | None,
    quick: S,
    full: S,
) -> None:
    """Measure what the command line asks for, each in a process of its own.

    Args:
        measurements: each by the name that the command line knows it by.
        arguments: in place of those of the process.
        part: the module that is called.
        description: what it measures.
        quick: the scale of a run whose figures say little.
        full: the scale of any other.
    """
    run(
        {name: partial(measured_afresh, how) for name, how in measurements.items()},
        arguments,
        prog=f"python -m benchmarks.{part}",
        description=description,
        quick=quick,
        full=full,
    )
