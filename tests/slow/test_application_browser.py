"""The page of an application in a browser, opened and looked at."""

import io
import zlib
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Final

import pytest

from income_client.testing import IncomeService
from tests.support.application_payloads import CASES, SHOW_ALL, Look, suspicious, twelve_years
from tests.support.browser import EXECUTABLE, Browser, Page, browser
from tests.support.cli import Cli

pytestmark = pytest.mark.skipif(
    EXECUTABLE is None, reason="no browser; Debian has one: apt-get install chromium"
)

_WIDTHS: Final = (400, 1200)
_SCHEMES: Final = ("light", "dark")
_PNG_HEADER: Final = 8


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Run one browser for all tests."""
    with browser(tmp_path_factory.mktemp("profile")) as running:
        yield running


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
    for width, scheme in product(_WIDTHS, _SCHEMES):
        seen = opened.look(path, width=width, scheme=scheme)
        assert seen.requests == (path.as_uri(),)
        assert seen.complaints == ()
        assert seen.content_width <= width
        assert (seen.cut, seen.outside) == ((), ())
        assert len(unlike_rows_in(seen)) > 20, "the picture is blank"


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
    light = opened.look(path, width=1200, scheme="light")
    dark = opened.look(path, width=1200, scheme="dark")
    assert min(corner_of(light)) > 200
    assert max(corner_of(dark)) < 60


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


def rows_of(seen: Page) -> Iterator[bytes]:
    """Yield the lines of a picture as they are packed: unequal lines are unequal bytes."""
    stream = io.BytesIO(seen.picture)
    assert stream.read(_PNG_HEADER) == b"\x89PNG\r\n\x1a\n"
    packed, width, depth = b"", 0, 0
    while header := stream.read(8):
        length, kind = int.from_bytes(header[:4]), header[4:]
        content = stream.read(length)
        stream.read(4)
        if kind == b"IHDR":
            width = int.from_bytes(content[:4])
            depth = {2: 3, 6: 4}[content[9]]
        elif kind == b"IDAT":
            packed += content
    flat = zlib.decompress(packed)
    for start in range(0, len(flat), width * depth + 1):
        yield flat[start : start + width * depth + 1]


def unlike_rows_in(seen: Page) -> set[bytes]:
    """Return the lines of a picture that differ."""
    return set(rows_of(seen))


def corner_of(seen: Page) -> bytes:
    """Return the colour of the first pixel, which is paper."""
    return next(rows_of(seen))[1:4]
