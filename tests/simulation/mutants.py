"""Put faults into a copy of the package, one at a time, and say what finds each of them.

``python -m tests.simulation.mutants`` plays all of them; a number plays that one. A fault is found
by the seeds of its scenario or, where it names one, by an ordinary test. The control is the package
as it is, with the same seeds and tests. The exit status is 0 if every fault is found and the
control is clean, 1 if not, and 2 for wrong arguments.

To see what a seed shows of a fault, make the change of `mutants.toml` (``old`` becomes ``new``) in
the package, and play the seed that is printed; undo the change afterwards.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from attrs import frozen

from .scenarios import SCENARIOS

_ROOT: Final = Path(__file__).parents[2]
_COPIED: Final = ("income_client", "tests")


@frozen(kw_only=True)
class Mutant:
    """A fault of the package."""

    promise: str
    name: str
    file: str
    old: str
    new: str
    scenario: str = "pollers"
    test: str | None = None
    """The ordinary test that finds it, where seeds do so rarely or never."""


def read_mutants() -> list[Mutant]:
    """Return the mutants; raise `ValueError` for one that the package does not hold once."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    mutants = [Mutant(**one) for one in table["mutant"]]
    for mutant in mutants:
        text = (_ROOT / "income_client" / mutant.file).read_text("utf-8")
        if text.count(mutant.old) != 1:
            raise ValueError(f"{mutant.file} does not hold the line of {mutant.name!r} once")
        if mutant.test is not None:
            path, function = mutant.test.split("::")
            if f"def {function}(" not in (_ROOT / path).read_text("utf-8"):
                raise ValueError(f"{path} has no {function}")
    return mutants


@frozen
class Result:
    """The result of a mutant or of the control."""

    tried: str
    """Number of seeds or tests that were run."""
    seconds: float
    broken: str | None
    """Message of the broken promise or the failed test; None without one."""

    def __str__(self) -> str:
        return f"{self.tried}, {self.seconds:.0f} s: {self.broken or 'nothing is broken'}"


def play_seeds(mutant: Mutant | None, scenario: str, seeds: int) -> Result:
    """Play seeds until a promise is broken."""
    began, options = time.monotonic(), ("--scenario", scenario, "--count", str(seeds), "--stop")
    with _copy(mutant) as folder:
        ran = _run(folder, "-m", "tests.simulation", *options)
    lines = ran.stdout.splitlines()
    if not lines:
        raise RuntimeError(ran.stderr)
    broken = next((line for line in lines if line.startswith(f"{scenario} ")), None)
    return Result(f"{lines[-1].split()[0]} seeds", time.monotonic() - began, broken)


def run_tests(mutant: Mutant | None, *tests: str) -> Result:
    """Run ordinary tests until one fails."""
    began, options = time.monotonic(), ("-qx", "-n0", "-pno:cacheprovider", "--tb=no", "--full")
    with _copy(mutant) as folder:
        ran = _run(folder, "-m", "pytest", *options, *tests)
    if ran.returncode not in (0, 1):
        raise RuntimeError(ran.stdout + ran.stderr)
    broken = next((line for line in ran.stdout.splitlines() if line.startswith("FAILED ")), None)
    return Result(f"{len(tests)} tests", time.monotonic() - began, broken)


@contextmanager
def _copy(mutant: Mutant | None) -> Iterator[Path]:
    """Copy the package and its tests, and put the fault into the copy."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in _COPIED:
            shutil.copytree(_ROOT / part, folder / part)
        shutil.copy(_ROOT / "pyproject.toml", folder)
        if mutant is not None:
            file = folder / "income_client" / mutant.file
            file.write_text(file.read_text("utf-8").replace(mutant.old, mutant.new), "utf-8")
        yield folder


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )


def main() -> int:
    """Play the mutants; return 1 if nothing finds one of them, or the control fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants")
    parser.add_argument(
        "numbers", nargs="*", type=int, help="which, counted from 1; all and the control by default"
    )
    parser.add_argument("--seeds", type=int, default=100, help="for each, at most")
    given = parser.parse_args()
    mutants, failed = read_mutants(), 0
    if unknown := [number for number in given.numbers if not 1 <= number <= len(mutants)]:
        parser.error(f"there are mutants 1 to {len(mutants)}, and no {unknown[0]}")
    for number, mutant in enumerate(mutants, start=1):
        if given.numbers and number not in given.numbers:
            continue
        print(f"{number:2}  {mutant.promise}: {mutant.name}", flush=True)
        if mutant.test is None:
            result = play_seeds(mutant, mutant.scenario, given.seeds)
        else:
            result = run_tests(mutant, mutant.test)
        print(f"      {result}", flush=True)
        failed += result.broken is None
    if not given.numbers:
        tests = {mutant.test for mutant in mutants if mutant.test is not None}
        controls = [play_seeds(None, scenario, given.seeds) for scenario in SCENARIOS]
        for result in (*controls, run_tests(None, *sorted(tests))):
            print(f"control: {result}", flush=True)
            failed += result.broken is not None
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
