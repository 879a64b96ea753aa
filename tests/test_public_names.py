"""The public face: complete, documented; ruff (RUF022) sorts it."""

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

import income_client
from income_client import _lazy, emulator, errors, testing

_TREE_LINE: Final = re.compile(r"^[│ ]*[├└]── (?P<name>\w+)", re.MULTILINE)
_CONTRACT_CALLS: Final = (
    "get_application_page",
    "get_application",
    "get_documents",
    "find_application",
    "list_applications",
    "fetch_records",
    "fetch_documents",
)


def _public_classes() -> Iterator[type]:
    for name in income_client.__all__:
        found = getattr(income_client, name)
        if isinstance(found, type):
            yield found


def _typed_imports(package: ModuleType) -> dict[str, str]:
    """What a package imports for type checkers, and from where."""
    source = Path(package.__file__ or "").read_text("utf-8")
    return {
        alias.asname or alias.name: resolve_name(
            "." * node.level + (node.module or ""), package.__name__
        )
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom)
        if (node.module or "").rpartition(".")[2] not in {"typing", "_lazy"}
        for alias in node.names
    }


@pytest.mark.parametrize(
    ("package", "table"),
    [(income_client, _lazy.NAMES), (emulator, emulator.NAMES), (testing, testing.NAMES)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_names_are_found_where_type_checkers_find_them(
    package: Any, table: Mapping[str, str]
) -> None:
    """They are offered, each once, and the table of homes says what the imports say."""
    homes = {
        name: resolve_name(f".{home}", package.__name__)
        for home, names in table.items()
        for name in names.split()
    }
    assert sorted(package.__all__) == sorted(homes)
    assert homes == _typed_imports(package)
    for name, home in homes.items():
        assert getattr(package, name) is getattr(import_module(home), name)
        assert name in dir(package)


def test_the_package_loads_what_is_asked_for() -> None:
    """Importing it costs next to nothing, and a name brings its own modules only."""
    script = (
        "import sys, income_client\n"
        "print('aiohttp' in sys.modules, 'income_client.errors' in sys.modules)\n"
        "print(set(income_client.__all__) <= set(dir(income_client)))\n"
        "income_client.DecodeError\n"
        "print('aiohttp' in sys.modules, 'DecodeError' in vars(income_client))\n"
    )
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["False", "False", "True", "False", "True"]


def test_a_name_that_there_is_not_is_an_attribute_error() -> None:
    """It is told as for any module."""
    with pytest.raises(AttributeError, match="'income_client' has no attribute 'Nobody'"):
        _ = vars(_lazy)["__getattr__"]("Nobody")


def test_no_module_is_offered() -> None:
    """What is offered are values, never a module by accident."""
    assert not any(
        isinstance(getattr(income_client, name), ModuleType) for name in income_client.__all__
    )


def test_every_error_is_offered_and_drawn() -> None:
    """The tree in the docstring of ``errors`` holds every error, each under its parent."""
    classes = {
        name: found
        for name, found in vars(errors).items()
        if isinstance(found, type) and issubclass(found, Exception)
    }
    assert set(classes) <= set(income_client.__all__)
    drawing = errors.__doc__ or ""
    parents = ["IncomeClientError"]
    drawn = {"IncomeClientError"}
    for match in _TREE_LINE.finditer(drawing):
        name, depth = match["name"], match.start("name") - match.start()
        level = depth // 4
        del parents[level:]
        assert classes[name].__bases__ == (classes[parents[-1]],)
        parents.append(name)
        drawn.add(name)
    assert drawn == set(classes)


def test_errors_leave_the_package_under_its_name() -> None:
    """Every error is one of the root's family and carries what its catcher asks for."""
    for found in _public_classes():
        if issubclass(found, Exception):
            assert issubclass(found, errors.IncomeClientError)
            assert found.__doc__


@pytest.mark.parametrize("name", _CONTRACT_CALLS)
def test_calls_name_their_errors_and_their_section(name: str) -> None:
    """What talks to the service says which part of the contract it is, and what it raises."""
    text = inspect.getdoc(getattr(income_client.IncomeClient, name)) or ""
    assert re.search(r"\(contract sections? \d", text.partition("\n")[0])
    assert "Raises:\n    ConfigurationError: " in text


def test_record_fields_have_a_line_each() -> None:
    """Below each field of a record stands what it holds."""
    for path in sorted((Path(income_client.__file__).parent / "records").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                bare = [
                    item.target.id
                    for item, after in zip(node.body, [*node.body[1:], None], strict=True)
                    if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
                    if not (isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant))
                ]
                assert not bare, f"{path.name}: {node.name}.{bare}"
