"""The types that a lender's programmer meets: complete, and the same for mypy and for pyright.

The files in ``tests/consumer`` are a lender's code that uses every public name. Two type
checkers read them and the pages' examples at their strictest, with the types of the
installed package.
"""

import ast
import json
import os
import shutil
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.pages import EXAMPLES

CONSUMER: Final = Path(__file__).parents[1] / "consumer"
FILES: Final = sorted(CONSUMER.glob("*.py"))
PACKAGES: Final = (
    "income_client",
    "income_client.emulator",
    "income_client.receivers",
    "income_client.testing",
)
NEEDED: Final = (
    *("mypy", "pyright", "rich", "cyclopts", "jinja2", "uvicorn", "joserfc", "pyarrow", "obstore"),
    *("opentelemetry", "pandas", "polars", "fastapi", "prometheus_client"),
)
"""What the checked code imports; the types of what is missing cannot be known."""
MISSING: Final = [name for name in NEEDED if find_spec(name) is None]
UNTYPED: Final = ("exactly_once.py",)
"""Examples that use a library without types (asyncpg), so that they cannot be checked strictly."""
ENVIRONMENT: Final = {
    **os.environ,
    # Where pyright looks for the interpreter whose packages it reads.
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    # Newer versions of pyright than the installed one are not asked for.
    "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1",
}

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(MISSING), reason=f"types need the extra 'full': {MISSING}"),
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lender's code and the pages' examples, far from the package's sources."""
    folder = tmp_path_factory.mktemp("programs")
    shutil.copytree(CONSUMER, folder / "consumer", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "mypy.ini").write_text("[mypy]\n[mypy-asyncpg.*]\nignore_missing_imports = true\n")
    shutil.copytree(EXAMPLES, folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    strict = [f"examples/{path.name}" for path in EXAMPLES.glob("*.py") if path.name not in UNTYPED]
    (folder / "pyrightconfig.json").write_text(json.dumps({"strict": strict}))
    return folder


def _checked(folder: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    """Run a type checker as a lender would."""
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


def test_every_public_name_is_used() -> None:
    """The lender's code uses all that a package offers, and asks pyright for its strictest."""
    used = set().union(*map(_used, FILES))
    for package in PACKAGES:
        offered = {(package, name) for name in import_module(package).__all__}
        assert offered <= used, sorted(offered - used)
    assert all(path.read_text("utf-8").startswith("# pyright: strict\n") for path in FILES)


def test_mypy_accepts_the_programs(programs: Path, tmp_path: Path) -> None:
    """At its strictest."""
    ended = _checked(programs, "mypy", "--strict", "--cache-dir", str(tmp_path), ".")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_pyright_accepts_the_programs(programs: Path) -> None:
    """Without a single warning."""
    ended = _checked(programs, "pyright", "--warnings")
    assert ended.returncode == 0, ended.stdout + ended.stderr


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
