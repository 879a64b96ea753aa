"""What an export decides: its span, how far it has come, how long it will take."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.cli.arguments.service_times import service_time
from income_client.cli.exports.amount import Amount
from income_client.cli.exports.marks import Marks
from income_client.cli.exports.progress import Estimate, Share
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
    assert shown.done(1.0, span) in (0.0, 1.0)


def test_years_before_the_first_application_do_not_count() -> None:
    """Half of the last ten days is half, though nearly all of the time since 1970 is done."""
    span = Span(None, NOON)
    fraction = 1 - 5 * DAY.total_seconds() / span.seconds
    assert span.since(NOON - 10 * DAY).done(fraction, span) == pytest.approx(0.5)


@given(st.lists(st.integers(0, 5), max_size=6), st.randoms(use_true_random=False))
def test_a_checkpoint_never_covers_what_is_not_there(sizes: list[int], chance: object) -> None:
    """Pages are begun ahead of what comes; a checkpoint counts once all before it has come."""
    choose = getattr(chance, "random")  # noqa: B009 - hypothesis does not say its type
    marks, begun, ended = Marks(), 0, 0
    begun_before: dict[str, int] = {}

    def come(until: int) -> None:
        nonlocal ended
        while ended < until:
            marks.end()
            ended += 1
            covered = marks.checkpoint
            assert covered is None or begun_before[covered] <= ended

    for number, size in enumerate(sizes):
        begun_before[str(number)] = begun
        marks.turn(str(number))
        for _ in range(size):
            marks.begin()
            begun += 1
            if choose() < 0.5:
                come(begun - int(2 * choose()))
    begun_before["end"] = begun
    marks.turn("end")
    come(begun)
    assert marks.checkpoint == "end"


def test_what_is_left_is_counted_once_all_is_found() -> None:
    """A few rows at the quiet beginning of a span say nothing of the rest of it."""
    amount = Amount()
    amount.find(30, covered=0.9)
    assert amount.total is None
    amount.find(2000, covered=0.95)
    amount.end()
    assert amount.total == 2030


def test_many_rows_tell_of_those_to_come() -> None:
    """What more there is lies in the rest of the span; never is less expected than is found."""
    amount = Amount()
    amount.find(10_000, covered=0.25)
    assert amount.total == 40_000
    amount.find(35_000)
    assert amount.total == 45_000


def test_a_later_run_begins_with_what_the_first_expected() -> None:
    """What was read is a part of it, and what is found beside counts once."""
    amount = Amount(1216, 3000)
    assert amount.total == 3000
    amount.find(1784, covered=0.4)
    amount.end()
    assert amount.total == 3000


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9))))
def test_a_share_never_goes_back_and_never_is_all(steps: list[tuple[int, int]]) -> None:
    """Whatever is found meanwhile; a line that says that all is done would be gone."""
    share, farthest = Share(), 0
    for done, total in steps:
        percent = share.percent(done, total)
        assert farthest <= percent <= 99
        farthest = percent


def test_the_estimate_looks_at_what_was_lately() -> None:
    """A quick beginning promises nothing once it goes slowly."""
    estimate = Estimate()
    assert estimate.left(10) is None
    estimate.note(0, 0)
    estimate.note(1, 500)
    assert (estimate.left(1000), estimate.rate) == (None, None)
    for second in range(2, 102):
        estimate.note(second, 500 + second)
    assert estimate.left(1000) == pytest.approx(1000 - 601)
    assert estimate.rate == pytest.approx(1)


def test_nothing_that_moves_has_no_end() -> None:
    """While nothing comes, nobody can tell how long it will take."""
    estimate = Estimate()
    estimate.note(0, 5)
    estimate.note(10, 5)
    assert (estimate.left(10), estimate.rate) == (None, 0)
