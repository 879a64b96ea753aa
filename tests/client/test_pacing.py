"""The gate stays closed for as long as asked, the pacer leaves even spaces."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from income_client.pacing import Gate, Pacer


def test_a_gate_opens_when_its_longest_closing_ends() -> None:
    """A shorter closing does not shorten a longer one."""
    gate = Gate()
    assert gate.remaining(0) == 0
    gate.close(until=10)
    gate.close(until=5)
    assert gate.remaining(4) == 6
    assert gate.remaining(10) == 0


@given(
    rate=st.floats(0.1, 1000),
    steps=st.lists(st.floats(0, 5), min_size=1, max_size=50),
    patience=st.floats(0, 20),
)
def test_reserved_moments_are_never_closer_than_the_rate(
    rate: float,
    steps: list[float],
    patience: float,
) -> None:
    """Whenever callers come, their moments keep the distance, and none is beyond its use."""
    pacer = Pacer(rate)
    now = 0.0
    moments = []
    for step in steps:
        now += step
        delay = pacer.reserve(now, latest=now + patience)
        if delay is not None:
            assert 0 <= delay < max(patience, 1e-9)
            moments.append(now + delay)
    gaps = [later - earlier for earlier, later in pairwise(moments)]
    assert all(gap >= 1 / rate - 1e-6 for gap in gaps)


def test_a_moment_that_comes_too_late_is_not_taken() -> None:
    """Who cannot wait for the next moment leaves it to others."""
    pacer = Pacer(1)
    assert pacer.reserve(0, latest=10) == 0
    assert pacer.reserve(0, latest=1) is None
    assert pacer.reserve(0, latest=2) == 1
