"""The project's own files agree: one version, one changelog, and no extra that the client needs."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import income_client

ROOT: Final = Path(__file__).parents[1]
PROJECT: Final[Mapping[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_the_newest_entry_of_the_changelog_is_this_version() -> None:
    """Entries are dated, the newest first."""
    entries = re.findall(
        r"^## \[([^]]+)\] - (\d{4}-\d\d-\d\d)$",
        (ROOT / "CHANGELOG.md").read_text("utf-8"),
        re.MULTILINE,
    )
    assert entries[0][0] == income_client.__version__
    assert [day for _, day in entries] == sorted((day for _, day in entries), reverse=True)


def test_the_version_is_written_in_one_place() -> None:
    """The project takes its version from the package, and no other module writes it down."""
    assert "version" not in PROJECT["project"]
    assert PROJECT["project"]["dynamic"] == ["version"]
    holders = [
        path.name
        for path in Path(income_client.__file__).parent.rglob("*.py")
        if re.search(rf"[\"']{re.escape(income_client.__version__)}[\"']", path.read_text("utf-8"))
    ]
    assert holders == ["_version.py"]


def test_the_package_does_without_its_extras() -> None:
    """Importing the client loads nothing of the command line, of callbacks or of the tests."""
    script = (
        "import sys, income_client; income_client.IncomeClient; "
        "extra = {'aiohttp.web', 'asyncpg', 'cryptography', 'cyclopts', 'jinja2', 'joserfc', "
        "'obstore', 'opentelemetry', 'orjson', 'pyarrow', 'pydantic', 'pytest', 'rich', "
        "'tomlkit', 'uvicorn', 'income_client.emulator'}; "
        "print(*sorted(extra & set(sys.modules)))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert ended.stdout == "\n"
