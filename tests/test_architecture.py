"""The design's rules hold for every module, and each bites on a small bad example."""

from graphlib import CycleError, TopologicalSorter
from typing import Final

import pytest

from tests.support.architecture import (
    LAYERS,
    MAY_IMPORT,
    MESSAGES_READ_IN,
    MODULES,
    ONLY_IN,
    PURE,
    RULES,
    UNITS,
    Module,
    Rule,
    layers,
    libraries,
    messages,
    purity,
)

BAD: Final[tuple[tuple[Rule, Module], ...]] = (
    (layers, Module("errors", "from .http.session import Session")),
    (layers, Module("records.paystub", "from ..wire.codec import to_json")),
    (layers, Module("wire.codec", "from income_client import telemetry")),
    (layers, Module("http.session", "from .. import client")),
    (layers, Module("http.session", "import income_client.walk.paginator")),
    (layers, Module("emulator.world", "from income_client.wire import times")),
    (layers, Module("receivers.asgi", "from ..http.session import Session")),
    (layers, Module("receivers.asgi", "from ..http.transport import Transport")),
    (layers, Module("cli.demo", "from income_client.walk.planner import WalkPlanner")),
    (layers, Module("emulator.payloads", "from ..client import IncomeClient")),
    (layers, Module("newcomer", "import json")),
    (purity, Module("walk.planner", "import asyncio")),
    (purity, Module("walk.planner", "async def ask(): ...")),
    (purity, Module("walk.planner", "import time")),
    (purity, Module("walk.planner", "import logging")),
    (purity, Module("http.replies", "from random import Random")),
    (purity, Module("http.replies", "from datetime import datetime\ndatetime.now()")),
    (purity, Module("records.paystub", "from datetime import date\ndate.today()")),
    (purity, Module("settings", "from os import environ")),
    (purity, Module("emulator.world", "import random")),
    (purity, Module("emulator.service_rules", "def f(path): return open(path)")),
    (libraries, Module("http.session", "import aiohttp")),
    (libraries, Module("http.transport", "from aiohttp import web")),
    (libraries, Module("emulator.emulator", "from aiohttp import ClientSession")),
    (libraries, Module("http.session", "from tenacity import retry")),
    (libraries, Module("records.paystub", "import cattrs")),
    (libraries, Module("client", "from rich.console import Console")),
    (libraries, Module("receivers.aiohttp", "from aiohttp import ClientSession")),
    (libraries, Module("receivers.asgi", "import uvicorn")),
    (libraries, Module("receivers.receiver", "from joserfc import jwt")),
    (libraries, Module("engines.newcomer", "import memcached")),
    *(
        (messages, Module(f"cli.{name}", f"def f(error: IncomeClientError):\n    {read}"))
        for name, read in (
            ("find", "return error.message.replace('a', 'b')"),
            ("app", "return error.detail.partition(' ')"),
            ("poll", "return 'lost' in str(error)"),
            ("listen", "message = error.message\n    return message.startswith('token:')"),
            ("token", "return PATTERN.search(str(error))"),
            ("demo", "return error.message[:5]"),
            ("split", "match error.message:\n        case 'lost': ..."),
            ("schema", "try: ...\n    except KeyError as e: return str(e) == 'a'"),
        )
    ),
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps_the_rule(rule: Rule) -> None:
    """No module of the package breaks it."""
    assert [f"{each.name} {fault}" for each in MODULES for fault in rule(each)] == []


@pytest.mark.parametrize(
    ("rule", "module"), BAD, ids=[f"{rule.__name__}-{module.name}" for rule, module in BAD]
)
def test_the_rule_bites(rule: Rule, module: Module) -> None:
    """A small bad example breaks it."""
    assert list(rule(module))


def test_every_rule_has_a_bad_example() -> None:
    """No rule is only believed to bite."""
    assert {rule for rule, _ in BAD} == set(RULES)


def test_every_unit_has_one_place() -> None:
    """Each part of the package stands in one layer or beside them, and each place is taken."""
    placed = [unit for layer in LAYERS for unit in layer]
    beside = set(MAY_IMPORT) - set(placed)
    assert sorted([*placed, *beside]) == sorted(UNITS)


def test_every_pure_module_exists() -> None:
    """A module that is renamed does not slip out of the rule."""
    known = {module.name for module in MODULES}
    assert set(PURE) <= known


@pytest.mark.parametrize("library", sorted(ONLY_IN))
def test_whoever_may_know_a_library_imports_it(library: str) -> None:
    """No list names a module too many, or one that loads the library by another way."""
    for place in ONLY_IN[library]:
        within = [module for module in MODULES if module.is_within((place,))]
        found = {name.partition(".")[0] for module in within for name in module.imports()}
        assert library in found, place


@pytest.mark.parametrize("name", sorted(MESSAGES_READ_IN))
def test_each_module_that_may_read_messages_does(name: str) -> None:
    """No list names a module too many."""
    (module,) = (module for module in MODULES if module.name == name)
    assert list(messages(Module("elsewhere", module.source)))


def test_modules_do_not_import_in_a_circle() -> None:
    """There is an order in which the modules can be read, each after what it builds on."""
    known = {module.name for module in MODULES}
    graph: dict[str, set[str]] = {}
    for module in MODULES:
        names_of = {name.removeprefix("income_client.") for name in module.imports()}
        # What is taken from a package is one of its modules, or else a name in it.
        direct = {name if name in known else name.rpartition(".")[0] for name in names_of}
        graph[module.name] = (direct & known) - {module.name}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"imports go in a circle: {' -> '.join(error.args[1])}")
    assert set(order) == known
