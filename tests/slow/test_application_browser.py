"""The page of an application in a browser, opened and looked at."""

import re
from pathlib import Path
from typing import Final

import pytest

from income_client.testing import IncomeService
from tests.support.application_payloads import CASES, SHOW_ALL, Look, suspicious, twelve_years
from tests.support.browser import Browser
from tests.support.cli import Cli

_WIDTHS: Final = (400, 1200)


@pytest.fixture
def look(tmp_path: Path, income_service: IncomeService) -> Look:
    """Writes pages of applications that a test has made up."""
    return Look(Cli(tmp_path, income_service))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("arguments", [(), (SHOW_ALL,)], ids=["masked", "shown"])
def test_every_page_is_quiet_and_fits(
    name: str,
    arguments: tuple[str, ...],
    opened: Browser,
    look: Look,
    tmp_path: Path,
) -> None:
    """It asks for nothing, complains of nothing, and nothing is cut or reaches over an edge."""
    look.page(CASES[name](), *arguments)
    path = tmp_path / "page.html"
    for width in _WIDTHS:
        seen = opened.look(path, width=width)
        assert seen.requests == (path.as_uri(),)
        assert (seen.complaints, seen.cut, seen.outside) == ((), (), ())


def test_what_matters_is_to_be_seen(opened: Browser, look: Look, tmp_path: Path) -> None:
    """Amounts, sources, documents and doubts are visible text, on a narrow screen too."""
    look.page(suspicious(), SHOW_ALL)
    path = tmp_path / "page.html"
    for width in _WIDTHS:
        text = opened.look(path, width=width).text
        for words in (
            "Application app-1", "Ada Sample", "000-11-2222", "41,234.50", "self employment",
            "doc-nowhere (missing)", "D2 paystub, suspected", "suspected fraudulent",
            "2026-03-01 to 2026-03-14",
        ):  # fmt: skip
            assert words in text


def test_light_and_dark_differ(opened: Browser, look: Look, tmp_path: Path) -> None:
    """The page follows the reader's choice: white paper by day, dark by night."""
    look.page(suspicious())
    path = tmp_path / "page.html"
    light, dark = (
        opened.look(path, width=1200, scheme=scheme).background for scheme in ("light", "dark")
    )
    assert min(map(int, re.findall(r"\d+", light))) > 200
    assert max(map(int, re.findall(r"\d+", dark))) < 60


def test_it_prints(opened: Browser, look: Look, tmp_path: Path) -> None:
    """On paper twelve years take a few sheets of A4."""
    look.page(twelve_years())
    path = tmp_path / "page.html"
    opened.look(path, width=1200)
    paper = opened.paper()
    assert paper.startswith(b"%PDF-")
    assert 1 <= paper.count(b"/Type /Page\n") <= 6


def test_a_policy_holds_where_the_page_would_not(
    opened: Browser, look: Look, tmp_path: Path
) -> None:
    """Were there a script or a picture from outside, the browser would refuse it, and say so."""
    path = tmp_path / "page.html"
    evil = "<script>document.body.innerText = 'owned'</script><img src='http://127.0.0.1:9/x'>"
    path.write_text(look.page(suspicious()).replace("</body>", f"{evil}</body>"), "utf-8")
    seen = opened.look(path, width=1200)
    assert "owned" not in seen.text
    assert len(seen.complaints) == 2
    assert all("Content Security Policy" in each for each in seen.complaints)
