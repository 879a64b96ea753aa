"""The width of the next window: a hint that stays within its limits whatever was learned."""

from hypothesis import given
from hypothesis import strategies as st

from income_client.walk.planner import FILL, Density

LIMIT = 1000


def ids(count: int, prefix: str = "a") -> frozenset[str]:
    """Return so many ids."""
    return frozenset(f"{prefix}{n}" for n in range(count))


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
    for is_full, drawn, rows, is_forked in story:
        width = min(drawn, end - position - 1)
        if width < 1:
            break
        if is_full:
            density.overfull(position, width, ids(60))
        else:
            density.completed(position, width, ids(rows, str(position)))
            position += width
        if is_forked and end - position > 2:
            end = (position + end) // 2
            density.fork(position, end)
        assert 1 <= density.width(position, end) <= end - position
        assert density.pages(position, end) >= 0


def test_without_knowledge_the_whole_gap_is_asked_for() -> None:
    """Most spans are small."""
    assert Density(LIMIT).width(0, 10**6) == 10**6


def test_an_even_density_fills_pages_to_the_aim() -> None:
    """Ten rows a second make windows of some eighty-five seconds."""
    density = Density(LIMIT)
    density.completed(0, 50, ids(500))
    assert density.width(50, 10**6) == int(FILL * 999 / 10)


def test_windows_grow_by_four_at_the_most_and_by_sixteen_over_silence() -> None:
    """A gap in the data is no reason to ask for a year."""
    density = Density(LIMIT)
    density.completed(0, 100, ids(1))
    assert density.width(100, 10**9) == 400
    density.completed(100, 100, frozenset())
    assert density.width(200, 10**9) == 1600


def test_a_short_rest_is_divided_evenly() -> None:
    """Two windows of half the rest need no third for what would be left over."""
    density = Density(LIMIT)
    density.completed(0, 100, ids(1000 - 1))
    wanted = density.width(100, 10**6)
    assert density.width(100, 100 + wanted + wanted // 2) in {
        (wanted + wanted // 2) // 2,
        (wanted + wanted // 2 + 1) // 2,
    }


def test_the_share_of_known_ids_tells_how_much_a_full_page_hid() -> None:
    """When a tenth of the page turned up among 500 rows, some 4500 are left."""
    density = Density(LIMIT)
    density.overfull(0, 1000, ids(1000))
    density.completed(0, 100, ids(100) | ids(400, "b"))
    (page,) = density.full_pages
    assert page.estimate(blind=False) == 4500


def test_a_page_of_the_oldest_rows_says_nothing_by_its_share() -> None:
    """Where every row was on the page already, at least what it must still hold is expected."""
    density = Density(LIMIT)
    density.overfull(0, 1000, ids(1000))
    density.completed(0, 100, ids(500))
    (page,) = density.full_pages
    assert page.estimate(blind=False) == 1000


def test_a_fork_shares_out_what_is_expected() -> None:
    """Both halves together expect as much as the whole did."""
    density = Density(LIMIT)
    density.overfull(0, 1000, ids(1000))
    whole = density.pages(0, 1000)
    beyond = density.fork(0, 400)
    assert round(density.pages(0, 400) + beyond.pages(400, 1000), 6) == round(whole, 6)
