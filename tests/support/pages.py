"""The README and the guide as sybil reads them: their fenced blocks, and the commands in these.

``python -m tests.support.pages`` copies the examples into their blocks, after they were edited.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from sybil import Document, Example, Region, Sybil
from sybil.parsers.markdown.lexers import RawFencedCodeBlockLexer
from sybil.typing import Evaluator

import income_client
from tests.support.processes import ROOT

README: Final = ROOT / "README.md"
PACKAGE: Final = Path(income_client.__file__).parent
GUIDE: Final = PACKAGE / "guide"
PAGES: Final = (README, *sorted(GUIDE.glob("*.md")))
SKILL: Final = PACKAGE / ".agents" / "skills" / "income-client" / "SKILL.md"
EXAMPLES: Final = ROOT / "tests" / "examples"
DEMO: Final = (
    "python3 -m venv .venv && .venv/bin/pip install -e '.[cli]' && .venv/bin/income-client demo"
)
TESTS: Final = "python3 -m venv .venv && .venv/bin/pip install -e '.[dev]' && .venv/bin/pytest"
_FENCES: Final = RawFencedCodeBlockLexer(re.compile(r"(?P<kind>[^\n]*)\n"))
"""Blocks of any kind and of none, so that none is left unread."""


def blocks_of(*pages: Path, evaluator: Evaluator | None = None) -> list[Example]:
    """Return every fenced block of some pages, to be evaluated by a function of it."""

    def parse(document: Document) -> Iterable[Region]:
        for region in _FENCES(document):
            region.parsed = region.lexemes["source"]
            region.evaluator = evaluator
            yield region

    sybil = Sybil([parse])
    return [example for page in pages for example in sybil.parse(page)]


def kind_of(block: Example) -> str:
    """Return the word behind the fence."""
    return str(block.region.lexemes["kind"])


def label(block: Example) -> str:
    """Return how a test run names a block: by its page, its kind and its line."""
    return f"{Path(block.path).stem}, {kind_of(block)}, line {block.line}"


def contents(kind: str) -> list[str]:
    """Return the contents of the blocks of a kind, over all pages."""
    return [str(block.parsed) for block in blocks_of(*PAGES) if kind_of(block) == kind]


def commands(program: str) -> list[str]:
    """Return the command lines of all pages that begin with a program, or with some words."""
    lines = (line.removeprefix("$ ") for text in contents("console") for line in text.splitlines())
    return [line for line in lines if f"{line} ".startswith(f"{program} ")]


def example_files() -> list[str]:
    """Return the path below `EXAMPLES` of every file of an example; a folder is one program."""
    return sorted(path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.py"))


def with_examples(text: str) -> str:
    """Return a page whose Python blocks have the content of the files that they name."""
    return re.sub(
        r"^```python\n# ([\w/]+\.py)\n.*?^```$",
        lambda block: f"```python\n{(EXAMPLES / block[1]).read_text('utf-8')}```",
        text,
        flags=re.MULTILINE | re.DOTALL,
    )


if __name__ == "__main__":
    for page in (*PAGES, SKILL):
        page.write_text(with_examples(page.read_text("utf-8")), "utf-8")
