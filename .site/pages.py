"""Which pages the site has: those of the repository as they are, and a reference of the names."""

import inspect
import re
import shutil
from importlib import import_module
from importlib.util import resolve_name
from pathlib import Path
from typing import Any, Final, get_args

from sphinx.pycode import ModuleAnalyzer

import income_client
from income_client import _lazy
from income_client.cli.guide import Page, first_sentence

ROOT: Final = Path(__file__).parents[1]
GUIDE: Final = tuple(f"income_client/guide/{page}" for page in get_args(Page))
"""The pages of the guide, in reading order."""
PACKAGES: Final = tuple(
    f"income_client.{name}"
    for name in (
        *("events", "records", "walk", "downloads", "receivers", "audit", "exporting", "sync"),
        *("emulator", "testing"),
    )
)
"""Packages beside the main one that say in ``__all__`` what is public."""
MODULES: Final = {
    "income_client.receivers.aiohttp": "routes",
    "income_client.receivers.aiohttp_server": "serving",
    "income_client.receivers.asgi": "Receiver",
    "income_client.receivers.uvicorn": "H11Protocol",
    "income_client.engines.faststream": "update_subscriber",
    "income_client.engines.postgres": "PostgresCheckpointStore PostgresTokenStore",
    "income_client.engines.nats": "NatsCheckpointStore NatsTokenStore nats_publisher",
    "income_client.engines.relay": "UpdateEvent faststream_decoder faststream_publisher relay",
}
"""Modules without ``__all__``, and what the guide takes from them."""

_TITLES: Final = {
    "http": "Tokens",
    "sync": "Without await",
    "walk": "Walks",
    "wire": "JSON",
}
"""Pages that are not titled as their modules are called."""


def parts() -> dict[str, tuple[str, list[str]]]:
    """Return what each page of the reference holds: a module, and names that it offers."""
    found: dict[str, tuple[str, list[str]]] = {}
    for home, names in _lazy.NAMES.items():
        subject = home.partition(".")[0].strip("_")
        found.setdefault(subject, ("income_client", []))[1].extend(names.split())
    for module in PACKAGES:
        # A name that income_client offers too has its entry there: two would be ambiguous.
        names = import_module(module).__all__
        found[module] = (module, [name for name in names if name not in income_client.__all__])
    for module, names in MODULES.items():
        found[module] = (module, names.split())
    return found


def stage(source: Path) -> None:
    """Lay out the pages that Sphinx reads, in the folders that their links expect."""
    root = ("README.md", "CHANGELOG.md", ".github/SECURITY.md")
    pages = [*root, "benchmarks/results.md", *(f"{one}.md" for one in GUIDE)]
    tests = [path.relative_to(ROOT) for path in ROOT.glob("tests/*/test_[01][0-9]_*.py")]
    for page in (*pages, *tests):
        (source / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / page, source / page)
    folder = source / "reference"
    folder.mkdir()
    found = parts()
    shown: dict[Any, str] = {}
    for page, (module, names) in found.items():
        title = _TITLES.get(page, page.capitalize()).removeprefix("Income_client.")
        told = import_module(module).__doc__ if "." in page else ""
        lines = [title, "=" * len(title), "", f".. currentmodule:: {module}", ""]
        offered = ", ".join(f"`{name}`" for name in sorted(names))
        lines += [inspect.cleandoc(told or ""), "", f"From ``{module}``: {offered}.", ""]
        for name in sorted(names):
            lines += _entry(module, name, shown)
        (folder / f"{page}.rst").write_text("\n".join(lines), "utf-8")
    lines = ["Reference", "=========", "", "Every public name, by subject.", ""]
    lines += [".. toctree::", "   :maxdepth: 1", "", *(f"   {page}" for page in found), ""]
    (folder / "index.rst").write_text("\n".join(lines), "utf-8")


def _entry(module: str, name: str, shown: dict[Any, str]) -> list[str]:
    """Return the lines of one entry; what two packages offer is explained at the first."""
    value = getattr(import_module(module), name)
    if inspect.isclass(value) or inspect.isroutine(value):
        kind = "class" if inspect.isclass(value) else "function"
        if first := shown.get(value):
            # Without a module: its source is linked from the first one.
            head = [f".. py:{kind}:: {module}.{name}", "   :module:", ""]
            return [*head, f"   The same as `{first}`.", ""]
        shown[value] = f"{module}.{name}"
        base = getattr(value, "__base__", object)
        bases = [] if base is object else ["   :show-inheritance:"]
        return [f".. auto{kind}:: {name}", *bases, ""]
    offered = _lazy.NAMES if module == "income_client" else import_module(module).NAMES
    home = next(one for one, names in offered.items() if name in names.split())
    analyzer = ModuleAnalyzer.for_module(resolve_name(f".{home}", module))
    text = analyzer.find_attr_docs().get(("", name), [])
    shown_value = " ".join(str(value).replace("typing.", "").split())
    head = [f".. py:data:: {name}", f"   :value: {shown_value}", ""]
    return [*head, *(f"   {line}" for line in text), ""]


def write_texts(texts: Path, html: Path) -> None:
    """Put each page as Markdown beside it, and write ``llms.txt`` and ``llms-full.txt``.

    The pages of the repository are as they are there.
    """
    pages = ["README", *GUIDE, *(f"reference/{page}" for page in parts()), "CHANGELOG"]
    lines, whole = ["# income-client", "", f"> {income_client.__doc__}", ""], []
    for page in pages:
        own = ROOT / f"{page}.md"
        text = (own if own.exists() else texts / f"{page}.md").read_text("utf-8")
        (html / f"{page}.md").write_text(text, "utf-8")
        title = re.search(r"^# (.+)$", text, re.MULTILINE)[1]
        lines.append(f"- [{title}]({page}.md): {first_sentence(text)}")
        whole.append(text)
    (html / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")
    (html / "llms-full.txt").write_text("\n\n".join(whole), "utf-8")
    shutil.copyfile(html / "README.html", html / "index.html")
