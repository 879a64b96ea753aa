"""Lateness: the greatest and a quantile, over the updates of a day."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import msgspec
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


@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, DAY - 4_000)), min_size=1, max_size=300)
)
def test_a_checkpoint_holds_the_greatest_lateness_and_understates_no_quantile(
    updates: list[tuple[int, int]],
) -> None:
    """A summary of a summary is the same: it does not change with each takeover."""
    lateness = Lateness()
    for seconds, second in updates:
        lateness.note(seconds, 100 * DAY + second)
    summary = lateness.summary()
    assert (summary.greatest, summary.updates) == (lateness.greatest, len(updates))
    for share in (0.5, 0.999):
        assert lateness.quantile(share) <= summary.quantile(share) <= lateness.greatest
    assert summary.summary() == summary
    assert Lateness.from_rows(summary.as_rows(101 * DAY), 101 * DAY) == summary


def test_a_day_of_lateness_takes_less_than_a_kilobyte() -> None:
    """At ten updates a second, each of which may be up to ten minutes late."""
    hour = dict.fromkeys(range(600), 36000 // 600)
    lateness = Lateness({number: Counter(hour) for number in range(480_000, 480_024)})
    assert len(msgspec.json.encode(lateness.summary().as_rows(480_024 * 3_600))) < 1_000


def test_what_is_older_than_a_day_is_forgotten() -> None:
    """Also after the service's clock was set back by more than that."""
    lateness = Lateness()
    assert (lateness.greatest, lateness.quantile(0.999)) == (0, 0)
    lateness.note(50, 10 * DAY)
    lateness.note(3, 11 * DAY)
    assert lateness.greatest == 3
    lateness.note(1, 5 * DAY)
    assert lateness.greatest == 1


def test_the_lateness_may_be_read_in_another_thread() -> None:
    """A metrics server reads the status in a thread of its own, while hours come and go."""
    lateness, is_done = Lateness(), Event()

    def read() -> None:
        while not is_done.is_set():
            assert lateness.quantile(0.5) < 50
            assert lateness.greatest < 50

    with ThreadPoolExecutor(1) as thread:
        reads = thread.submit(read)
        for number in range(50_000):
            lateness.note(number % 50, number * 3_600)
        is_done.set()
    reads.result()
