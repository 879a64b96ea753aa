"""The width of the next window: a hint that stays within its limits whatever was learned."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from income_client.records.applications import ApplicationSummary
from income_client.records.window import EPOCH, Window
from income_client.walk.density import FILL, Density

LIMIT = 1000
FUTURE = EPOCH + timedelta(days=200 * 365)


def rows(
    count: int, prefix: str = "a", *, dated: datetime = FUTURE
) -> Mapping[str, ApplicationSummary]:
    """Return this many rows; the usual date carries no information."""
    ids = [f"{prefix}{n}" for n in range(count)]
    return {
        key: ApplicationSummary(
            application_id=key, application_reference_id=key, application_date=dated
        )
        for key in ids
    }


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(1, 10**6), st.integers(0, 60), st.booleans()),
        max_size=20,
    )
)
def test_a_width_is_never_below_one_second_nor_beyond_the_end(
    story: list[tuple[bool, int, int, bool]],
) -> None:
    """Whatever was learned, in whichever order."""
    density, position, end = Density(60), 0, 10**7
    for is_full, drawn, found, is_divided in story:
        width = min(drawn, end - position - 1)
        if width < 1:
            break
        window = Window(position, position + width)
        date = EPOCH + timedelta(seconds=position + found * 1000)
        if is_full:
            density.full(window, rows(60, dated=date))
        else:
            density.complete(window, rows(found, str(position), dated=date))
            position += width
        if is_divided and end - position > 2:
            cut = (position + end) // 2
            density.divide(position, cut, end)
            end = cut
        assert 1 <= density.width(position, end) <= end - position
        assert density.pages(position, end) >= 0


def test_without_knowledge_the_whole_gap_is_asked_for() -> None:
    """Most spans are small."""
    assert Density(LIMIT).width(0, 10**6) == 10**6


def test_an_even_density_fills_pages_to_the_aim() -> None:
    """Ten rows a second make windows of some eighty-five seconds."""
    density = Density(LIMIT)
    density.width(0, 10**6)
    density.complete(Window(0, 50), rows(500))
    assert density.width(50, 10**6) == int(FILL * 999 / 10)


def test_windows_grow_by_eight_at_the_most() -> None:
    """A gap in the data does not make the walk request a whole year."""
    density = Density(LIMIT)
    density.width(0, 10**9)
    density.complete(Window(0, 100), rows(1))
    assert density.width(100, 10**9) == 800
    density.complete(Window(100, 200), rows(0))
    assert density.width(200, 10**9) == 800


def test_the_halves_of_a_part_expect_together_what_it_did() -> None:
    """Dividing it says nothing about its rows."""
    density = Density(LIMIT)
    density.full(Window(0, 1000), rows(1000))
    whole = density.pages(0, 1000)
    density.divide(0, 400, 1000)
    assert round(density.pages(0, 400) + density.pages(400, 1000), 6) == round(whole, 6)
