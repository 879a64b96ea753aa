"""How Sphinx builds the site: run by ``python .site``."""

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from pages import GUIDE
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.parsers import Parser
from sphinx.util.nodes import make_refnode

import income_client

project = "income-client"
release = version = income_client.__version__
root_doc = "README"
language = "en"
html_theme = "furo"
html_title = f"income-client {release}"
html_copy_source = False
html_show_sphinx = html_show_copyright = False
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx_markdown_builder",
]
source_suffix = {".rst": "restructuredtext", ".md": "markdown", ".py": "python"}
default_role = "code"
myst_heading_anchors = 6
autodoc_class_signature = "mixed"
autodoc_default_options = {"members": True}
toc_object_entries_show_parents = "hide"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
maximum_signature_line_length = 80

suppress_warnings = ["misc.highlighting_failure"]  # a part of a file of nginx

_STYLE = Config(napoleon_use_ivar=True, napoleon_use_rtype=False)
_CALL = re.compile(r"(?:await )?(?P<name>[A-Za-z_][\w.]*)(?:\(.*\))?")
_BACK = re.compile(r'<a class="viewcode-back" href="[^"]*#(?P<name>[^"]*)">.*?</a>')
_CONTRACT = "income_client/guide/contract"
_CITATION = re.compile(r"contract\s+sections?\s+\d(?:\.\d)?(?:(?:,|\s+and|\s+to)\s+\d(?:\.\d)?)*")
_VARIABLES = {
    "IncomeClient": ["client"],
    "SyncIncomeClient": [],
    "ApplicationRecord": ["record"],
    "CallbackReceiver": ["receiver"],
}
"""What examples call an object, where it is not its class in lower case."""


class PythonParser(Parser):
    """Shows a test as it is: the README links those of its guarantees."""

    supported = ("python",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Make one block of it, on a page that is in no table of contents."""
        name = Path(document["source"]).name
        orphan = nodes.field("", nodes.field_name("", "orphan"), nodes.field_body())
        section = nodes.section("", nodes.title(name, name), ids=["source"], names=["source"])
        section += nodes.literal_block(inputstring, inputstring, language="python")
        document += [nodes.docinfo("", orphan), section]


def complete_contents(app: Sphinx, docname: str, text: list[str]) -> None:
    """Begin the tree of pages at the README, and leave those of tests out of it."""
    if docname == "README":
        pages = (*GUIDE, "reference/index", "CHANGELOG", "benchmarks/results", ".github/SECURITY")
        text[0] += "\n".join(("\n```{toctree}", ":hidden:", *pages, "```\n"))


def read_docstring(
    app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]
) -> None:
    """Read sections of Google's style, but in lines of fields, which may begin with any words."""
    if what not in {"attribute", "property"}:
        lines[:] = GoogleDocstring(lines, _STYLE, app, what, name, value, options).lines()


def simplify_sources(
    app: Sphinx, page: str, template: str, context: dict[str, Any], tree: nodes.Node | None
) -> None:
    """Show no table of all pages beside sources, which takes longer than the rest of a page.

    ``viewcode`` takes all names of a file to be offered by one package: other links back go.
    """
    if page.startswith(("_modules/", "tests/")):
        context["toctree"] = lambda **_options: ""
        known = app.env.domains.python_domain.objects
        context["body"] = _BACK.sub(
            lambda link: link[0] if link["name"] in known else "", context["body"]
        )


def show_factories(
    app: Sphinx, what: str, name: str, value: Any, options: Any, signature: str, returned: str
) -> tuple[str, str] | None:
    """Show that a default is made for each object, which attrs calls NOTHING."""
    return (signature.replace("NOTHING", "..."), returned) if signature else None


class Entries:
    """Finds the entry that is meant by a name in code, or by a type in a signature."""

    def __init__(self, app: Sphinx) -> None:
        self._app = app
        self._known: dict[str, tuple[str, str, str]] = {}

    def _collect(self) -> None:
        """Know the short names of all entries, those of ``income_client`` before others."""
        found = self._app.env.domains.python_domain.objects
        for name in sorted(found, key=lambda one: (one.count("."), one)):
            entry = found[name]
            place = (name, entry.docname, entry.node_id)
            short = re.sub(r"^income_client\.(?:[a-z_]+\.)*", "", name)
            self._known.setdefault(name, place)
            self._known.setdefault(short, place)
            owner, _, member = short.partition(".")
            for variable in _VARIABLES.get(owner, [owner.lower()]) if member else []:
                self._known.setdefault(f"{variable}.{member}", place)
            # Without an owner some would be words of the command line: `poll`.
            if owner == "IncomeClient" and "_" in member:
                self._known.setdefault(member, place)

    def link(self, text: str, page: str, content: nodes.Node) -> nodes.reference | None:
        """Return a link to the entry of a name, if it has one."""
        if not self._known:
            self._collect()
        if (found := self._known.get(text)) is None:
            return None
        name, docname, anchor = found
        return make_refnode(self._app.builder, page, docname, anchor, [content], name)

    def of_type(
        self, app: Sphinx, environment: BuildEnvironment, node: nodes.Element, content: nodes.Node
    ) -> nodes.Node | None:
        """Link a type by its last name; it is defined elsewhere than where it is offered."""
        if node.get("refdomain") != "py":
            return None
        short = node["reftarget"].rpartition(".")[2]
        return self.link(short, node["refdoc"], content) or content

    def of_code(self, app: Sphinx, page: nodes.document, docname: str) -> None:
        """Link each name in code, ``IncomeClient.poll(store)`` too, but not in headings."""
        for literal in list(page.findall(nodes.literal)):
            call = _CALL.fullmatch(literal.astext())
            if call is None or _is_within(literal, nodes.reference, nodes.title):
                continue
            if link := self.link(call["name"], docname, literal.deepcopy()):
                literal.replace_self(link)


def link_sections(app: Sphinx, page: nodes.document, docname: str) -> None:
    """Link each number in "contract sections 4.2 and 4.3" to that section of the guide's page."""
    if docname == _CONTRACT:
        return
    places = {
        entry.astext().partition(". ")[0]: entry["anchorname"].removeprefix("#")
        for entry in app.env.tocs[_CONTRACT].findall(nodes.reference)
    }
    for text in list(page.findall(nodes.Text)):
        citations = [one.span() for one in _CITATION.finditer(text)]
        if not citations or _is_within(text, nodes.reference, nodes.title):
            continue
        parts, end = [], 0
        for number in re.finditer(r"\d(?:\.\d)?", text):
            is_cited = any(start <= number.start() < stop for start, stop in citations)
            if is_cited and (place := places.get(number[0])):
                content = nodes.Text(number[0])
                link = make_refnode(app.builder, docname, _CONTRACT, place, content)
                parts += [nodes.Text(text[end : number.start()]), link]
                end = number.end()
        text.parent.replace(text, [*parts, nodes.Text(text[end:])])


def _is_within(node: nodes.Node | None, *kinds: type[nodes.Node]) -> bool:
    while (node := node.parent if node else None) is not None:
        if isinstance(node, kinds):
            return True
    return False


def _as_text(_translator: object, _node: nodes.Node) -> None:
    """Leave only the text of a node."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect what is done to the pages."""
    app.add_source_parser(PythonParser)
    # The stars and slashes of signatures, which the Markdown builder does not know.
    app.add_node(nodes.abbreviation, override=True, markdown=(_as_text, _as_text))
    app.connect("html-page-context", simplify_sources, priority=1)  # before the theme asks
    entries = Entries(app)
    app.connect("source-read", complete_contents)
    app.connect("autodoc-process-signature", show_factories)
    app.connect("autodoc-process-docstring", read_docstring)
    app.connect("missing-reference", entries.of_type)
    app.connect("doctree-resolved", entries.of_code)
    app.connect("doctree-resolved", link_sections)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
