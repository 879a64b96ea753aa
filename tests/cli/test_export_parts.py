"""What an export decides: its span, how far it has come, how long it will take."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from income_client.cli.arguments.service_times import service_time
from income_client.cli.exports.marks import Marks
from income_client.cli.exports.progress import Estimate, told
from income_client.cli.exports.request import Request, Span

NOON = datetime(2026, 6, 30, 12)  # noqa: DTZ001 - the service's time
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("when", "up", "expected"),
    [
        (NOON, False, NOON),
        (NOON, True, NOON),
        (NOON.replace(microsecond=1), False, NOON),
        (NOON.replace(microsecond=1), True, NOON + timedelta(seconds=1)),
        (NOON.replace(tzinfo=UTC), True, NOON),
        (NOON.replace(tzinfo=timezone(timedelta(hours=2))), False, NOON - timedelta(hours=2)),
    ],
)
def test_times_become_the_services_own(when: datetime, up: bool, expected: datetime) -> None:
    """Zones are taken in, and parts of a second widen the span."""
    assert service_time(when, up=up) == expected


def test_a_request_is_read_back() -> None:
    """What was asked for stands in the notes as a text."""
    request = Request(
        service="https://example.org",
        updated_after=None,
        updated_before=NOON.isoformat(),
        documents=True,
        pages=False,
    )
    assert Request.from_text(request.text) == request
    assert list(request.differences(request)) == []


def test_the_next_span_overlaps() -> None:
    """What the service lists late belongs to one of them."""
    assert Span(None, NOON).next_after < NOON


@given(
    st.floats(0, 1),
    st.integers(0, 400).map(lambda days: NOON - days * DAY),
    st.integers(-5, 400).map(lambda days: NOON - days * DAY),
)
def test_shares_stay_within_the_whole(fraction: float, after: datetime, first: datetime) -> None:
    """However short a span is, or what is known of its beginning, shares are 0 to 1."""
    span = Span(after, NOON)
    shown = span.since(first)
    assert 0 <= shown.done(fraction, span) <= 1
    assert 0 <= shown.share(first, NOON + DAY) <= 1
    assert shown.done(1.0, span) in (0.0, 1.0)


def test_years_before_the_first_application_do_not_count() -> None:
    """Half of the last ten days is half, though nearly all of the time since 1970 is done."""
    span = Span(None, NOON)
    fraction = 1 - 5 * DAY.total_seconds() / span.seconds
    assert span.since(NOON - 10 * DAY).done(fraction, span) == pytest.approx(0.5)


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), max_size=6), st.randoms(use_true_random=False))
def test_a_checkpoint_never_covers_what_is_not_there(sizes: list[int], chance: object) -> None:
    """Pages are begun ahead of what comes; a checkpoint counts once all before it has come."""
    choose = getattr(chance, "random")  # noqa: B009 - hypothesis does not say its type
    marks, begun, ended = Marks(), 0, 0
    begun_before: dict[str, int] = {}
    farthest = 0.0

    def come(until: int) -> None:
        nonlocal ended, farthest
        while ended < until:
            marks.end()
            ended += 1
            covered = marks.checkpoint
            assert covered is None or begun_before[covered] <= ended
            assert farthest <= marks.fraction <= 1
            farthest = marks.fraction

    for number, size in enumerate(sizes):
        begun_before[str(number)] = begun
        share = 1 / len(sizes)
        marks.turn(checkpoint=str(number), fraction=number * share, share=share, rows=size)
        for _ in range(size):
            marks.begin()
            begun += 1
            if choose() < 0.5:
                come(begun - int(2 * choose()))
    begun_before["end"] = begun
    marks.turn(checkpoint="end", fraction=1.0)
    come(begun)
    assert marks.checkpoint == "end"
    assert marks.fraction == 1


def test_the_estimate_looks_at_what_was_lately() -> None:
    """A quick beginning promises nothing once it goes slowly."""
    estimate = Estimate()
    assert estimate.left is None
    estimate.note(0, 0.0, 0)
    estimate.note(1, 0.5, 10)
    assert (estimate.left, estimate.rate) == (None, None)
    for second in range(2, 102):
        estimate.note(second, 0.5 + second / 1000, 10 + second)
    assert estimate.left == pytest.approx((0.5 - 0.101) * 1000)
    assert estimate.rate == pytest.approx(1)


def test_nothing_that_moves_has_no_end() -> None:
    """While nothing comes, nobody can tell how long it will take."""
    estimate = Estimate()
    estimate.note(0, 0.3, 5)
    estimate.note(10, 0.3, 5)
    assert (estimate.left, estimate.rate) == (None, 0)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "about 5 s"), (11, "about 15 s"), (60, "about 1 min"), (5400, "about 1.5 h")],
)
def test_what_is_left_is_told_roughly(seconds: float, words: str) -> None:
    """Nobody knows it to the second."""
    assert told(seconds) == words
