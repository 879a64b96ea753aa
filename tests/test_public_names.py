"""The public face: complete, documented; ruff (RUF022) sorts it."""

import ast
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

import income_client
from income_client import _lazy, emulator, errors, events, receivers, records, testing, walk

_TREE_LINE: Final = re.compile(r"^[│ ]*[├└]── (?P<name>\w+)", re.MULTILINE)


def _typed_imports(package: ModuleType) -> dict[str, str]:
    """Return the names that a package imports for type checkers, with their modules."""
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
    [
        (income_client, _lazy.NAMES),
        (emulator, emulator.NAMES),
        (events, events.NAMES),
        (receivers, receivers.NAMES),
        (records, records.NAMES),
        (testing, testing.NAMES),
        (walk, walk.NAMES),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_names_are_found_where_type_checkers_find_them(
    package: Any, table: Mapping[str, str]
) -> None:
    """Each name is offered once, and the table of homes agrees with the imports.

    Offered names are values, never a module by accident.
    """
    homes = {
        name: resolve_name(f".{home}", package.__name__)
        for home, names in table.items()
        for name in names.split()
    }
    assert sorted(package.__all__) == sorted(homes)
    assert homes == _typed_imports(package)
    for name, home in homes.items():
        assert getattr(package, name) is getattr(import_module(home), name)
        assert not isinstance(getattr(package, name), ModuleType)
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
    with pytest.raises(AttributeError, match="'income_client' has no attribute 'Nobody'"):
        _ = vars(_lazy)["__getattr__"]("Nobody")


def test_the_top_has_few_names() -> None:
    assert len(income_client.__all__) <= 55


@pytest.mark.parametrize(
    ("name", "package"),
    [(name, package) for package, names in _lazy.MOVED.items() for name in names.split()],
)
def test_a_moved_name_works_and_a_warning_names_its_new_place(name: str, package: str) -> None:
    """The warning points at the line that asks for the name, and each such line gets one."""
    assert name not in income_client.__all__
    assert name not in dir(income_client)
    home = f"income_client.{package}"
    message = f"{re.escape(f'income_client.{name} is deprecated since 0.3')} .* {home}.{name}$"
    for line in (f"found = income_client.{name}", f"from income_client import {name} as found"):
        space = {"income_client": income_client}
        with pytest.warns(DeprecationWarning, match=message) as caught:
            exec(compile(line, "program.py", "exec"), space)
        assert space["found"] is getattr(import_module(home), name)
        assert {(each.filename, each.lineno) for each in caught} == {("program.py", 1)}


@pytest.mark.parametrize(("name", "line"), _lazy.REMOVED.items())
def test_a_removed_name_says_the_line_that_replaces_it(name: str, line: str) -> None:
    with pytest.raises(ImportError) as caught:
        exec(f"from income_client import {name}")
    assert caught.value.msg == f"income_client.{name} was removed: write {line}"


def test_every_error_is_offered_and_drawn() -> None:
    """The tree in the docstring of ``errors`` holds every error, each under its parent."""
    classes = {
        name: found
        for name, found in vars(errors).items()
        if isinstance(found, type) and issubclass(found, Exception)
    }
    assert set(classes) <= set(income_client.__all__) | set(receivers.__all__)
    drawing = errors.__doc__ or ""
    parents = ["IncomeClientError"]
    drawn = {"IncomeClientError"}
    for match in _TREE_LINE.finditer(drawing):
        name, depth = match["name"], match.start("name") - match.start()
        level = depth // 4
        del parents[level:]
        own, *foreign = classes[name].__bases__
        assert own is classes[parents[-1]]
        # The line of an error that is one of Python's too says which.
        line = drawing[match.start() :].partition("\n")[0]
        assert [f"a {base.__name__} too" in line for base in foreign] == [True] * len(foreign)
        parents.append(name)
        drawn.add(name)
    assert drawn == set(classes)
