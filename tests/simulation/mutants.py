"""Put faults into a copy of the package, one at a time, and say after how many seeds each is found.

``python -m tests.simulation.mutants`` plays all of them; a number plays that one. The control is
the package as it is, on the same seeds.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Final

from attrs import frozen

from .scenarios import SCENARIOS

_ROOT: Final = Path(__file__).parents[2]
_COPIED: Final = ("income_client", "tests/simulation")


@frozen(kw_only=True)
class Mutant:
    """A fault of the package."""

    promise: str
    name: str
    file: str
    old: str
    new: str
    scenario: str = "pollers"
    survives: str | None = None
    """Why the simulation does not find it, and which tests do."""


def read_mutants() -> list[Mutant]:
    """Return the mutants; raise `ValueError` for one that the package does not hold once."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    mutants = [Mutant(**one) for one in table["mutant"]]
    for mutant in mutants:
        text = (_ROOT / "income_client" / mutant.file).read_text("utf-8")
        if text.count(mutant.old) != 1:
            raise ValueError(f"{mutant.file} does not hold the line of {mutant.name!r} once")
    return mutants


def play(mutant: Mutant | None, scenario: str, seeds: int) -> tuple[str | None, int, float]:
    """Play seeds until a promise is broken; return what is printed of it, seeds, and seconds."""
    with tempfile.TemporaryDirectory() as folder:
        for part in _COPIED:
            shutil.copytree(_ROOT / part, Path(folder, part))
        if mutant is not None:
            file = Path(folder, "income_client", mutant.file)
            file.write_text(file.read_text("utf-8").replace(mutant.old, mutant.new), "utf-8")
        command = [sys.executable, "-W", "ignore", "-m", "tests.simulation", "--stop"]
        command += ["--scenario", scenario, "--count", str(seeds)]
        began = time.monotonic()
        ran = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": folder, "PYTHONHASHSEED": "0"},
            capture_output=True,
            text=True,
            check=False,
        )
    lines = ran.stdout.splitlines()
    if not lines:
        raise RuntimeError(ran.stderr)
    broken = next((line for line in lines if line.startswith(f"{scenario} ")), None)
    return broken, int(lines[-1].split()[0]), time.monotonic() - began


def main() -> int:
    """Play the mutants; return 1 if one lives that should not, or the control fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants")
    parser.add_argument(
        "numbers", nargs="*", type=int, help="which, counted from 1; all by default"
    )
    parser.add_argument("--seeds", type=int, default=100, help="for each, at most")
    given = parser.parse_args()
    failed = 0
    for number, mutant in enumerate(read_mutants(), start=1):
        if given.numbers and number not in given.numbers:
            continue
        broken, seeds, seconds = play(mutant, mutant.scenario, given.seeds)
        outcome = broken or f"LIVES ({mutant.survives or 'unexpected'})"
        failed += broken is None and mutant.survives is None
        print(f"{number:2}  {mutant.promise}: {mutant.name}", flush=True)
        print(f"      {seeds} seeds, {seconds:.0f} s: {outcome}", flush=True)
    for scenario in () if given.numbers else SCENARIOS:
        broken, seeds, seconds = play(None, scenario, given.seeds)
        outcome = broken or "nothing is broken"
        print(f"control of {scenario}: {seeds} seeds, {seconds:.0f} s: {outcome}", flush=True)
        failed += broken is not None
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
