"""Type hints of public names can be resolved, as frameworks do that inject by type."""

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final, get_type_hints

import attrs
import pytest

PACKAGES: Final = (
    "income_client", "income_client.audit", "income_client.downloads",
    "income_client.emulator", "income_client.events", "income_client.exporting",
    "income_client.receivers", "income_client.records", "income_client.sync",
    "income_client.testing", "income_client.walk",
)  # fmt: skip
MADE_HERE: Final = frozenset({"Batch"})
"""Classes that only the package makes, whose constructor nobody calls."""


def functions_of(cls: type) -> Iterator[Any]:
    """Yield a class and what it has that has hints."""
    yield cls
    for name, member in vars(cls).items():
        function = getattr(member, "__func__", getattr(member, "fget", member))
        is_public = not name.startswith("_")
        is_public |= name == "__init__" and cls.__name__ not in MADE_HERE
        if is_public and inspect.isfunction(function):
            yield function


def with_hints(package: str) -> list[Any]:
    """Return the classes and functions of a package that have hints."""
    module = import_module(package)
    values = [getattr(module, name) for name in module.__all__]
    functions = [value for value in values if inspect.isfunction(value)]
    classes = [value for value in values if inspect.isclass(value)]
    return functions + [one for cls in classes for one in functions_of(cls)]


@pytest.mark.parametrize("package", PACKAGES)
def test_type_hints_can_be_resolved(package: str) -> None:
    """A name that is imported for type checkers only has a stand-in at run time."""
    for value in with_hints(package):
        get_type_hints(value)
        if attrs.has(value):
            attrs.resolve_types(value)
