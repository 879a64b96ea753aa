"""The pictures of the README: drawn from what the command shows, and not from what it once did."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.pictures.scenes import FOLDER, SCENES, shape_of
from tests.pictures.terminal_picture import picture_of, screen_of

_SVG = "{http://www.w3.org/2000/svg}"


def described(svg: str) -> str:
    """Return the text that a picture holds for those who do not see it."""
    found = ET.fromstring(svg).findtext(f"{_SVG}desc")
    assert found
    return found


@pytest.mark.parametrize("name", SCENES)
def test_a_picture_shows_what_is_shown(name: str, tmp_path: Path) -> None:
    """Drawn anew, a picture has the words of the one that is kept; figures may differ.

    Where the command shows something else by now: ``python -m tests.pictures.scenes``.
    """
    kept = (FOLDER / f"{name}.svg").read_text("utf-8")
    scene = SCENES[name](tmp_path)
    drawn = scene.picture(name)
    assert "Traceback" not in scene.shown
    if name == "doctor":
        # What it finds of latency and such hangs on the machine; what it looks at does not.
        assert checks_in(described(drawn)) == checks_in(described(kept))
    else:
        assert shape_of(described(drawn)) == shape_of(described(kept))


@pytest.mark.parametrize("name", [path.stem for path in FOLDER.glob("*.svg")])
def test_a_kept_picture_is_harmless(name: str) -> None:
    """It asks no other host, runs nothing, and shows no secret and no place on a machine."""
    svg = (FOLDER / f"{name}.svg").read_text("utf-8")
    assert name in SCENES
    assert set(re.findall(r"https?://(?!127\.0\.0\.1)[^\"'<> ]+", svg)) == {
        "http://www.w3.org/2000/svg"
    }
    assert not re.search(r"<script|<image|@import|@font-face|href|/tmp/|/home/|/root/", svg)
    assert "client_secret" not in svg
    assert len(svg) < 200_000


def test_the_last_word_counts() -> None:
    """What was drawn over is gone, as on a terminal; colours and faint letters stay."""
    shown = (
        "one\x1b[K\r\x1b[2Ktwo\r\n\x1b[2mfaint\x1b[0m \x1b[1;31mred\x1b[0m\r\nx\r\n\x1b[1A\x1b[J"
    )
    screen = screen_of(shown, 20)
    assert screen.plain == "two\nfaint red"
    svg = picture_of(screen, 20, name="x", title="<title>")
    assert described(svg) == "two\nfaint red"
    assert "&lt;title&gt;" in svg


def test_figures_are_no_part_of_a_shape() -> None:
    """Amounts, times and bars may differ, and so may the ends of lines; words may not."""
    assert shape_of("2025  ██▌   1,234.56  so far\n") == shape_of("2026 ████ 98.70 so\nfar")
    assert shape_of("12 records") != shape_of("12 documents")


def checks_in(text: str) -> list[str]:
    """Return what ``doctor`` has looked at, one thing a line."""
    return re.findall(
        r"^([A-Za-z][\w -]*?)  +(?:ok|note|warning|failed|skipped)\b", text, re.MULTILINE
    )
