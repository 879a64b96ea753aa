"""Lateness: the greatest and a quantile, over the updates of a day."""

from hypothesis import given
from hypothesis import strategies as st

from income_client.polling.lateness import Lateness

DAY = 86_400


@given(st.lists(st.integers(0, 400), min_size=1, max_size=200), st.floats(0.001, 1.0))
def test_a_quantile_is_not_exceeded_by_its_share(seconds: list[int], share: float) -> None:
    """And it is one of the values."""
    lateness = Lateness()
    for number, one in enumerate(seconds):
        lateness.note(one, 1_000_000 + number)
    quantile = lateness.quantile(share)
    assert lateness.greatest == max(seconds)
    assert quantile in seconds
    assert sum(one <= quantile for one in seconds) >= share * len(seconds) - 1e-6
    assert sum(one < quantile for one in seconds) < share * len(seconds) + 1e-6


def test_what_is_older_than_a_day_is_forgotten() -> None:
    """Also after the service's clock was set back by more than that."""
    lateness = Lateness()
    assert (lateness.greatest, lateness.quantile(0.999)) == (0, 0)
    lateness.note(50, 10 * DAY)
    lateness.note(3, 11 * DAY)
    assert lateness.greatest == 3
    lateness.note(1, 5 * DAY)
    assert lateness.greatest == 1
