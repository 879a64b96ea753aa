"""The types that a lender's programmer meets: complete, and what ``consumer.py`` says they are.

Pyright reads that file and the pages' examples at its strictest, with the types of the installed
package. mypy reads both with the rest of the tests, and a stranger's project as well.
"""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.pages import EXAMPLES

CONSUMER: Final = Path(__file__).with_name("consumer.py")
NEEDED: Final = (
    *("pyright", "rich", "cyclopts", "uvicorn", "joserfc", "pyarrow", "obstore"),
    *("opentelemetry", "pandas", "polars", "fastapi", "prometheus_client", "celery", "dlt"),
    "django",
)
"""Libraries that the checked code imports, since mypy cannot check types of missing libraries."""
MISSING: Final = [name for name in NEEDED if find_spec(name) is None]
UNTYPED: Final = ("exactly_once.py", "without_personal_data.py")
"""Examples that use libraries without types, so that they cannot be checked strictly."""
UNREAD: Final = shutil.ignore_patterns("__pycache__", "lending")
"""Examples of Django, whose types pyright guesses wrongly from its sources."""
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


def pyright(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run it as a lender would."""
    return subprocess.run(
        [sys.executable, "-m", "pyright", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env=ENVIRONMENT,
        check=False,
    )


def test_the_types_are_what_a_lender_expects(tmp_path: Path) -> None:
    """Without a single warning, far from the package's sources."""
    shutil.copy(CONSUMER, tmp_path)
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=UNREAD)
    strict = [f"examples/{path.name}" for path in EXAMPLES.glob("*.py") if path.name not in UNTYPED]
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"strict": strict}))
    ended = pyright(tmp_path, "--warnings")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_every_type_of_the_package_is_known(tmp_path: Path) -> None:
    """A type checker must not have to guess the type of any importable name."""
    ended = pyright(tmp_path, "--verifytypes", "income_client", "--ignoreexternal", "--outputjson")
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
