"""What the texts in the README must be: output, trees and drawings, each from its source."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import income_client
from income_client import errors
from tests.architecture import LAYERS, MAY_IMPORT
from tests.cli.entry import run

_NAMES_END_AT: Final = 34
"""Where, in a line of the drawing, the names end and the words begin."""


def is_what_the_demo_prints(text: str) -> None:
    """The demo prints these lines; only figures differ from machine to machine."""

    def shape(lines: str) -> list[str]:
        return [
            re.sub(r"[\d,.]+|[▏▎▍▌▋▊▉█]+", "#", " ".join(line.split()))
            for line in lines.splitlines()
        ]

    assert shape(run("demo").stdout) == shape(text)
    assert "Applications found  5,000  of 5,000 existing" in text


def is_the_tree_of_errors(text: str) -> None:
    """The tree is the one in the docstring of ``errors``."""
    drawn = [
        line for line in (errors.__doc__ or "").splitlines() if re.match("IncomeC| *[├│└]", line)
    ]
    assert text.splitlines() == drawn


def draws_the_layers(text: str) -> None:
    """Every folder stands in the drawing, every name in it exists, and imports go down in it."""
    columns = [line[:_NAMES_END_AT].split() for line in text.splitlines()]
    drawn = [name.rstrip("/") for names in columns for name in names]
    package = Path(income_client.__file__).parent
    for name in drawn:
        assert (package / name).is_dir() or (package / f"{name}.py").exists(), name
    folders = {child.name for child in package.iterdir() if (child / "__init__.py").exists()}
    assert folders <= set(drawn), folders - set(drawn)
    ranks = {name: _rank(name) for name in drawn if name not in MAY_IMPORT}
    assert list(ranks.values()) == sorted(ranks.values(), reverse=True), ranks


def _rank(name: str) -> int:
    return next(rank for rank, layer in enumerate(LAYERS) if name in layer)


TEXTS: Final[Mapping[str, Callable[[str], None]]] = {
    "Income demo:": is_what_the_demo_prints,
    "IncomeClientError\n": is_the_tree_of_errors,
    "cli/": draws_the_layers,
}
"""How each begins, and what it must be."""
