"""The project's own files agree: one version, one changelog, and no extra that the client needs."""

import re
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
