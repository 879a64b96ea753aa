"""The version before this one: what is kept of it, and what the changelog says of it.

``released`` holds its programs and what it has left behind. These are kept in the tests since a
clone, or a copy of the sources, may have no history.
"""

import re
from pathlib import Path
from typing import Final

from tests.support.processes import ROOT

_CHANGES: Final = (ROOT / "CHANGELOG.md").read_text("utf-8")
_HEADINGS: Final = re.findall(r"^### Upgrading from ([\d.]+)$", _CHANGES, re.MULTILINE)
LAST_VERSION: Final[str] = _HEADINGS[0]
"""The version that the newest part of the changelog upgrades from."""
IS_RELEASED: Final = "\n## [Unreleased]\n" not in _CHANGES
"""Whether nothing has changed since the newest version."""
RELEASED: Final = Path(__file__).with_name("released")
KEPT: Final = RELEASED / LAST_VERSION


def names_under_upgrading() -> set[str]:
    """Return the names in the code of what a user must do to get from the last version to this."""
    upgrading = _CHANGES.partition(f"\n### Upgrading from {LAST_VERSION}\n")[2]
    code = re.findall(r"`([^`]+)`", upgrading.partition("\n### ")[0])
    return {name for piece in code for name in re.findall(r"\w+", piece)}
