"""The tables of the README are whole: knobs, faults, arguments, methods, fields and sections."""

import ast
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from typing import Final

import pytest
from attrs import fields_dict

import income_client
from income_client import (
    CheckpointStore,
    DownloadPolicy,
    Event,
    IncomeClient,
    PollerStatus,
    RetryPolicy,
    StoredToken,
    Timeouts,
    TokenStore,
)
from income_client.cli.exit_status import ExitStatus
from income_client.emulator import CallbackTarget, Fault, FaultKind, ServiceRules
from income_client.receivers import CallbackReceiver
from tests.support.processes import ROOT
from tests.support.readme import DEMO, PATH, README, TESTS, blocks, examples, file_name, kind_of

PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EVENTS: Final = tuple(
    value
    for value in (getattr(income_client, name) for name in income_client.__all__)
    if isinstance(value, type) and issubclass(value, Event) and value is not Event
)
COMES_WITH: Final[Mapping[str, str]] = {
    "obstore": "'income-client[storage]'",
    "starlette": "fastapi",
    "prometheus_client": "prometheus-client",
    "opentelemetry": "opentelemetry-sdk",
}
"""Packages that another name installs."""
COME_ALONG: Final = {"aiohttp", "attrs", "income_client", "yarl"} | sys.stdlib_module_names
"""Packages that whoever has this one has."""


def _cells(first: str) -> dict[str, str]:
    """Return the rows of the table whose head begins with a cell, by their first cells."""
    head = re.escape(f"| {first} |")
    (table,) = re.findall(rf"^{head}.*\n\|[-| :]+\n((?:\|.*\n)+)", README, re.MULTILINE)
    rows = (line.strip("| \n").partition(" | ") for line in table.splitlines())
    return {name: rest for name, _, rest in rows}


@pytest.mark.parametrize(
    ("head", "cls"),
    [
        ("`Timeouts`", Timeouts),
        ("`RetryPolicy`", RetryPolicy),
        ("`DownloadPolicy`", DownloadPolicy),
        ("`poller.status`", PollerStatus),
    ],
)
def test_a_table_of_settings_has_each_field_and_its_default(head: str, cls: type) -> None:
    """A row speaks of fields that exist, none is left out, and a default shown is the true one."""
    rows = _cells(head)
    fields = {name.lstrip("_") for name in fields_dict(cls)}
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(fields)
    for name, rest in rows.items():
        if default := re.match(r"([\d.]+)(?: s)? \|", rest):
            assert float(default[1]) == getattr(cls(), name.strip("`")), name


def test_each_event_is_a_row_with_its_fields() -> None:
    """The table of events names each class and all that its values hold."""
    rows = _cells("Event")
    assert sorted(rows) == sorted(f"`{event.__name__}`" for event in EVENTS)
    for event in EVENTS:
        cell = rows[f"`{event.__name__}`"].partition(" | ")[2]
        assert set(re.findall(r"`(\w+)`", cell)) >= set(fields_dict(event)), event


def test_a_token_store_and_its_token_are_told() -> None:
    """Whoever writes one knows its methods and the fields of what it keeps."""
    methods = " ".join(_cells("`TokenStore`"))
    assert set(re.findall(r"`(\w+)\(", methods)) == {
        name for name in vars(TokenStore) if not name.startswith("_")
    }
    (told,) = re.findall(r"^A `StoredToken` has (?:.+\n)+", README, re.MULTILINE)
    assert set(fields_dict(StoredToken)) <= set(re.findall(r"`(\w+)`", told))


def test_each_exit_status_is_in_its_table() -> None:
    """The table has the statuses that the command knows."""
    assert [int(status) for status in _cells("exit status")] == sorted(ExitStatus)


def test_each_extra_is_in_its_table() -> None:
    """What can be installed in brackets is told."""
    named = re.findall(r"`(\w+)`", " ".join(_cells("extra")))
    assert sorted(named) == sorted(PROJECT["optional-dependencies"])
    assert f"CPython {PROJECT['requires-python'].removeprefix('>=')} or later" in README


def test_bounds_are_told_alike() -> None:
    """The file and ``help()`` say the same of what a bound may be."""
    told = [
        re.findall(
            r"A bound is a date .*? widen the span\.", " ".join(text.split()).replace("``", "`")
        )
        for text in (README, inspect.getdoc(IncomeClient.list_applications) or "")
    ]
    assert len(told[0]) == 1
    assert told[0] == told[1]


def test_the_version_is_the_one_that_stands_here() -> None:
    """What is said of stability is of this version."""
    assert f"This is {income_client.__version__}," in README


def test_an_example_says_what_else_it_needs() -> None:
    """Its second line installs whatever does not come with the package."""
    for example in examples():
        if kind_of(example) != "python":
            continue
        found = {
            module.partition(".")[0]
            for node in ast.walk(ast.parse(example.parsed))
            for module in _imported(node)
        }
        needed = {COMES_WITH.get(module, module) for module in found - COME_ALONG}
        second = str(example.parsed).splitlines()[1].removeprefix("# pip install ").split()
        assert needed <= set(second), file_name(example)


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def test_every_section_and_recipe_is_in_the_contents() -> None:
    """Each link within the file leads to a heading, and the contents to all that are meant."""
    text = re.sub(r"^```.*?^```$", "", PATH.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    anchors = {
        re.sub(r"[^\w -]", "", title).lower().replace(" ", "-"): title
        for title in re.findall(r"^##+ (.+)$", text, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([\w-]+)\)", text)) <= set(anchors)
    recipes = text.partition("\n## Recipes\n")[2].partition("\n## ")[0]
    for begins, titles in (
        ("Contents: ", re.findall(r"^## (.+)$", text, re.MULTILINE)),
        ("Recipes: ", re.findall(r"^### (.+)$", recipes, re.MULTILINE)),
    ):
        (line,) = re.findall(rf"^{begins}(.+)$", text, re.MULTILINE)
        assert re.findall(r"\[(.+?)\]", line) == titles


def test_every_knob_and_fault_is_in_its_table() -> None:
    """The tables name each field of the rules and of a fault, and each kind of fault."""
    named = set(re.findall(r"`\"?(\w+)\"?`", "\n".join(re.findall(r"^\|.*", README, re.MULTILINE))))
    assert set(fields_dict(ServiceRules)) <= named
    assert set(fields_dict(Fault)) - {"kind"} <= named
    assert set(fields_dict(CallbackTarget)) - {"url"} <= named
    assert {kind.value for kind in FaultKind} <= named


def test_every_argument_of_what_runs_for_long_is_in_a_table() -> None:
    """The tables name what `poll` and a receiver take, and the methods of a store."""
    rows = "\n".join(re.findall(r"^\|.*", README, re.MULTILINE))
    named = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", rows))))
    assert set(inspect.signature(IncomeClient.poll).parameters) - {"self", "checkpoints"} <= named
    assert set(inspect.signature(CallbackReceiver).parameters) - {"on_callback", "clock"} <= named
    for method in ("load", "save", "dead_letters"):
        parameters = inspect.signature(getattr(CheckpointStore, method)).parameters
        assert {method, *parameters} - {"self"} <= named


def test_both_commands_are_there() -> None:
    """The demo comes first."""
    assert blocks("sh") == [f"{DEMO}\n", f"{TESTS}\n"]


def test_ci_takes_the_commands_from_here() -> None:
    """What CI runs is read from this file, so that the two cannot drift apart."""
    ended = subprocess.run(
        [ROOT / ".ci" / "run", "commands"], capture_output=True, text=True, check=True
    )
    assert ended.stdout.splitlines() == [TESTS, DEMO]


def test_extras_are_those_that_the_commands_name() -> None:
    """Whatever is installed in the README exists."""
    named = re.findall(r"(?:income-client|\.)\[([\w,]+)\]", README)
    extras = {extra for several in named for extra in several.split(",")}
    assert {"callbacks", "cli", "dev"} <= extras
    assert extras <= set(PROJECT["optional-dependencies"])
