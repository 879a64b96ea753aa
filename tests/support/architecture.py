"""The rules of the design as data, and what each finds in the syntax tree of a module.

A rule is a function from a module to the sentences that say what is wrong with it.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

from attrs import field, frozen

import income_client

PACKAGE: Final = Path(income_client.__file__).parent


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


LAYERS: Final = (
    _names("_version clock errors events hosts records settings texts"),
    _names("wire"),
    _names("call_watch concurrency instrumentation portal telemetry"),
    _names("http"),
    _names("checkpoints disk downloads exporting fetching walk"),
    _names("audit polling"),
    _names("client configuration receivers sync"),
    _names("__init__ _lazy"),
    _names("engines"),
    _names("cli testing"),
)
"""Units of the package, the lowest first; imports go down, or stay within a layer without cycle."""

MAY_IMPORT: Final[Mapping[str, frozenset[str]]] = {
    "emulator": _names("_lazy clock emulator errors hosts settings texts"),
    "receivers": _names("errors hosts receivers records settings wire"),
    "cli": _names(
        "__init__ cli configuration disk emulator engines exporting hosts receivers records texts"
    ),
    "testing": _names("__init__ _lazy clock emulator records testing"),
}
"""Units that stand beside the layers, or see less than what is below them."""

PURE: Final = _names("""
    errors events hosts settings records wire http.endpoints http.replies exporting.rows
    audit.comparison
    walk.checkpoint walk.density walk.placing walk.planner walk.tail walk.windows
    polling.checkpoint polling.dead_letters polling.progress
    receivers.auth receivers.certificates receivers.exchange receivers.issuer receivers.jwt
    receivers.networks downloads.links downloads.naming downloads.transfer
    emulator.access emulator.api emulator.exchange emulator.faults emulator.invented
    emulator.journal emulator.listing emulator.update_times emulator.service_rules
    emulator.storage emulator.times emulator.world
""")
"""Modules that decide and never wait; a package stands for all that is in it."""

IMPURE: Final = _names("""
    asyncio concurrent contextvars logging multiprocessing os queue random secrets select signal
    socket subprocess sys tempfile threading time uuid warnings
""")
CLOCK_READS: Final = _names("getenv monotonic perf_counter time_ns today urandom utcnow uuid4")

SERVERS: Final = _names("emulator.emulator receivers.aiohttp receivers.aiohttp_server")
"""Of those that may know aiohttp, the ones that see its server and nothing of its client."""

CLIENTS: Final = _names("""
    cli.doctor.service downloads.http emulator.callbacks emulator.remote http.connections
    http.faults http.transport receivers.jwks
""")
"""The ones that see its client and nothing of its server."""

ONLY_IN: Final[Mapping[str, frozenset[str]]] = {
    "aio_pika": _names("engines.worker_rabbit"),
    "aiohttp": SERVERS | CLIENTS,
    "asyncpg": _names("engines.postgres"),
    "cattrs": _names("wire.readers"),
    "cryptography": _names("receivers.certificates receivers.jwt"),
    "cyclopts": _names("cli"),
    "fcntl": _names("disk"),
    "jinja2": _names("cli.application.html"),
    "joserfc": _names("receivers.jwt"),
    "nats": _names("cli.relay engines.nats engines.nats_connection engines.worker_nats"),
    "opentelemetry": _names("telemetry"),
    "pandas": _names("exporting.frames"),
    "polars": _names("exporting.frames"),
    "pytest": _names("testing.plugin"),
    "pyarrow": _names("exporting.parquet exporting.schema exporting.frames"),
    "redis": _names("cli.relay engines.redis engines.redis_settings engines.worker_redis"),
    "rich": _names("cli"),
    "tenacity": _names("http.retry settings"),
    "tomlkit": _names("cli.configure"),
    "uvicorn": _names("receivers.uvicorn"),
}
"""Libraries, and the modules that may know of them."""
ANYWHERE: Final = _names("attrs msgspec yarl")
"""Libraries that any module may know of; no other than all these is imported."""

MESSAGES_READ_IN: Final[Mapping[str, str]] = {
    "cli.app": "cyclopts",
    "configuration": "tomllib",
    "engines.nats_connection": "nats",
    "engines.postgres": "asyncpg",
    "engines.redis": "redis",
    "engines.worker_redis": "redis",
    "http.faults": "aiohttp",
}
"""Modules that read the text of a library's errors, which say it in no other way."""
READS: Final = _names("""
    casefold count endswith find index lower lstrip partition removeprefix removesuffix replace
    rfind rindex rpartition rsplit rstrip split splitlines startswith strip translate upper
""")
"""Methods of a text that take it to pieces, or say what is in it."""
PATTERN_READS: Final = _names("findall finditer fullmatch match search sub")
_TEXT_OF_AN_ERROR: Final = re.compile(r"\.(?:message|detail)\b|\bstr\(")


@frozen
class Module:
    """A module of the package, by its name within it."""

    name: str
    """Dotted, without the package's own name; ``__init__`` is the public face."""
    source: str = field(repr=False)
    """Its text."""
    is_package: bool = False
    """Whether it is the ``__init__`` of a folder."""

    @property
    def unit(self) -> str:
        """The first part of its name, which the layers speak of."""
        return self.name.partition(".")[0]

    @property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of its syntax tree."""
        return _nodes_of(self.source)

    def is_within(self, names: frozenset[str]) -> bool:
        """Say whether it is one of these modules, or in one of these packages."""
        return any(self.name == name or self.name.startswith(f"{name}.") for name in names)

    def imports(self) -> tuple[str, ...]:
        """Return what it imports, absolute and dotted, with ``from a import b`` as ``a.b``."""
        return _imports_of(self)

    def _imports(self) -> Iterator[str]:
        package = ["income_client", *self.name.split(".")]
        if self.name == "__init__":
            package = ["income_client"]
        elif not self.is_package:
            package = package[:-1]
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = package[: len(package) - node.level + 1] if node.level else []
                stem = ".".join([*base, *([node.module] if node.module else [])])
                yield from (f"{stem}.{alias.name}" for alias in node.names)

    def units_imported(self) -> Iterator[str]:
        """Yield the units of the package that it imports."""
        for name in self.imports():
            first, _, rest = name.partition(".")
            if first == "income_client":
                unit = rest.partition(".")[0]
                yield unit if unit in UNITS else "__init__"


@lru_cache(maxsize=1)  # those of all modules would make each collection of garbage slow
def _nodes_of(source: str) -> tuple[ast.AST, ...]:
    return (*ast.walk(ast.parse(source)),)


@cache
def _imports_of(module: Module) -> tuple[str, ...]:
    return tuple(module._imports())


def _modules() -> Iterator[Module]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
        is_package = len(parts) > 1 and parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        yield Module(name, path.read_text("utf-8"), is_package)


def _units() -> Iterator[str]:
    for path in PACKAGE.iterdir():
        if path.suffix == ".py" or (path / "__init__.py").exists():
            yield path.stem


UNITS: Final = frozenset(_units())
MODULES: Final = tuple(_modules())


def layers(module: Module) -> Iterator[str]:
    """Imports go down the layers only."""
    unit = module.unit
    if unit in MAY_IMPORT:
        allowed = MAY_IMPORT[unit]
    else:
        height = next((n for n, layer in enumerate(LAYERS) if unit in layer), None)
        if height is None:
            yield f"{unit} stands in no layer"
            return
        allowed = frozenset().union(*LAYERS[: height + 1])
    for imported in module.units_imported():
        if imported not in allowed:
            yield f"imports {imported}, which is not below it"


def purity(module: Module) -> Iterator[str]:
    """Pure modules neither wait nor look at clock, chance, log or environment."""
    if not module.is_within(PURE):
        return
    for name in module.imports():
        seeded = module.unit == "emulator" and name == "random.Random"
        if name.partition(".")[0] in IMPURE and not seeded:
            yield f"imports {name}"
    for node in module.nodes:
        match node:
            case ast.AsyncFunctionDef() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                yield f"waits in line {node.lineno}"
            case ast.Call(func=ast.Attribute(attr=name)) if name in CLOCK_READS:
                yield f"calls {name} in line {node.lineno}"
            case ast.Call(func=ast.Attribute(value=ast.Name(id="datetime" | "date"), attr="now")):
                yield f"reads the clock in line {node.lineno}"
            case ast.Call(func=ast.Name(id="open" | "print" | "input")):
                yield f"reads or writes in line {node.lineno}"


def libraries(module: Module) -> Iterator[str]:
    """Each library is known to few modules, and aiohttp's client to those that speak HTTP."""
    for name in module.imports():
        library = name.partition(".")[0]
        if library in ONLY_IN and not module.is_within(ONLY_IN[library]):
            yield f"imports {name}"
        known = sys.stdlib_module_names | ANYWHERE | set(ONLY_IN) | {"income_client"}
        if library not in known:
            yield f"imports {name}, a library that is in no list"
        if library == "aiohttp" and module.name not in CLIENTS:
            if not (module.name in SERVERS and name.startswith("aiohttp.web")):
                yield f"imports {name}, and only aiohttp.web is meant here"
        elif name.startswith("aiohttp.web"):
            yield f"imports {name}, a server"


def messages(module: Module) -> Iterator[str]:
    """No code reads the text of an error: what it is about is in its attributes."""
    if not _TEXT_OF_AN_ERROR.search(module.source):
        return
    may_read_foreign = module.name in MESSAGES_READ_IN
    for function in module.nodes:
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        inside = (*ast.walk(function),)
        errors = set() if may_read_foreign else set(_errors_in(inside))
        texts: set[str] = set()
        for node in inside:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_text(
                    value, errors, texts
                ):
                    texts.add(name)
        for node in inside:
            if any(_is_text(one, errors, texts) for one in _taken_to_pieces(node)):
                yield f"reads the text of an error in line {getattr(node, 'lineno', 0)}"


def _errors_in(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield the names that errors have there: what is caught, and arguments."""
    for node in nodes:
        match node:
            case ast.ExceptHandler(name=str(name)):
                yield name
            case ast.arg(arg=name, annotation=ast.expr() as kind) if (
                ast.unparse(kind).strip("'").endswith(("Error", "Exception"))
            ):
                yield name


def _is_text(node: ast.expr, errors: set[str], texts: set[str]) -> bool:
    """Say whether this is the text of one of these errors, or a name for it."""
    match node:
        case ast.Attribute(attr="message" | "detail"):
            return True
        case ast.Call(func=ast.Name(id="str"), args=[ast.Name(id=name)]):
            return name in errors
        case ast.Name(id=name):
            return name in texts
        case _:
            return False


def _taken_to_pieces(node: ast.AST) -> Sequence[ast.expr]:
    """Return the expressions whose value decides something here, if they are texts."""
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in READS:
            return [value]
        case ast.Call(func=ast.Attribute(attr=attr), args=args) if attr in PATTERN_READS:
            return args
        case ast.Compare(ops=[ast.Is() | ast.IsNot()]):
            return []
        case ast.Compare(left=left, comparators=others):
            return [left, *others]
        case ast.Subscript(value=value) | ast.Match(subject=value):
            return [value]
        case _:
            return []


Rule = Callable[[Module], Iterator[str]]
RULES: Final[tuple[Rule, ...]] = (layers, purity, libraries, messages)
