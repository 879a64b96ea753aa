"""The site: what README and guide link is there, and every public name has its entry."""

import ast
import fcntl
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from importlib import import_module
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import pytest
from attrs import frozen

import income_client
from income_client.errors import SaturatedWindowError
from tests.slow.browser import Browser
from tests.support.pages import EXAMPLES, GUIDE, contents
from tests.support.processes import ROOT
from tests.test_docstrings import PACKAGES, SUBJECTS

_ID: Final = re.compile(r'\bid="([^"]+)"')
_LINK: Final = re.compile(r'<a\b[^>]*?\bhref="([^"]*)"')
_LOADED: Final = re.compile(r'<(?:script|img|link|iframe|source)\b[^>]*?\b(?:src|href)="([^"]*)"')


@frozen
class Links:
    """Links of a page, files that it loads, and its anchors."""

    hrefs: frozenset[str]
    loads: frozenset[str]
    ids: frozenset[str]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build it as contributors do, once for all workers; a warning is an error."""
    pytest.importorskip("furo", reason="building the site needs the extra 'site'")
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "site"
    with Path(f"{folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            command = [sys.executable, str(ROOT / ".site"), str(folder)]
            built = subprocess.run(command, capture_output=True, text=True, check=False)
            assert (built.returncode, built.stderr) == (0, "")
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Links]:
    """Read all pages."""
    found = {}
    for path in site.rglob("*.html"):
        text = path.read_text("utf-8")
        found[path] = Links(
            *(frozenset(map(unescape, one.findall(text))) for one in (_LINK, _LOADED, _ID))
        )
    assert len(found) > 100
    return found


def _names() -> Iterator[str]:
    """Name all that is public: by ``__all__``, in a docstring's rules, or in code of the guide.

    What ``income_client`` offers too is named there only.
    """
    for package in PACKAGES:
        for name in getattr(import_module(package), "__all__", ()):
            home = "income_client" if name in income_client.__all__ else package
            yield f"{home}.{name}"
    for subject in SUBJECTS:
        if subject.owner is None or subject.name.rpartition(".")[2] in vars(subject.owner):
            yield subject.name
    programs = [path.read_text("utf-8") for path in EXAMPLES.glob("*.py")]
    for text in (*programs, *contents("python")):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("income_client"):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_every_public_name_has_its_entry(pages: dict[Path, Links]) -> None:
    """Classes have an entry for each of their own methods and properties, too."""
    entries = {
        name for path, page in pages.items() if "reference" in path.parts for name in page.ids
    }
    assert set(_names()) - entries == set()


def test_every_link_leads_somewhere_and_nothing_is_loaded_from_elsewhere(
    site: Path, pages: dict[Path, Links]
) -> None:
    """Pages, places in them and sources; styles, scripts and pictures lie beside the pages."""
    broken = []
    for path, page in pages.items():
        for address in (*page.hrefs, *page.loads):
            parts = urlsplit(address)
            if parts.scheme == "https" and address not in page.loads:
                continue  # a source of another project
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[target].ids if target in pages else set()
            is_there = target.is_file() and (
                not parts.fragment or unquote(parts.fragment) in anchors
            )
            if parts.scheme or not is_there:
                broken.append((str(path.relative_to(site)), address))
    assert broken == []
    styles = " ".join(path.read_text("utf-8") for path in site.rglob("*.css"))
    assert re.findall(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//[^)]*", styles) == []
    texts = (path for path in site.rglob("*") if path.suffix in {".html", ".md", ".txt", ".js"})
    assert [path for path in texts if str(ROOT) in path.read_text("utf-8")] == []


def test_names_in_the_guide_are_linked(site: Path) -> None:
    """A method of a variable, and a class."""
    for page, name, entry in (
        ("polling", "poller.wake", "polling.html#income_client.Poller.wake"),
        ("reading", "DecodeError", "errors.html#income_client.DecodeError"),
    ):
        html = (site / f"income_client/guide/{page}.html").read_text("utf-8")
        plain = re.sub(r"</?span[^>]*>", "", html)
        assert re.search(
            rf'href="\.\./\.\./reference/{entry}[^>]*><code[^>]*>{re.escape(name)}', plain
        )


def test_sections_of_the_contract_are_linked(site: Path) -> None:
    """A sentence may name several sections."""
    html = (site / "reference" / "client.html").read_text("utf-8")
    page = "../income_client/guide/contract.html"
    links = (
        f'<a class="reference internal" href="{page}#{place}">{number}</a>'
        for number, place in (("4.2", "read-an-application"), ("4.3", "read-documents"))
    )
    assert f"contract sections {' and '.join(links)}" in html


def test_each_page_is_there_as_markdown(site: Path) -> None:
    """Pages of the guide are unchanged, pages of names have signatures, and all are listed."""
    for page in GUIDE.glob("*.md"):
        assert (site / "income_client" / "guide" / page.name).read_bytes() == page.read_bytes()
    listed = re.findall(r"\]\(([^)]+)\): \S", (site / "llms.txt").read_text("utf-8"))
    whole = (site / "llms-full.txt").read_text("utf-8")
    assert len(listed) == len(set(listed)) > 40
    for page in listed:
        assert (site / page).with_suffix(".html").exists()
        assert (site / page).read_text("utf-8") in whole
    client = (site / "reference" / "client.md").read_text("utf-8")
    assert client.count(" download_all(") == 2, "an overload is missing"


def test_a_browser_shows_and_searches_it(site: Path, opened: Browser) -> None:
    """On a telephone and a screen, by day and by night, without a web server."""
    own = site.as_uri()
    for page in ("index", "reference/client", "income_client/guide/internals"):
        for width, scheme in ((390, "light"), (1300, "dark")):
            seen = opened.look(site / f"{page}.html", width=width, scheme=scheme)
            assert opened.evaluate("document.documentElement.scrollWidth") <= width
            assert seen.complaints == ()
            assert [one for one in seen.requests if not one.startswith((own, "data:"))] == []
    opened.open(f"{own}/search.html?q=SaturatedWindowError")
    opened.wait_until("document.querySelector('#search-results li a')")
    found = opened.evaluate("document.querySelector('#search-results li a').innerText")
    assert found == f"income_client.{SaturatedWindowError.__name__}"
