"""The pacer leaves even spaces, whoever leaves the line or is late."""

import pytest

from income_client.http.retry import Pacer


def test_a_call_that_leaves_takes_no_turn_along() -> None:
    """The next one in the line gets the turn of a call that has left it."""
    pacer = Pacer(rate=1)
    pacer.join("gone")
    pacer.join("next")
    pacer.leave("gone")
    assert pacer.turn_of("next", 0) == 0


def test_calls_that_go_ahead_keep_their_own_order() -> None:
    """A second one is behind the first, and before all others, also when one has left."""
    pacer = Pacer(rate=1)
    for name in ("a", "b"):
        pacer.join(name)
    for name in ("x", "y"):
        pacer.join(name, ahead=True)
    assert [pacer.turn_of(name, 0) for name in "xyab"] == [0, 1, 2, 3]
    pacer.leave("x")
    pacer.join("z", ahead=True)
    assert [pacer.turn_of(name, 0) for name in "yzab"] == [0, 1, 2, 3]
    pacer.leave("a")
    pacer.join("last", ahead=True)
    assert [pacer.turn_of(name, 0) for name in ("y", "z", "last", "b")] == [0, 1, 2, 3]


@pytest.mark.parametrize(("late", "next_turn"), [(0.05, 1.0), (7.0, 7.9)])
def test_a_late_timer_does_not_slow_down_the_line(late: float, next_turn: float) -> None:
    """A delay of a busy loop is made up for, a longer one is not: that would be a burst."""
    pacer = Pacer(rate=1)
    pacer.join("first")
    pacer.join("second")
    pacer.take_turn(0, now=late)
    pacer.leave("first")
    assert pacer.turn_of("second", 0) == pytest.approx(next_turn)
