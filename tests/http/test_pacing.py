"""The gate stays closed for as long as asked, the pacer leaves even spaces."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.http.retry import Gate, Pacer


def test_a_gate_opens_when_its_longest_closing_ends() -> None:
    """A shorter closing does not shorten a longer one."""
    gate = Gate()
    assert gate.opens_at == 0
    gate.close(until=10)
    gate.close(until=5)
    assert gate.opens_at == 10


@given(
    rate=st.floats(0.1, 1000),
    calls=st.lists(st.tuples(st.floats(0, 5), st.booleans(), st.booleans()), max_size=50),
)
def test_turns_are_never_closer_than_the_rate(
    rate: float, calls: list[tuple[float, bool, bool]]
) -> None:
    """Whenever calls come, go ahead or leave without their turn, the others keep the distance."""
    pacer = Pacer(rate)
    now, moments = 0.0, []
    waiting: list[tuple[object, float, bool]] = []
    for step, ahead, is_cancelled in calls:
        call = object()
        pacer.join(call, ahead=ahead)
        waiting.append((call, now, is_cancelled))
        until = now + step
        while waiting:
            turn, number = min(
                (pacer.turn_of(call, ready_at), number)
                for number, (call, ready_at, _) in enumerate(waiting)
            )
            if turn > until:
                break
            now = max(now, turn)
            call, ready_at, leaves = waiting.pop(number)
            if not leaves:
                pacer.take(ready_at, now)
                moments.append(now)
            pacer.leave(call)
        now = until
    assert all(later - earlier >= 1 / rate - 1e-6 for earlier, later in pairwise(moments))


def test_a_line_is_served_in_order_and_those_ahead_first() -> None:
    """A call that goes ahead is behind those that did so before it, and before all others."""
    pacer = Pacer(rate=1)
    for call, ahead in [("a", False), ("b", False), ("c", True), ("d", True)]:
        pacer.join(call, ahead=ahead)
    assert [pacer.turn_of(call, 0) for call in "cdab"] == [0, 1, 2, 3]
    pacer.leave("c")
    pacer.join("e", ahead=True)
    assert [pacer.turn_of(call, 0) for call in "deab"] == [0, 1, 2, 3]


def test_a_call_that_leaves_takes_no_turn_along() -> None:
    """The next one in the line gets the turn of a call that has left it."""
    pacer = Pacer(rate=1)
    pacer.join("gone")
    pacer.join("next")
    pacer.leave("gone")
    assert pacer.turn_of("next", 0) == 0


@pytest.mark.parametrize(("late", "next_turn"), [(0.05, 1.0), (7.0, 7.9)])
def test_a_late_timer_does_not_slow_down_the_line(late: float, next_turn: float) -> None:
    """A delay of a busy loop is made up for, a longer one is not: that would be a burst."""
    pacer = Pacer(rate=1)
    pacer.join("first")
    pacer.join("second")
    pacer.take(0, now=late)
    pacer.leave("first")
    assert pacer.turn_of("second", 0) == pytest.approx(next_turn)
