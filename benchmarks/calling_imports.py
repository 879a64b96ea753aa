"""What the import costs: fresh processes in turns, of which some import aiohttp only."""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from .calling_scale import CallScale
from .table import Row, at_most

_IMPORTED: Final = ("income_client", "aiohttp")
_GOAL: Final = 1.10


async def imports(scale: CallScale) -> list[Row]:
    """Time fresh processes that import the package, and others that import aiohttp."""
    wall: dict[str, list[float]] = {name: [] for name in _IMPORTED}
    cpu: dict[str, list[float]] = {name: [] for name in _IMPORTED}
    with TemporaryDirectory() as compiled:
        # As installed packages are: compiled once, whatever this environment says.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for name in _IMPORTED:
            _import(name, environment)
        for turn in range(scale.imports):
            for name in _IMPORTED if turn % 2 == 0 else reversed(_IMPORTED):
                began, used = time.perf_counter(), _children_seconds()
                _import(name, environment)
                wall[name].append(time.perf_counter() - began)
                cpu[name].append(_children_seconds() - used)
    return [_row("wall time", wall), _row("CPU", cpu)]


def _row(kind: str, seconds: Mapping[str, list[float]]) -> Row:
    ours, theirs = (seconds[name] for name in _IMPORTED)
    ratio = median(a / b for a, b in zip(ours, theirs, strict=True))
    shown = f"{ratio:.2f} ({median(ours) * 1e3:.0f} ms, {median(theirs) * 1e3:.0f} ms)"
    what = f"import income_client / import aiohttp, fresh processes: {kind}"
    return at_most(what, ratio, _GOAL, shown=shown, rounds=len(ours))


def _import(name: str, environment: Mapping[str, str]) -> None:
    subprocess.run(
        [sys.executable, "-c", f"import {name}"], env=environment, check=True, timeout=30
    )


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
