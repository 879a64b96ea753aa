"""Bounds, windows and pages as values: which seconds they share, second by second."""

from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from income_client.records.window import Window
from income_client.walk.windows import Answer, Bounds, Overlap, SpanLimit
from tests.support.walks import page_of

SECONDS = st.integers(0, 12)


def between(first: int, second: int) -> Window:
    return Window(min(first, second), max(first, second))


WINDOWS = st.builds(between, SECONDS, SECONDS)
BOUNDS = st.builds(Bounds, SECONDS, st.none() | SECONDS)


def seconds_in(window: Window) -> set[int]:
    return set(range(window.after, window.before))


def certain_seconds(bounds: Bounds) -> set[int]:
    """Return the seconds that a page for these bounds shows, whatever the bounds mean."""
    assert bounds.before is not None
    return set(range(bounds.after + 1, bounds.before))


def possible_seconds(bounds: Bounds) -> set[int]:
    """Return the seconds that it may show: with both bounds inclusive, and in either order."""
    before = bounds.after if bounds.before is None else bounds.before
    return set(range(min(bounds.after, before), max(bounds.after, before) + 1))


@pytest.mark.parametrize(
    ("window", "overlaps", "touches"),
    [
        (Window(1, 2), False, False),
        (Window(1, 3), False, True),
        (Window(1, 4), True, True),
        (Window(3, 6), True, True),
        (Window(4, 5), True, True),
        (Window(5, 8), True, True),
        (Window(6, 8), False, True),
        (Window(7, 8), False, False),
    ],
)
def test_windows_that_meet_touch_and_overlap_only_in_a_common_second(
    window: Window, overlaps: bool, touches: bool
) -> None:
    other = Window(3, 6)
    assert (window.overlaps(other), window.touches(other)) == (overlaps, touches)
    assert (other.overlaps(window), other.touches(window)) == (overlaps, touches)


@pytest.mark.parametrize(
    ("second", "contains"), [(2, False), (3, True), (5, True), (6, False), (7, False)]
)
def test_a_window_contains_its_first_second_and_not_its_end(second: int, contains: bool) -> None:
    assert Window(3, 6).contains(second) == contains


@given(BOUNDS)
def test_a_page_shows_rows_between_its_bounds_and_of_both(bounds: Bounds) -> None:
    assert seconds_in(bounds.seconds) == possible_seconds(bounds)


@given(WINDOWS, WINDOWS)
@example(Window(3, 5), Window(3, 5))
@example(Window(3, 5), Window(3, 6))
@example(Window(3, 5), Window(2, 5))
def test_bounds_hold_others_whose_pages_show_nothing_else(outer: Window, inner: Window) -> None:
    around, within = Bounds(outer.after, outer.before), Bounds(inner.after, inner.before)
    assert around.hold(within) == (possible_seconds(within) <= possible_seconds(around))


@pytest.mark.parametrize(
    ("outer", "inner", "holds"),
    [
        (Bounds(3, None), Bounds(3, 9), True),
        (Bounds(3, None), Bounds(2, 9), False),
        (Bounds(3, 5), Bounds(3, None), True),
        (Bounds(3, 5), Bounds(2, None), False),
    ],
)
def test_a_bound_that_the_service_fills_in_is_never_too_far(
    outer: Bounds, inner: Bounds, *, holds: bool
) -> None:
    assert outer.hold(inner) == holds


@given(BOUNDS, WINDOWS.filter(bool))
def test_a_window_is_asked_for_with_a_second_more_where_there_is_one(
    outer: Bounds, window: Window
) -> None:
    """The page then shows every second of the window, whatever the bounds mean.

    Only the outer bounds themselves are never exceeded: what they mean is the caller's question.
    """
    asked = outer.around(window)
    assert asked.before is not None
    assert asked.after >= outer.after
    assert outer.before is None or asked.before <= outer.before
    if outer.after < window.after and (outer.before is None or window.before <= outer.before):
        assert certain_seconds(asked) == seconds_in(window)
    if outer.before is None or outer.before >= window.before:
        assert asked.before == window.before


PAGES = st.lists(st.tuples(WINDOWS.filter(bool), st.sets(st.sampled_from("abcdef"))), max_size=8)


@given(PAGES)
def test_a_row_is_new_where_no_page_that_shares_a_second_had_it(
    pages: list[tuple[Window, set[str]]],
) -> None:
    """Windows that only touch share no second."""
    overlap = Overlap()
    for number, (window, ids) in enumerate(pages):
        known: set[str] = set()
        for other, earlier in pages[:number]:
            if seconds_in(other) & seconds_in(window):
                known |= earlier
        assert overlap.add_page(window, ids) == ids - known


@given(PAGES, st.lists(WINDOWS.filter(bool), max_size=3))
def test_only_pages_beside_what_is_planned_are_kept(
    pages: list[tuple[Window, set[str]]], windows: list[Window]
) -> None:
    """A page is forgotten where not even the second beside it is in a planned window."""
    planned = sorted(windows)
    planned = [
        window
        for number, window in enumerate(planned)
        if number == 0 or planned[number - 1].before < window.after
    ]
    overlap = Overlap()
    for window, ids in pages:
        overlap.add_page(window, ids)
    overlap.drop_pages(planned)
    kept = [
        (window, ids)
        for window, ids in pages
        if any(
            seconds_in(Window(window.after - 1, window.before + 1)) & seconds_in(one)
            for one in planned
        )
    ]
    everything = Window(-1, 14)
    known = set().union(*(ids for _, ids in kept))
    assert overlap.add_page(everything, set("abcdef")) == set("abcdef") - known


ALL: Final = Bounds(0, 10_000)


@pytest.mark.parametrize(
    ("echoes", "seconds"),
    [
        ([Window(9_000, 10_000), Window(8_000, 9_000)], 1_000),
        ([Window(0, 1_000), Window(1_000, 2_000)], 1_000),
        ([Window(9_000, 10_000)], None),
        ([Window(9_000, 10_000), Window(9_000, 10_000)], None),
        ([Window(9_000, 10_000), Window(9_000, 9_900), Window(9_000, 9_800)], None),
        ([Window(9_000, 10_000), Window(9_500, 10_000), Window(9_700, 10_000)], None),
        ([Window(9_000, 10_000), Window(8_000, 8_999)], None),
        ([Window(100, 103), Window(200, 203)], 3),
        ([Window(100, 102), Window(200, 202)], None),
        ([Window(9_000, 10_000), Window(8_000, 9_000), Window(0, 10_000)], None),
        ([Window(9_000, 10_000), Window(8_000, 9_000), Window(7_000, 7_100)], 1_000),
    ],
)
def test_two_narrowed_echoes_of_one_width_show_the_widest_span(
    echoes: list[Window], seconds: int | None
) -> None:
    """Echoes that end alike are cut by the present, or by the first day that is kept."""
    limit = SpanLimit()
    for echo in echoes:
        limit.learn(ALL, echo)
    assert limit.seconds == seconds


def test_windows_are_cut_to_the_widest_span_and_one_in_sixteen_tries_a_wider_one() -> None:
    """Bounds are one second further apart than the window that they are about."""
    limit = SpanLimit()
    assert (limit.narrow(5_000), limit.windows(0, 5_000)) == (5_000, 0.0)
    for echo in (Window(9_000, 10_000), Window(8_000, 9_000)):
        limit.learn(ALL, echo)
    widths = [limit.narrow(5_000) for _ in range(32)]
    assert widths == ([999] * 15 + [1_998]) * 2
    assert [limit.narrow(300) for _ in range(16)] == [300] * 16
    assert limit.windows(1_000, 1_000 + 3 * 999) == 3
    assert limit.middle(1_000, 1_000 + 4 * 999) == 1_000 + 2 * 999
    assert limit.middle(1_000, 1_001) == 1_000 + 999
    limit.learn(Bounds(0, 999), Window(0, 999))
    assert limit.seconds == 1_000


@pytest.mark.parametrize(
    ("served_at", "present", "passed"),
    [(None, 500, None), (400, 400, 400 - 86_400), (600, 500, 600 - 86_400)],
)
def test_the_present_is_the_earlier_of_echo_and_date(
    served_at: int | None, present: int, passed: int | None
) -> None:
    """Seconds that lie a day before `Date` have passed, however wrong that is."""
    answer = Answer.of(page_of(100, 500, {}), 10, served_at)
    assert (answer.present, answer.passed) == (present, passed)
