"""The page of an application in a browser, opened and looked at."""

import io
import zlib
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Final

import pytest

from income_client.cli.looking.page import page
from income_client.cli.looking.reading import view_of
from tests.cli.application_records import CASES, suspicious, twelve_years
from tests.cli.browser import EXECUTABLE, Browser, Page, browser

pytestmark = pytest.mark.skipif(
    EXECUTABLE is None, reason="no Chromium or Chrome on PATH to look at pages with"
)

_WIDTHS: Final = (400, 1200)
_SCHEMES: Final = ("light", "dark")
_PNG_HEADER: Final = 8


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Run one browser for all tests."""
    with browser(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shows_all", [False, True], ids=["masked", "shown"])
def test_every_page_is_quiet_and_fits(
    name: str,
    shows_all: bool,
    opened: Browser,
    tmp_path: Path,
) -> None:
    """It asks for nothing, complains of nothing, and nothing is cut or reaches over an edge."""
    path = tmp_path / "page.html"
    path.write_bytes(page(view_of(CASES[name](), show_personal_data=shows_all)))
    for width, scheme in product(_WIDTHS, _SCHEMES):
        seen = opened.look(path, width=width, scheme=scheme)
        assert seen.requests == (path.as_uri(),)
        assert seen.complaints == ()
        assert seen.content_width <= width
        assert (seen.cut, seen.outside) == ((), ())
        assert len(unlike_rows_in(seen)) > 20, "the picture is blank"


def test_what_matters_is_to_be_seen(opened: Browser, tmp_path: Path) -> None:
    """Amounts, sources, documents and doubts are visible text, on a narrow screen too."""
    path = tmp_path / "page.html"
    path.write_bytes(page(view_of(suspicious(), show_personal_data=True)))
    for width in _WIDTHS:
        text = opened.look(path, width=width).text
        for told in (
            "Application app-1", "Ada Sample", "000-11-2222", "41,234.50", "self employment",
            "doc-nowhere (missing)", "D2 paystub, suspected", "suspected fraudulent",
            "2026-03-01 \u2013 2026-03-14",
        ):  # fmt: skip
            assert told in text


def test_light_and_dark_differ(opened: Browser, tmp_path: Path) -> None:
    """The page follows the reader's choice: white paper by day, dark by night."""
    path = tmp_path / "page.html"
    path.write_bytes(page(view_of(suspicious())))
    light = opened.look(path, width=1200, scheme="light")
    dark = opened.look(path, width=1200, scheme="dark")
    assert min(corner_of(light)) > 200
    assert max(corner_of(dark)) < 60


def test_it_prints(opened: Browser, tmp_path: Path) -> None:
    """On paper twelve years take a few sheets of A4."""
    path = tmp_path / "page.html"
    path.write_bytes(page(view_of(twelve_years())))
    opened.look(path, width=1200)
    paper = opened.paper()
    assert paper.startswith(b"%PDF-")
    assert 1 <= paper.count(b"/Type /Page\n") <= 6


def test_a_policy_holds_where_the_page_would_not(opened: Browser, tmp_path: Path) -> None:
    """Were there a script or a picture from outside, the browser would refuse it, and say so."""
    path = tmp_path / "page.html"
    evil = b"<script>document.body.innerText = 'owned'</script><img src='http://127.0.0.1:9/x'>"
    path.write_bytes(page(view_of(suspicious())).replace(b"</body>", evil + b"</body>"))
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
