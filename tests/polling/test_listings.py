"""Listings: what is listed again, and how seldom, follows from when it was listed last."""

from hypothesis import given
from hypothesis import strategies as st

from income_client.polling.listings import Listings, Span

MOST_SECONDS = 4
"""Seconds for which any second that was listed may stay unlisted, whatever its age."""


@given(
    settle=st.integers(3, 400),
    gaps=st.lists(st.integers(1, 90), min_size=1, max_size=60),
)
def test_the_older_a_second_the_more_seldom_it_is_listed_again(
    settle: int, gaps: list[int]
) -> None:
    """Within a quarter of its age; what is due is listed once more, and never before."""
    listings, position, now = Listings(), 0, 1_000
    listings.note(position, now)
    for gap in gaps:
        now += gap
        until = listings.until
        assert until is not None
        relisting = listings.plan(now, position=position, settled=now - settle)
        again = [span for span in relisting.spans if not span.is_due]
        for span in relisting.spans:
            assert position <= span.first < span.before <= until
        assert sum(span.before - span.first for span in again) == until - relisting.listed_from
        due = [span for span in relisting.spans if span.is_due]
        for span in due:
            assert span == Span(position, span.before, is_due=True)
            assert span.before <= now - settle
            position = span.before
        assert relisting.is_all == (relisting.listed_from <= position)
        for second in range(position, relisting.listed_from):
            listed_at = listings.listed_at(second)
            assert listed_at is not None
            assert now - listed_at <= max(MOST_SECONDS, (now - second) / 4)
        listings.note(relisting.listed_from, now)
        listings.forget_before(position)
        assert listings.listed_at(now - 1) == now
        assert listings.listed_at(now) is None


def test_a_poll_a_second_lists_little_again() -> None:
    """Of five minutes that are younger than settle, about half a minute each time."""
    listings, position, settle, spans, seconds = Listings(), 0, 300, 0, 0
    listings.note(position, settle)
    for now in range(settle + 1, 4 * settle):
        relisting = listings.plan(now, position=position, settled=now - settle)
        spans += len(relisting.spans)
        seconds += sum(span.before - span.first for span in relisting.spans)
        position = max([position, *(one.before for one in relisting.spans if one.is_due)])
        listings.note(relisting.listed_from, now)
        listings.forget_before(position)
    assert spans / (3 * settle) < 1.7
    assert seconds / (3 * settle) < settle / 6


def test_nothing_is_listed_again_without_an_earlier_listing() -> None:
    """Nor after the service's clock was set back."""
    listings = Listings()
    assert listings.plan(100, position=50, settled=40).spans == ()
    listings.note(50, 100)
    listings.forget()
    assert listings.plan(101, position=50, settled=41).spans == ()
    assert listings.listed_at(60) is None
