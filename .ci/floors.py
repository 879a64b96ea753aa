"""Print the oldest library versions that pyproject.toml allows, as constraints for pip."""

import re
import sys
import tomllib
from pathlib import Path

TOOLS = {"bench", "dev", "full"}
"""Extras for those who work on the package, whose versions no user's program meets."""

project = tomllib.loads(Path(sys.argv[1]).read_text("utf-8"))["project"]
needed = list(project["dependencies"])
for extra, requirements in project["optional-dependencies"].items():
    needed += [] if extra in TOOLS else requirements
for requirement in needed:
    print(re.sub(r">=", "==", requirement))
