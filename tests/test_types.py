"""The types that a lender's programmer meets: complete, and the same for mypy and for pyright.

The files in ``tests/consumer`` are a lender's code that uses every public name. Two
type checkers read them at their strictest, and ask the installed package what they are.
"""

import ast
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.readme import examples, file_name, kind_of

CONSUMER: Final = Path(__file__).parent / "consumer"
FILES: Final = sorted(CONSUMER.glob("*.py"))
PACKAGES: Final = (
    "income_client",
    "income_client.emulator",
    "income_client.receivers",
    "income_client.testing",
)
ENVIRONMENT: Final = {
    **os.environ,
    # Where pyright looks for the interpreter whose packages it reads.
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    # It comes with the wheel: nothing is fetched, and newer versions are nobody's business here.
    "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1",
}
PATIENCE: Final = 300
"""Seconds for a type checker that knows nothing yet, on a machine that has other things to do."""


def _checked(folder: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    """Run a type checker as a lender would, far from the package's sources."""
    return subprocess.run(
        [sys.executable, "-m", *command],
        capture_output=True,
        text=True,
        cwd=folder,
        env=ENVIRONMENT,
        check=False,
    )


def _used(path: Path) -> set[tuple[str, str]]:
    """Return what a file imports, and what it takes from modules, each with its module."""
    found: set[tuple[str, str]] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found |= {(node.module or "", alias.name) for alias in node.names}
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.add((node.value.id, node.attr))
    return found


def _has_mark(path: Path) -> bool:
    return path.read_text("utf-8").startswith("# pyright: strict\n")


def test_every_public_name_is_used() -> None:
    """What a package offers stands in the lender's code."""
    used = set().union(*map(_used, FILES))
    for package in PACKAGES:
        offered = {(package, name) for name in import_module(package).__all__}
        assert offered <= used, sorted(offered - used)


@pytest.mark.timeout(PATIENCE)
def test_mypy_accepts_the_lender_s_code(tmp_path: Path) -> None:
    """At its strictest, with the types of the installed package."""
    strict = ("--strict", "--cache-dir", str(tmp_path / "cache"))
    ended = _checked(tmp_path, "mypy", *strict, *map(str, FILES))
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.timeout(PATIENCE)
def test_pyright_accepts_the_lender_s_code(tmp_path: Path) -> None:
    """At its strictest, which each file asks for, without a single warning."""
    assert all(map(_has_mark, FILES))
    ended = _checked(tmp_path, "pyright", "--warnings", *map(str, FILES))
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.timeout(PATIENCE)
def test_the_examples_of_the_readme_have_types(tmp_path: Path) -> None:
    """Who copies one into a typed program has nothing to mend: mypy is at its strictest."""
    folder = tmp_path / "examples"
    folder.mkdir()
    for example in examples():
        if kind_of(example) == "python":
            (folder / file_name(example)).write_text(example.parsed, "utf-8")
    strict = ("--strict", "--cache-dir", str(tmp_path / "cache"))
    ended = _checked(folder, "mypy", *strict, ".")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    ended = _checked(folder, "pyright", "--warnings")
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.timeout(PATIENCE)
def test_every_type_of_the_package_is_known(tmp_path: Path) -> None:
    """Nothing that another module can reach is left to a type checker's guess."""
    ended = _checked(
        tmp_path, "pyright", "--verifytypes", "income_client", "--ignoreexternal", "--outputjson"
    )
    report: dict[str, Any] = json.loads(ended.stdout)["typeCompleteness"]
    guessed = [
        f"{symbol['name']}: {fault['message']}"
        for symbol in report["symbols"]
        if symbol["isExported"] and not symbol["isTypeKnown"]
        for fault in symbol["diagnostics"]
        if "partially unknown" not in fault["message"]  # others are the reason
    ]
    assert not guessed, "\n".join(guessed)
    assert report["completenessScore"] == 1
    assert report["exportedSymbolCounts"]["withKnownType"] > 3000
    assert report["missingFunctionDocStringCount"] == 0
