"""``help()`` names every argument, field and error of what is public, and its examples work.

A rule returns the sentences that say what is missing in a docstring. ruff holds its form.
"""

import ast
import inspect
import pydoc
import re
import textwrap
from collections.abc import Callable, Iterator
from doctest import ELLIPSIS
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import FunctionType
from typing import Any, Final

import attrs
import pytest
from attrs import frozen
from sybil import Example, Sybil
from sybil.parsers.rest import DocTestParser

import income_client

PACKAGES: Final = {
    "income_client": (),
    "income_client.audit": (),
    "income_client.downloads": (),
    "income_client.emulator": (),
    "income_client.engines.faststream": ("update_subscriber",),
    "income_client.engines.postgres": ("PostgresCheckpointStore", "PostgresTokenStore"),
    "income_client.events": (),
    "income_client.exporting": (),
    "income_client.receivers": (),
    "income_client.receivers.aiohttp": ("routes",),
    "income_client.receivers.aiohttp_server": ("serving",),
    "income_client.receivers.asgi": ("Receiver",),
    "income_client.records": (),
    "income_client.sync": (),
    "income_client.testing": (),
    "income_client.walk": (),
}
"""Public modules, with the names of modules without ``__all__`` that the README uses."""

_MADE_BY: Final = re.compile(r"Made by ``\w+\.\w+``, which says what the arguments are")


@frozen
class Subject:
    """Something public, and how it is called."""

    name: str
    """Name of the object in ``help()``, with its package and its class."""
    value: Any
    """A class, or a function."""
    owner: type | None = None
    """The class that it belongs to."""

    @property
    def text(self) -> str:
        """Text of the docstring."""
        return inspect.getdoc(self.value) or ""

    def section(self, title: str) -> str:
        """Return what stands below a title."""
        found = re.search(rf"^{title}:\n((?:    .*\n?|\n)*)", self.text, re.MULTILINE)
        return found[1] if found else ""

    def entries(self, title: str) -> dict[str, str]:
        """Return the entries below a title."""
        entry = r"^    \*{0,2}(\w+): (.*(?:\n        .*)*)"
        return dict(re.findall(entry, self.section(title), re.MULTILINE))


def public() -> Iterator[Subject]:
    """Return all that is public: names, and the methods and properties of classes."""
    seen: set[int] = set()
    for package, names in PACKAGES.items():
        module = import_module(package)
        for name in names or module.__all__:
            value = getattr(module, name)
            if isinstance(value, type | FunctionType) and id(value) not in seen:
                seen.add(id(value))
                yield Subject(f"{package}.{name}", value)
                if isinstance(value, type):
                    yield from _members(f"{package}.{name}", value)


def _members(name: str, cls: type) -> Iterator[Subject]:
    for key, member in inspect.getmembers_static(cls):
        if not key.startswith("_"):
            function = member.fget if isinstance(member, property) else _plain(member)
            if inspect.isfunction(function) and function.__module__.startswith("income_client"):
                found = member if isinstance(member, property) else function
                yield Subject(f"{name}.{key}", found, cls)


def _plain(member: Any) -> object:
    """Return the function behind a method of any kind."""
    function = getattr(member, "__func__", member)
    return inspect.unwrap(function) if callable(function) else None


def arguments(subject: Subject) -> Iterator[str]:
    """Name every argument and no other; a single one may stand in the sentence."""
    given = _arguments_of(subject)
    if given is None:
        return
    named = subject.entries("Args")
    if len(given) == 1 and not named and re.search(rf"\b{given[0]}\b", subject.text):
        return
    if missing := [name for name in given if name not in named]:
        yield f"says nothing of {', '.join(missing)}"
    if surplus := [name for name in named if name not in given]:
        yield f"speaks of {', '.join(surplus)}, which it does not take"


def _arguments_of(subject: Subject) -> list[str] | None:
    value = subject.value
    if isinstance(value, property):
        return None
    if isinstance(value, type):
        if not _has_own_init(value) or _MADE_BY.search(" ".join(subject.text.split())):
            return None
        value = vars(value)["__init__"]
        names = list(inspect.signature(value).parameters)[1:]
    else:
        names = list(inspect.signature(value).parameters)
        if subject.owner is not None and names[:1] in (["self"], ["cls"]):
            names = names[1:]
    return [name for name in names if not name.startswith("_")]


def _has_own_init(cls: type) -> bool:
    """Whether callers make it, by a constructor that is written out."""
    init = vars(cls).get("__init__")
    is_written = inspect.isfunction(init) and init.__code__.co_filename == inspect.getfile(cls)
    return is_written and not issubclass(cls, Exception) and not getattr(cls, "_is_protocol", False)


def errors(subject: Subject) -> Iterator[str]:
    """Name every error of the package that stands in its own body."""
    if not isinstance(subject.value, FunctionType):
        return
    named = subject.entries("Raises")
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(subject.value)))):
        raised = node.exc if isinstance(node, ast.Raise) else None
        raised = raised.func if isinstance(raised, ast.Call) else raised
        name = raised.id if isinstance(raised, ast.Name) else ""
        if name in income_client.__all__ and name not in named:
            yield f"does not say that it raises {name}"


def fields(subject: Subject) -> Iterator[str]:
    """Explain each public field once: below it, or in the class, as ``help`` shows for records."""
    cls = subject.value
    if isinstance(cls, type) and attrs.has(cls):
        below, listed = field_lines(cls), subject.entries("Args") | subject.entries("Attributes")
        is_record = cls.__module__.startswith("income_client.records.")
        for field in attrs.fields(cls):
            if field.name.startswith("_") or field.inherited:
                continue
            if field.name not in (listed if is_record else {**below, **listed}):
                yield f"says nothing of {field.name}"
            if field.name in below and field.name in subject.entries("Attributes"):
                yield f"explains {field.name} twice"


@cache
def _classes_of(path: str) -> dict[str, ast.ClassDef]:
    """Return the classes of a module; `inspect` would read it whole for each of them."""
    tree = ast.parse(Path(path).read_text("utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def body_of(cls: type) -> list[ast.stmt]:
    """Return what is written in the body of a class."""
    return _classes_of(inspect.getfile(cls))[cls.__name__].body


def field_lines(cls: type) -> dict[str, str]:
    """Return what stands below each field in the body of a class."""
    return {
        item.target.id: after.value.value
        for item, after in pairwise(body_of(cls))
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if isinstance(after.value.value, str)
    }


RULES: Final = (arguments, errors, fields)

SUBJECTS: Final = tuple(public())
PACKAGE: Final = Path(income_client.__file__).parent
_EXAMPLES: Final = Sybil([DocTestParser(optionflags=ELLIPSIS)], pattern="*.py", path=str(PACKAGE))


def _modules_with_examples() -> list[Path]:
    return [path for path in sorted(PACKAGE.rglob("*.py")) if ">>> " in path.read_text("utf-8")]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.__name__))
def test_docstrings_keep_the_rules(rule: Callable[[Subject], Iterator[str]]) -> None:
    """Each public name, method and property has what the rule asks for."""
    assert len(SUBJECTS) > 150
    faults = [f"{one.name} {fault}" for one in SUBJECTS for fault in rule(one)]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    "path", _modules_with_examples(), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_examples_in_docstrings_work(path: Path) -> None:
    """Each example prints the text below it."""
    examples: list[Example] = list(_EXAMPLES.parse(path))
    assert examples
    for example in examples:
        example.evaluate()


def test_help_shows_the_fields_of_a_record() -> None:
    """Nothing stands below a field, which ``help`` would not show."""
    records = [one.value for one in SUBJECTS if attrs.has(one.value)]
    records = [cls for cls in records if cls.__module__.startswith("income_client.records.")]
    assert len(records) >= 20
    assert [cls.__name__ for cls in records if field_lines(cls)] == []
    assert "updated_at: time of the document's last update" in pydoc.plain(
        pydoc.render_doc(income_client.Document)
    )


def test_the_rules_see_faults() -> None:
    def read(path: str, limit: int) -> None:  # noqa: D417 - limit is missing
        """Read it.

        Args:
            path: of a file.
            width: of a line.
        """

    assert [*arguments(Subject("read", read))] == [
        "says nothing of limit",
        "speaks of width, which it does not take",
    ]
