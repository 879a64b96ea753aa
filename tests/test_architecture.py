"""Imports go down the layers without a circle, pure modules never wait, few know a library."""

import ast
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import pytest
from attrs import field, frozen

import income_client

PACKAGE: Final = Path(income_client.__file__).parent


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


CORE: Final = (
    _names("_lazy _other_names _version errors events records settings system"),
    _names("wire"),
    _names("http"),
    _names("checkpoints downloads walk"),
    _names("polling"),
    _names("client configuration"),
)
"""Folders and modules of the core, the lowest layer first; each imports its own layer and lower."""

OUTSIDE: Final[Mapping[str, frozenset[str]]] = {
    "__init__": frozenset().union(_names("sync"), *CORE),
    "audit": _names("errors http records settings system walk wire"),
    "engines": _names("__init__ checkpoints errors http polling records settings system"),
    "exporting": _names("errors records settings system wire"),
    "receivers": _names("_lazy errors records settings system wire"),
    "sync": _names(
        "_lazy client configuration downloads errors polling records settings system walk"
    ),
    "telemetry": _names("_version events"),
    "cli": _names("""
        __init__ audit configuration emulator engines errors events exporting polling receivers
        records settings system walk
    """),
    "emulator": _names("_lazy errors settings system"),
    "testing": _names("__init__ _lazy configuration emulator records system"),
}
"""Folders and modules around the core and beside it, and what each of them imports."""

OPENED: Final[Mapping[str, frozenset[str]]] = {
    "client": _names("audit.auditor audit.held telemetry"),
}
"""Modules of the core, and those around it that they import when a method is called."""

UNGUARDED: Final = _names("system.logs cli emulator.server receivers.aiohttp_server")
"""Modules that handle loggers of `logging`: to guard, configure or silence them."""

PURE: Final = _names("""
    errors events.kinds settings records system.hosts wire http.endpoints
    http.replies exporting.rows
    audit.comparison
    walk.checkpoint walk.density walk.placing walk.planner walk.tail walk.windows
    polling.checkpoint polling.dead_letters polling.ownership polling.progress
    receivers.auth receivers.certificates receivers.exchange receivers.issuer receivers.jwt
    receivers.networks downloads.links downloads.naming downloads.transfer
    emulator.access emulator.api emulator.exchange emulator.faults emulator.invented
    emulator.journal emulator.listing emulator.update_times emulator.service_rules
    emulator.storage emulator.times emulator.world
""")
"""Modules that decide and never wait; a package means all that is in it."""

IMPURE: Final = _names("""
    asyncio concurrent contextvars logging multiprocessing os queue random secrets select signal
    socket subprocess sys tempfile threading time uuid warnings
""")
CLOCK_READS: Final = _names("getenv monotonic now perf_counter time_ns today urandom utcnow uuid4")

ONLY_IN: Final[Mapping[str, frozenset[str]]] = {
    "aiohttp": _names("""
        cli.doctor.service downloads.http emulator.callbacks emulator.remote emulator.server
        http.connections http.faults http.transport receivers.aiohttp receivers.aiohttp_server
        receivers.jwks
    """),
    "asyncpg": _names("engines.postgres"),
    "cattrs": _names("wire.readers"),
    "cryptography": _names("receivers.certificates receivers.jwt"),
    "cyclopts": _names("cli"),
    "faststream": _names("engines.faststream"),
    "fcntl": _names("system.disk"),
    "joserfc": _names("receivers.jwt"),
    "nats": _names("""
        cli.relay cli.stores engines.faststream engines.nats engines.nats_connection
        engines.nats_streams
    """),
    "opentelemetry": _names("telemetry"),
    "pytest": _names("testing.plugin"),
    "pyarrow": _names("exporting.parquet exporting.schema exporting.tables"),
    "rich": _names("cli"),
    "tenacity": _names("http.retry settings"),
    "uvicorn": _names("receivers.uvicorn"),
}
"""Libraries, and the modules that may know of them."""
ANYWHERE: Final = sys.stdlib_module_names | _names("attrs income_client msgspec yarl")
"""Libraries that every module may import; each other import must be in the tables below."""


@frozen
class Module:
    """A module of the package, by its dotted name within it."""

    name: str
    source: str = field(repr=False)
    is_package: bool = False

    def is_within(self, names: frozenset[str]) -> bool:
        """Return whether a module is one of these modules, or in one of these packages."""
        return any(self.name == name or self.name.startswith(f"{name}.") for name in names)


@cache
def imports_of(module: Module) -> tuple[str, ...]:
    """Return what it imports, absolute and dotted, with ``from a import b`` as ``a.b``."""
    package = ["income_client", *module.name.split(".")]
    if module.name == "__init__" or not module.is_package:
        package = package[:-1]
    found: list[str] = []
    for node in ast.walk(ast.parse(module.source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            found += [f"{stem}.{alias.name}" for alias in node.names]
    return tuple(found)


def _modules() -> Iterator[Module]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
        is_package = len(parts) > 1 and parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        yield Module(name, path.read_text("utf-8"), is_package)


MODULES: Final = tuple(_modules())
UNITS: Final = frozenset(module.name.partition(".")[0] for module in MODULES)
"""The folders of the package, and the modules beside them."""


def unit_of(name: str) -> str:
    """Return the folder, or the module beside the folders, that offers a dotted name."""
    unit = name.partition(".")[0]
    return unit if unit in UNITS else "__init__"


def layers(module: Module) -> Iterator[str]:
    """The core imports only the core, downwards; the rest imports what is listed for it."""
    unit = module.name.partition(".")[0]
    height = next((n for n, layer in enumerate(CORE) if unit in layer), None)
    if unit in OUTSIDE:
        allowed = OUTSIDE[unit] | {unit}
    elif height is None:
        yield "is in no layer"
        return
    else:
        allowed = frozenset().union(*CORE[: height + 1])
    opened = OPENED.get(module.name, frozenset())
    for name in imports_of(module):
        first, _, rest = name.partition(".")
        is_allowed = unit_of(rest) in allowed or Module(rest, "").is_within(opened)
        if first == "income_client" and not is_allowed:
            yield f"imports {name}, which is not below it"


def purity(module: Module) -> Iterator[str]:
    """Pure modules neither wait nor look at clock, chance, log or environment."""
    if not module.is_within(PURE):
        return
    for name in imports_of(module):
        is_seeded = name == "random.Random" and module.name.startswith("emulator.")
        if name.partition(".")[0] in IMPURE and not is_seeded:
            yield f"imports {name}"
    for node in ast.walk(ast.parse(module.source)):
        match node:
            case ast.AsyncFunctionDef() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                yield f"waits in line {node.lineno}"
            case ast.Call(func=ast.Attribute(attr=name)) if name in CLOCK_READS:
                yield f"calls {name} in line {node.lineno}"
            case ast.Call(func=ast.Name(id="open" | "print" | "input")):
                yield f"reads or writes in line {node.lineno}"


def libraries(module: Module) -> Iterator[str]:
    """Each library is known to few modules, and none is imported that is in no list."""
    for name in imports_of(module):
        library = name.partition(".")[0]
        if library not in ANYWHERE and not module.is_within(ONLY_IN.get(library, frozenset())):
            yield f"imports {name}"


def logs(module: Module) -> Iterator[str]:
    """The core and what is around it log through a `GuardedLogger` only."""
    if module.is_within(UNGUARDED):
        return
    for node in ast.walk(ast.parse(module.source)):
        match node:
            case ast.Call(func=ast.Attribute(attr="getLogger") | ast.Name(id="getLogger")):
                yield f"makes a logger in line {node.lineno} that may raise"


Rule = Callable[[Module], Iterator[str]]
RULES: Final[tuple[Rule, ...]] = (layers, purity, libraries, logs)


def test_the_package_keeps_the_rules() -> None:
    assert {module.name for module in MODULES} >= PURE
    found = [f"{one.name} {fault}" for rule in RULES for one in MODULES for fault in rule(one)]
    assert found == []


@pytest.mark.parametrize(
    ("rule", "name", "source"),
    [
        (layers, "errors", "from .http.session import Session"),
        (layers, "records.paystub", "from ..wire.codec import to_json"),
        (layers, "http.session", "from .. import client"),
        (layers, "wire.codec", "import income_client"),
        (layers, "http.session", "from income_client.telemetry import Telemetry"),
        (layers, "client", "from .receivers import CallbackReceiver"),
        (layers, "walk.paginator", "from income_client.audit.auditor import Audit"),
        (layers, "emulator.world", "from income_client.wire import times"),
        (layers, "receivers.asgi", "from ..http.session import Session"),
        (layers, "newcomer", "import json"),
        (purity, "walk.planner", "import asyncio"),
        (purity, "walk.planner", "async def ask(): ..."),
        (purity, "records.paystub", "from datetime import date\ndate.today()"),
        (purity, "emulator.service_rules", "def f(path): return open(path)"),
        (purity, "emulator.world", "import random"),
        (logs, "http.session", "import logging\nlogging.getLogger('income_client.session')"),
        (libraries, "http.session", "from tenacity import retry"),
        (libraries, "engines.newcomer", "import memcached"),
    ],
)
def test_the_rule_bites(rule: Rule, name: str, source: str) -> None:
    assert list(rule(Module(name, source)))


@pytest.mark.parametrize("of_folders", [False, True], ids=["modules", "folders"])
def test_nothing_imports_in_a_circle(of_folders: bool) -> None:
    """There is an order in which modules, and folders, can be read after what they build on."""
    known = {module.name for module in MODULES}
    graph: dict[str, set[str]] = {}
    for module in MODULES:
        prefix = "income_client."
        own = [name for name in imports_of(module) if name.startswith(prefix)]
        names_of = {name.removeprefix(prefix) for name in own}
        # What is taken from a package is one of its modules, or else a name in it.
        direct = {name if name in known else name.rpartition(".")[0] for name in names_of}
        graph[module.name] = (direct & known) - {module.name}
    if of_folders:
        modules, graph = graph, {unit: set() for unit in UNITS}
        for module_name, imported in modules.items():
            unit = unit_of(module_name)
            graph[unit] |= {*map(unit_of, imported)} - {unit}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"imports go in a circle: {' -> '.join(error.args[1])}")
