"""The names of the test kit: its table is what type checkers see, and what it offers."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

from income_client import testing


def _imports_of_the_face() -> dict[str, str]:
    """What the package imports for type checkers, and from where."""
    block = next(
        node
        for node in ast.parse(Path(testing.__file__).read_text("utf-8")).body
        if isinstance(node, ast.If)
    )
    return {
        alias.name: node.module or ""
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_the_table_is_what_is_offered() -> None:
    """In order, and at run time where type checkers find it."""
    assert testing.__all__ == sorted(set(testing.__all__))
    homes = [(name, home) for home, names in testing.NAMES.items() for name in names.split()]
    assert sorted(name for name, _ in homes) == testing.__all__
    assert dict(homes) == _imports_of_the_face()


@pytest.mark.parametrize("name", testing.__all__)
def test_a_name_is_found_at_its_home(name: str) -> None:
    """It is the very one that its module has, and stands among what the package knows."""
    home = import_module(f"income_client.testing.{_imports_of_the_face()[name]}")
    assert getattr(testing, name) is getattr(home, name)
    assert name in dir(testing)


def test_a_name_that_there_is_not_is_an_attribute_error() -> None:
    """It is told as for any module."""
    with pytest.raises(AttributeError, match=r"'income_client.testing' has no attribute 'Nobody'"):
        _ = vars(testing)["__getattr__"]("Nobody")
