"""The README as sybil reads it: its fenced blocks of every kind, and the commands in them."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from sybil import Document, Example, Region, Sybil
from sybil.parsers.markdown.lexers import RawFencedCodeBlockLexer
from sybil.typing import Evaluator

from tests.support.processes import ROOT

PATH: Final = ROOT / "README.md"
README: Final = PATH.read_text("utf-8")
DEMO: Final = (
    "python3 -m venv .venv && .venv/bin/pip install -e '.[cli]' && .venv/bin/income-client demo"
)
TESTS: Final = "python3 -m venv .venv && .venv/bin/pip install -e '.[dev]' && .venv/bin/pytest"
_FENCES: Final = RawFencedCodeBlockLexer(re.compile(r"(?P<kind>[^\n]*)\n"))
"""Blocks of any kind and of none, so that none is left unread."""


def examples(evaluator: Evaluator | None = None, path: Path = PATH) -> list[Example]:
    """Return every fenced block, to be evaluated by a function of it."""

    def parse(document: Document) -> Iterable[Region]:
        for region in _FENCES(document):
            region.parsed = region.lexemes["source"]
            region.evaluator = evaluator
            yield region

    return list(Sybil([parse]).parse(path))


def kind_of(example: Example) -> str:
    """Return the word behind the fence."""
    return str(example.region.lexemes["kind"])


def file_name(example: Example) -> str:
    """Return the file that the first line of a block names, if it is Python."""
    return str(example.parsed).partition("\n")[0].removeprefix("# ")


def label(example: Example) -> str:
    """Return how a test run calls a block: by its file, or by its kind and its place."""
    kind = kind_of(example)
    return file_name(example) if kind == "python" else f"{kind}, line {example.line}"


def blocks(kind: str) -> list[str]:
    """Return the contents of the fenced blocks of a kind."""
    return [str(example.parsed) for example in examples() if kind_of(example) == kind]


def commands(program: str) -> list[str]:
    """Return the command lines that begin with a program, or with some words."""
    lines = (line.removeprefix("$ ") for block in blocks("console") for line in block.splitlines())
    return [line for line in lines if f"{line} ".startswith(f"{program} ")]
