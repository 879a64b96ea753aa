"""Intervals against a plain set of seconds."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from income_client.records.window import Window
from income_client.walk.windows import Intervals

WINDOWS = st.lists(st.builds(Window, st.integers(0, 60), st.integers(0, 60)), max_size=12)


def seconds_of(windows: list[Window]) -> set[int]:
    """Return every second of the windows."""
    return {second for window in windows for second in range(window.after, window.before)}


@given(WINDOWS)
def test_a_set_of_windows_is_the_set_of_their_seconds(windows: list[Window]) -> None:
    """Adding merges, and counts each second once."""
    intervals = Intervals(windows)
    assert seconds_of(list(intervals)) == seconds_of(windows)
    assert intervals.seconds == len(seconds_of(windows))


@given(WINDOWS)
def test_windows_stay_ascending_apart_and_not_empty(windows: list[Window]) -> None:
    """Windows that touch are one, so that the set is as short as it can be."""
    merged = list(Intervals(windows))
    assert all(merged)
    assert all(left.before < right.after for left, right in pairwise(merged))


@given(WINDOWS, st.integers(0, 60), st.integers(0, 60))
def test_gaps_are_what_is_missing(windows: list[Window], after: int, before: int) -> None:
    """The gaps within a window and the set make the window whole, without overlap."""
    within = Window(after, before)
    gaps = Intervals(windows).gaps(within)
    assert seconds_of(gaps) == seconds_of([within]) - seconds_of(windows)
    assert sum(gap.before - gap.after for gap in gaps) == len(seconds_of(gaps))
