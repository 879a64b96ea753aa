"""Service time for a checkpoint: the smaller of what the service says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.errors import UnexpectedResponseError
from income_client.polling.plan import Present
from income_client.wire.times import FIRST_SECOND, LAST_SECOND

NOW = 1_782_820_800
DAY = 86_400
HOUR = 3_600
CENTURY = 100 * 366 * DAY
YEAR_2090 = 3_786_912_000
seconds = st.integers(FIRST_SECOND, LAST_SECOND)


def told(echoed: int, served_at: int | None, lead: int = 0) -> Present:
    """Return a present that has heard a reply."""
    present = Present(lead)
    present.hear(echoed, served_at)
    return present


@given(seconds, seconds, seconds)
def test_it_is_never_later_than_anything_the_service_says(
    echoed: int, served_at: int, listed: int
) -> None:
    """Neither a `Date` nor an echo that runs ahead moves a checkpoint."""
    present = told(echoed, served_at)
    assert present.no_later_than(listed) == min(served_at, listed)


@given(st.integers(FIRST_SECOND, YEAR_2090), seconds)
def test_without_a_date_the_echo_alone_tells_the_time(echoed: int, listed: int) -> None:
    """A service that sends none is polled all the same."""
    present = told(echoed, None)
    assert present.is_known
    assert present.no_later_than(listed) == min(echoed, listed)


@given(seconds, st.none() | seconds, seconds)
def test_what_was_read_was_written_by_the_present_that_was_listed(
    echoed: int, served_at: int | None, listed: int
) -> None:
    """A `Date` may lag by an hour; an end of the list years ahead is no present."""
    present = Present()
    if served_at is not None or echoed <= YEAR_2090:
        present.hear(echoed, served_at)
        told = echoed if served_at is None else served_at
        assert present.no_earlier_than(listed) == min(listed, told + HOUR)
        assert present.no_earlier_than(listed) >= present.no_later_than(listed)


def test_it_is_not_known_before_the_first_reply() -> None:
    """Until then nothing is said of it."""
    present = Present()
    assert not present.is_known
    present.hear(NOW, NOW)
    assert present.is_known


@pytest.mark.parametrize("echoed", [LAST_SECOND, LAST_SECOND - CENTURY, YEAR_2090 + 1])
def test_an_echo_without_end_and_no_date_tells_no_time(echoed: int) -> None:
    """Nothing can be committed, and the poll fails with an error that says why."""
    present = Present()
    with pytest.raises(UnexpectedResponseError, match="tells no time"):
        present.hear(echoed, None)
    assert not present.is_known


def test_an_echo_without_end_leaves_the_time_to_the_date() -> None:
    """The end of the calendar is no present."""
    present = told(LAST_SECOND, NOW)
    assert present.no_later_than(LAST_SECOND) == NOW
    assert present.no_earlier_than(LAST_SECOND) == NOW + HOUR


@given(st.integers(-2 * DAY, 2 * DAY))
def test_how_far_the_date_runs_ahead_is_learned(offset: int) -> None:
    """A wrong clock of a proxy is told from a window that was cut off."""
    present = told(NOW, NOW + offset)
    present.learn(NOW - 1)
    assert present.lead == offset


@pytest.mark.parametrize(("listed", "lead"), [(NOW + 5, 500), (NOW + 61, 77)])
def test_nothing_is_learned_from_a_window_that_was_cut_off(listed: int, lead: int) -> None:
    """Where the list went on behind the echo, the echo was not the present."""
    present = told(NOW, NOW + 500, lead=77)
    present.learn(listed)
    assert present.lead == lead


def test_nothing_is_learned_where_nothing_was_heard() -> None:
    """What was known before stays."""
    present = Present(lead=5)
    present.learn(NOW)
    assert present.lead == 5
