"""Listings: what is listed again, and how seldom, follows from when it was listed last."""

from hypothesis import given
from hypothesis import strategies as st

from income_client.polling.listings import LearnedBounds, Listings, Span
from income_client.records.window import Window

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


def test_a_lower_bound_is_inclusive_once_a_page_shows_a_row_of_its_second() -> None:
    bounds = LearnedBounds()
    bounds.learn(Window(100, 200), 101, 200)
    assert not bounds.include_first
    bounds.learn(Window(100, 200), 100, 200)
    assert bounds.include_first


def test_an_upper_bound_is_believed_to_show_the_present_after_three_polls_in_a_row() -> None:
    """A row that only a page up to the future shows may have been updated after the first page."""
    bounds, first, last = LearnedBounds(), Window(100, 200), Window(199, 900)
    polls: list[list[tuple[Window, int]]] = [
        [(first, 200)], [(first, 200), (last, 190)], [(first, 200), (last, 200)],
        [(first, 200)], [(first, 201)], [(first, 199)], [],
    ]  # fmt: skip
    for rows in polls:
        for applied, updated in rows:
            bounds.learn(applied, updated, 200)
        bounds.end_poll(has_last_page=True)
        assert not bounds.show_present
    bounds.learn(first, 200, 200)
    bounds.end_poll(has_last_page=False)
    assert not bounds.show_present
    bounds.learn(first, 200, 200)
    bounds.end_poll(has_last_page=True)
    assert bounds.show_present
    bounds.learn(last, 200, 200)
    bounds.end_poll(has_last_page=True)
    assert not bounds.show_present
