"""The README as tests read it: its fenced blocks, and the commands in them."""

import re
from typing import Final

from tests.cli.entry import ROOT

README: Final = (ROOT / "README.md").read_text("utf-8")
_FENCE: Final = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(kind: str) -> list[str]:
    """Return the contents of the fenced blocks of a kind."""
    return [match["text"] for match in _FENCE.finditer(README) if match["kind"] == kind]


def commands(program: str) -> list[str]:
    """Return the command lines that begin with a program, or with some words."""
    lines = (line.removeprefix("$ ") for block in blocks("console") for line in block.splitlines())
    return [line for line in lines if f"{line} ".startswith(f"{program} ")]
