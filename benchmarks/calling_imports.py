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
_CLIENT: Final = (
    "from income_client import BasicAuth, IncomeClient; "
    "IncomeClient('https://income.example', auth=BasicAuth('user', 'invented'))"
)
_AIOHTTP: Final = "import aiohttp"
_STATEMENTS: Final = (_PACKAGE, _CLIENT, _AIOHTTP)
_NAMES: Final = {_PACKAGE: _PACKAGE, _CLIENT: "import and construction of a client"}
_GOALS: Final = {_PACKAGE: 1.10, _CLIENT: 1.15}


async def imports(scale: CallScale) -> list[Row]:
    """Time fresh processes that import the package, make a client, or import aiohttp.

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
    what = f"{_NAMES[statement]} / {_AIOHTTP}, fresh processes: {kind}"
    return at_most(what, ratio, _GOALS[statement], shown=shown, rounds=len(ours))


def _run(statement: str, environment: Mapping[str, str]) -> None:
    subprocess.run([sys.executable, "-c", statement], env=environment, check=True, timeout=30)


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
