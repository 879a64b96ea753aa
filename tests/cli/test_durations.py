"""Spans of time in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.cli.output.durations import counted_down, estimated, in_short, in_words


@pytest.mark.parametrize(
    ("seconds", "words", "short", "left", "estimate"),
    [
        (0, "0.0 s", "0 s", "0 s", "about 5 s"),
        (0.25, "0.2 s", "0 s", "0 s", "about 5 s"),
        (59, "59.0 s", "59 s", "59 s", "about 60 s"),
        (60, "1 minute", "60 s", "1 min 0 s", "about 1 min"),
        (150, "2.5 minutes", "2 min", "2 min 30 s", "about 2 min"),
        (3599, "60 minutes", "60 min", "59 min 59 s", "about 60 min"),
        (3600, "1 hour", "60 min", "1 h 0 min", "about 1.0 h"),
        (86_400, "1 day", "24 h", "1 d 0 h", "about 24.0 h"),
        (2_000_000, "23.1 days", "23 d", "23 d 3 h", "about 555.6 h"),
    ],
)
def test_each_place_has_its_words(
    seconds: float, words: str, short: str, left: str, estimate: str
) -> None:
    """As exact as a span is known, and no more."""
    assert in_words(seconds) == words
    assert in_short(seconds) == short
    assert counted_down(seconds) == left
    assert estimated(seconds) == estimate


@given(st.floats(-1e9, 0))
def test_what_is_over_has_nothing_left(seconds: float) -> None:
    """A clock that is ahead makes no negative span."""
    assert counted_down(seconds) == in_short(seconds) == "0 s"
