"""What there is to measure, by the names of the command line; loads a part when it is its turn.

A part is a module with `MEASUREMENTS`, each a coroutine function that takes the scale and returns
rows, and with the scales `FULL` and `QUICK`.
"""

import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias, cast

from .processes import measured_afresh
from .report import PartReport
from .table import Row

Measurement: TypeAlias = Callable[[Any], Coroutine[Any, Any, list[Row]]]

PARTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "decoding": "bytes to records, against pydantic, msgspec and orjson",
        "calling": "what one call costs, against bare aiohttp and httpx with pydantic",
        "walking": "list requests of a walk, against other ways to divide time",
        "core": "walks, tokens, many records and memory, against the emulator",
        "polling": "what polling costs the service and the machine",
        "downloads": "files, against bare loops of aiohttp",
        "callbacks": "receivers, against bare handlers",
    }
)
"""What each part is about, in the order of the report; each is a module of this package."""


class _Part(Protocol):
    MEASUREMENTS: Mapping[str, Measurement]
    FULL: Any
    QUICK: Any


def run_part(name: str, *, is_quick: bool) -> PartReport:
    """Measure all of a part; a measurement that fails is a row, and the others go on.

    Args:
        name: of the part.
        is_quick: whether tiny loads will do, whose figures say little.
    """
    began = time.perf_counter()
    rows: list[Row] = []
    try:
        part = cast("_Part", import_module(f"{__package__}.{name}"))
    except ImportError as error:
        rows.append(_failed(name, error))
    else:
        scale = part.QUICK if is_quick else part.FULL
        for measurement, measure in part.MEASUREMENTS.items():
            rows += _measured(f"{name} {measurement}", measure, scale)
    return PartReport(
        name=name, about=PARTS[name], seconds=round(time.perf_counter() - began), rows=rows
    )


def _measured(name: str, measure: Measurement, scale: Any) -> list[Row]:
    print(f"measuring {name} ...", file=sys.stderr, flush=True)
    began = time.perf_counter()
    try:
        return measured_afresh(measure, scale)
    except Exception as error:  # noqa: BLE001 - the other measurements go on
        return [_failed(name, error)]
    finally:
        print(f"  {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)


def _failed(name: str, error: Exception) -> Row:
    return Row(what=name, measured=type(error).__name__, goal="no failure", is_met=False)
