"""Which rows a neighbouring page already gave."""

from income_client.protocol.intervals import Intervals
from income_client.protocol.overlap import Overlap
from income_client.records.window import Window

SPAN = Window(0, 100)


def test_rows_of_a_page_that_may_reach_the_same_seconds_are_known() -> None:
    """An id that a neighbour gave is not new."""
    overlap = Overlap(SPAN)
    assert overlap.admit(Window(0, 11), frozenset("ab")) == {"a", "b"}
    assert overlap.admit(Window(10, 20), frozenset("bc")) == {"c"}


def test_a_page_far_away_is_not_looked_at() -> None:
    """An application that moved is new where it turns up again."""
    overlap = Overlap(SPAN)
    overlap.admit(Window(0, 11), frozenset("a"))
    assert overlap.admit(Window(50, 60), frozenset("a")) == {"a"}


def test_a_page_is_forgotten_once_all_around_it_is_covered() -> None:
    """No page asked for later can hold one of its rows."""
    overlap = Overlap(SPAN)
    overlap.admit(Window(0, 11), frozenset("a"))
    overlap.forget(Intervals([Window(0, 10)]))
    assert len(overlap) == 1
    overlap.forget(Intervals([Window(0, 11)]))
    assert len(overlap) == 0


def test_what_lies_outside_the_walk_need_not_be_covered() -> None:
    """The ends of the span have no neighbour."""
    overlap = Overlap(SPAN)
    overlap.admit(Window(-1, 101), frozenset("a"))
    overlap.forget(Intervals([SPAN]))
    assert len(overlap) == 0
