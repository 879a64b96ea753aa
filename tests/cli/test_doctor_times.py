"""Two clocks are compared by whole seconds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.cli.checking.times import (
    Offset,
    Reading,
    offset_of,
    zone_name,
    zone_shift,
)
from income_client.cli.output.durations import in_words

_MOMENTS = st.integers(0, 2**20).map(lambda n: 1_700_000_000 + n / 16)
_SPANS = st.integers(0, 400).map(lambda n: n / 16)


@given(
    offset=st.integers(-(2**20), 2**20).map(lambda n: n / 16),
    asked=st.lists(st.tuples(_MOMENTS, _SPANS, _SPANS), min_size=1, max_size=6),
)
def test_the_true_offset_is_within_the_error(
    offset: float, asked: list[tuple[float, float, float]]
) -> None:
    """Whenever in between the time was told, what it says of the clocks holds."""
    readings = [
        Reading(second=int((sent + way + offset) // 1), sent_at=sent, received_at=sent + way + back)
        for sent, way, back in asked
    ]
    found = offset_of(readings)
    assert found is not None
    assert abs(found.seconds - offset) <= found.error
    shortest = min(way + back for _, way, back in asked)
    assert found.error <= (1 + shortest) / 2


def test_no_reading_tells_nothing() -> None:
    """Without a reading there is no offset."""
    assert offset_of(()) is None


def test_contradictions_tell_nothing() -> None:
    """Two servers whose clocks differ are not taken for one."""
    told = (
        Reading(second=second, sent_at=1000.0 + n, received_at=1000.1 + n)
        for n, second in enumerate((1000, 1060))
    )
    assert offset_of(told) is None


@given(shift=st.integers(-56, 56).map(lambda n: n * 900), apart=st.floats(-200, 200))
def test_zones_are_told_from_clocks(shift: int, apart: float) -> None:
    """Clocks that differ by some seconds change nothing about the zone."""
    utc = Offset(seconds=5.0, error=0.5)
    frame = Offset(seconds=5.0 + shift + apart, error=0.5)
    assert zone_shift(frame, utc) == shift


@pytest.mark.parametrize(
    ("shift", "name"),
    [(0, "UTC"), (-18_000, "UTC-05:00"), (20_700, "UTC+05:45"), (3600, "UTC+01:00")],
)
def test_zones_have_names(shift: int, name: str) -> None:
    """A shift is written as people write zones."""
    assert zone_name(shift) == name


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.04, "0.0 s"), (59, "59.0 s"), (60, "1 minute"), (5400, "1.5 hours"), (172_800, "2 days")],
)
def test_spans_have_words(seconds: float, words: str) -> None:
    """A span is told in the largest unit that fits."""
    assert in_words(seconds) == words


def test_offsets_say_the_side() -> None:
    """Ahead, behind, or the same as far as can be told."""
    assert str(Offset(seconds=0.3, error=0.5)) == "the same, to 0.5 s"
    assert str(Offset(seconds=-90.0, error=0.5)) == "1.5 minutes behind, ± 0.5 s"
    assert str(Offset(seconds=3.0, error=0.5)) == "3.0 s ahead, ± 0.5 s"
