"""What imports cost: fresh processes in turns, of which some import aiohttp only."""

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

_PACKAGE: Final = "import income_client"
_CLIENT: Final = "from income_client import IncomeClient"
_AIOHTTP: Final = "import aiohttp"
_STATEMENTS: Final = (_PACKAGE, _CLIENT, _AIOHTTP)
_GOAL: Final = 1.10


async def imports(scale: CallScale) -> list[Row]:
    """Time fresh processes that import the package, its client, or aiohttp.

    The package brings a name's modules with its first use, so both are told.
    """
    wall: dict[str, list[float]] = {statement: [] for statement in _STATEMENTS}
    cpu: dict[str, list[float]] = {statement: [] for statement in _STATEMENTS}
    with TemporaryDirectory() as compiled:
        # As installed packages are: compiled once, whatever this environment says.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for statement in _STATEMENTS:
            _run(statement, environment)
        for turn in range(scale.imports):
            for statement in _STATEMENTS if turn % 2 == 0 else reversed(_STATEMENTS):
                began, used = time.perf_counter(), _children_seconds()
                _run(statement, environment)
                wall[statement].append(time.perf_counter() - began)
                cpu[statement].append(_children_seconds() - used)
    kinds = {"wall time": wall, "CPU": cpu}
    return [
        _row(statement, kind, seconds)
        for statement in (_PACKAGE, _CLIENT)
        for kind, seconds in kinds.items()
    ]


def _row(statement: str, kind: str, seconds: Mapping[str, list[float]]) -> Row:
    ours, theirs = seconds[statement], seconds[_AIOHTTP]
    ratio = median(a / b for a, b in zip(ours, theirs, strict=True))
    shown = f"{ratio:.2f} ({median(ours) * 1e3:.0f} ms, {median(theirs) * 1e3:.0f} ms)"
    what = f"{statement} / {_AIOHTTP}, fresh processes: {kind}"
    if statement == _CLIENT:
        return Row(what=what, measured=shown, value=ratio, rounds=len(ours))
    return at_most(what, ratio, _GOAL, shown=shown, rounds=len(ours))


def _run(statement: str, environment: Mapping[str, str]) -> None:
    subprocess.run([sys.executable, "-c", statement], env=environment, check=True, timeout=30)


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
