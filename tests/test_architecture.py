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


def test_the_package_keeps_the_rules() -> None:
    """All rules look at a module while its syntax tree is there."""
    found = [
        f"{rule.__name__}: {module.name} {fault}"
        for module in MODULES
        for rule in RULES
        for fault in rule(module)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("rule", "module"), BAD, ids=[f"{rule.__name__}-{module.name}" for rule, module in BAD]
)
def test_the_rule_bites(rule: Rule, module: Module) -> None:
    assert list(rule(module))


def test_the_lists_are_complete() -> None:
    """Each rule has a bad example, each part of the package one place, each pure module exists."""
    assert {rule for rule, _ in BAD} == set(RULES)
    placed = [unit for layer in LAYERS for unit in layer]
    beside = set(MAY_IMPORT) - set(placed)
    assert sorted([*placed, *beside]) == sorted(UNITS)
    known = {module.name for module in MODULES}
    assert known >= PURE


def test_lists_name_no_module_too_many() -> None:
    """Each imports the library that it may know of, and each that may read messages does."""
    for library, places in ONLY_IN.items():
        for place in places:
            within = [module for module in MODULES if module.is_within(frozenset({place}))]
            found = {name.partition(".")[0] for module in within for name in module.imports()}
            assert library in found, place
    for name in MESSAGES_READ_IN:
        (module,) = (module for module in MODULES if module.name == name)
        assert list(messages(Module("elsewhere", module.source))), name


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
