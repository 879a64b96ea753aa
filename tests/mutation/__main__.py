"""Say how many small faults in the package its tests would notice: ``python -m tests.mutation``.

Each mutant is a module with one small change. The module's tests, which modules.toml names, run
on it in a copy of the tree, until one fails. Those that live are judged by a person, in
verdicts.toml:

- equivalent: no program could tell the difference;
- harmless: one could, but nobody would mind (speed, tuning, wording);
- hole: somebody would mind, and a test is missing.

The score is the share that a test killed, or that hangs, of those that are not equivalent. A test
is deleted only if the score of its modules stays the same with the same seed.

CI runs it with ``--minutes`` and the seed of the day, on modules that the seed chooses, and prints
which mutants live.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.util import cache_from_source
from math import inf
from pathlib import Path
from random import Random
from typing import Final

from .mutants import Mutant, one_line, sample

ROOT: Final = Path(__file__).parents[2]
_TABLES: Final = Path("tests", "mutation")

Verdicts = Mapping[tuple[str, str, str, str], Mapping[str, str]]


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the mutants that the arguments ask for; return the exit status."""
    table = tomllib.loads((root / _TABLES / "modules.toml").read_text("utf-8"))
    options = _parser().parse_args(arguments)
    asked = {
        name: (*table["pytest"], *tests)
        for name, tests in table["modules"].items()
        if not options.module or name.endswith(tuple(options.module))
    }
    if not asked:
        print("modules.toml has no such module", file=sys.stderr)
        return 2
    verdicts = _verdicts(root)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # leaves no copy behind either
    score: dict[str, Counter[str]] = {}
    wrong = 0
    ends_at = time.monotonic() + 60 * options.minutes
    if options.minutes < inf:
        asked = dict(Random(options.seed).sample([*asked.items()], len(asked)))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        copy = Path(folder, "copy")  # so that the working tree is never touched
        shutil.copytree(root, copy, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        for module, tests in asked.items():
            began = time.monotonic()
            if began >= ends_at:
                break
            if _run(copy, tests, None) != "unjudged":
                print(f"{module}: its tests fail without any change", file=sys.stderr)
                wrong += 1
                continue
            limit = 10 + 4 * (time.monotonic() - began)
            source = (root / module).read_text("utf-8")
            score[module] = Counter()
            for mutant in sample(module, source, seed=options.seed, each=options.each):
                if time.monotonic() >= ends_at:
                    break
                result, why = _try(copy, mutant, tests, limit), ""
                if result == "unjudged" and (verdict := _verdict(verdicts, mutant)):
                    result, why = verdict["verdict"], f"\n{'':11}{verdict['why']}"
                score[module][result] += 1
                print(
                    f"{result:10} {module}:{mutant.line} {mutant.function}: {mutant.change}{why}",
                    flush=True,
                )
    _report_stale(root, verdicts)
    share = _report(score)
    if wrong:
        return 2
    return 0 if share >= options.goal else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=7, help="chooses the sample (default: 7)")
    parser.add_argument("--each", type=int, default=8, help="mutants a module (default: 8)")
    parser.add_argument("--minutes", type=float, default=inf, help="begin nothing after these")
    parser.add_argument("--goal", type=float, default=95, help="least score (default: 95)")
    parser.add_argument("module", nargs="*", help="end of a path, such as walk/planner.py")
    return parser


def _try(copy: Path, mutant: Mutant, tests: Sequence[str], limit: float) -> str:
    """Run the tests with a mutant in place of its module."""
    path = copy / mutant.module
    compiled = Path(cache_from_source(str(path)))
    source = path.read_bytes()
    compiled.unlink(missing_ok=True)  # it may be as old and as long as the mutant
    try:
        path.write_text(mutant.source, "utf-8")
        return _run(copy, tests, limit)
    finally:
        path.write_bytes(source)
        compiled.unlink(missing_ok=True)


def _run(copy: Path, tests: Sequence[str], limit: float | None) -> str:
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", *tests],
        cwd=copy,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as run:
        try:
            return "killed" if run.wait(limit) else "unjudged"
        except subprocess.TimeoutExpired:
            return "hangs"
        finally:
            if run.poll() is None:
                os.killpg(run.pid, signal.SIGKILL)


def _verdicts(root: Path) -> Verdicts:
    judged = tomllib.loads((root / _TABLES / "verdicts.toml").read_text("utf-8"))["mutant"]
    return {(one["module"], one["function"], one["before"], one["after"]): one for one in judged}


def _verdict(verdicts: Verdicts, mutant: Mutant) -> Mapping[str, str]:
    return verdicts.get((mutant.module, mutant.function, mutant.before, mutant.after), {})


def _report_stale(root: Path, verdicts: Verdicts) -> None:
    for module, function, before, _ in verdicts:
        path = root / module
        if not path.exists() or before not in one_line(path.read_text("utf-8")):
            print(f"verdict without its code: {module} {function}: {before}")


def _report(score: Mapping[str, Counter[str]]) -> float:
    kinds = ("killed", "hangs", "equivalent", "harmless", "hole", "unjudged")
    print(f"\n{'':36}" + "".join(f"{kind:>11}" for kind in (*kinds, "score")))
    total = sum(score.values(), Counter[str]())
    for name, counts in (*score.items(), ("all", total)):
        cells = "".join(f"{counts[kind]:11}" for kind in kinds)
        print(f"{name:36}{cells}{_share(counts):9.0f} %")
    return _share(total)


def _share(counts: Counter[str]) -> float:
    noticed = counts["killed"] + counts["hangs"]
    return 100 * noticed / max(counts.total() - counts["equivalent"], 1)


if __name__ == "__main__":
    sys.exit(main())
