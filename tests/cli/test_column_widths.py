"""Columns that fit: what gives way first, and where a text is broken."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from income_client.cli.output.column_widths import GAP, folded, padded, widths

CELLS = (("id", "a long heading", "when"), ("app-1", "x" * 60, "2026-01-31"))
NONE = (False, False, False)


def plain(most: int | None) -> tuple[int, ...]:
    """Return the widths where no column is special."""
    return widths(CELLS, most, optional=NONE, prose=NONE)


def leaving_out(most: int, *columns: int) -> tuple[int, ...]:
    """Return the widths where some columns may be left out."""
    optional = [number in columns for number in range(3)]
    return widths(CELLS, most, optional=optional, prose=NONE)


def test_where_there_is_room_nothing_is_narrow() -> None:
    """Each column is as wide as its widest text."""
    assert plain(None) == (5, 60, 10)
    assert plain(80) == (5, 60, 10)


def test_the_widest_gives_way_first() -> None:
    """Ids and times stay whole for as long as they can."""
    assert plain(40) == (5, 21, 10)


def test_an_optional_column_goes_before_anything_is_broken() -> None:
    """The last of them goes first, and no more than are needed."""
    assert leaving_out(70, 2) == (5, 60, 0)
    assert leaving_out(62, 0, 2) == (0, 60, 0)
    assert leaving_out(80, 0, 2) == (5, 60, 10)


def test_prose_is_narrow_before_anything_else() -> None:
    """A reason is broken before an id is, although that is wider."""
    cells = (("id", "reason"), ("x" * 30, "y" * 28))
    assert widths(cells, 50, optional=NONE[:2], prose=(False, True)) == (30, 18)
    assert widths(cells, 40, optional=NONE[:2], prose=(False, True)) == (22, 16)


def test_a_time_is_broken_before_an_id() -> None:
    """Between a day and its hour there is room for a line's end, within an id there is none."""
    cells = (("id", "when"), ("x" * 30, "2026-01-31 12:00:00"))
    assert widths(cells, 42, optional=NONE[:2], prose=NONE[:2]) == (30, 10)


@given(
    st.lists(st.lists(st.text(max_size=40), min_size=3, max_size=3), min_size=1),
    st.integers(min_value=25, max_value=120),
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.lists(st.booleans(), min_size=3, max_size=3),
)
def test_a_row_fits(
    cells: list[list[str]], most: int, optional: list[bool], prose: list[bool]
) -> None:
    """However wide the texts are, columns and gaps together never pass the terminal's edge."""
    found = [width for width in widths(cells, most, optional=optional, prose=prose) if width]
    assert sum(found) + GAP * (len(found) - 1) <= most


@given(st.text(st.characters(categories=["L", "N", "P", "Zs"])), st.integers(2, 30))
def test_nothing_of_a_text_is_lost(text: str, width: int) -> None:
    """Wide characters count double; whatever the width, all but spaces is there, in order."""
    lines = folded(text, width)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())
    if cell_len(text) <= width:
        assert lines == [text]


def test_a_text_is_broken_between_words() -> None:
    """Only a word that is wider than its column is broken within."""
    assert folded("404 Not Found: app-123456789", 9) == ["404 Not", "Found:", "app-12345", "6789"]


@given(st.text(st.characters(categories=["L", "N", "P"])), st.integers(1, 30), st.booleans())
def test_a_text_has_its_width(text: str, width: int, right: bool) -> None:
    """It stands at one side, and is whole."""
    found = padded(text, width, right=right)
    assert cell_len(found) == max(width, cell_len(text))
    assert (found.endswith if right else found.startswith)(text)
