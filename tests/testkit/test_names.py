"""The names of the test kit: its table is what type checkers see, and what it offers."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

from income_client import testing


def _homes() -> dict[str, str]:
    """Return the module of each name, as the table has it."""
    return {
        name: import_module(f".{home}", testing.__name__).__name__
        for home, names in testing.NAMES.items()
        for name in names.split()
    }


def test_the_table_is_what_is_offered() -> None:
    """In order, and at run time where type checkers find it."""
    block = next(
        node
        for node in ast.parse(Path(testing.__file__).read_text("utf-8")).body
        if isinstance(node, ast.If)
    )
    typed = {
        alias.name: f"{testing.__name__}.{node.module}" if node.level else node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert testing.__all__ == sorted(set(testing.__all__)) == sorted(_homes())
    assert _homes() == typed


@pytest.mark.parametrize("name", testing.__all__)
def test_a_name_is_found_at_its_home(name: str) -> None:
    """It is the very one that its module has."""
    assert getattr(testing, name) is getattr(import_module(_homes()[name]), name)
    assert name in dir(testing)


def test_a_name_that_there_is_not_is_an_attribute_error() -> None:
    """The message is that of any module."""
    with pytest.raises(AttributeError, match=r"'income_client.testing' has no attribute 'Nobody'"):
        _ = vars(testing)["__getattr__"]("Nobody")
