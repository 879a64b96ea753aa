"""How an open walk learns the present and ends there."""

import pytest

from income_client.records.window import Window
from income_client.walk.tail import Tail
from income_client.walk.windows import Answer, Bounds, Pause

NOW = 1000
YEAR = 366 * 86_400


def answer(
    after: int, before: int, *, is_full: bool = False, served_at: int | None = None
) -> Answer:
    """Make a reply with these applied bounds."""
    return Answer(echo=Window(after, before), rows={}, is_full=is_full, served_at=served_at)


def asked(tail: Tail) -> Bounds:
    """Return the next question, which is no pause."""
    bounds = tail.next()
    assert isinstance(bounds, Bounds)
    return bounds


def at_present() -> Tail:
    """Return a tail that has learned the present."""
    tail = Tail(0, reached=0)
    assert asked(tail) == Bounds(0, None)
    step = tail.receive(Bounds(0, None), answer(0, NOW + 1))
    assert step.span == Window(0, NOW)
    assert not step.is_finished
    return tail


def without_future() -> Tail:
    """Return a tail at a service that refuses bounds in the future."""
    tail = at_present()
    assert tail.refuse(asked(tail))
    return tail


def test_the_present_is_taken_one_second_earlier_than_it_is_echoed() -> None:
    """A service may round its time up, or show what it wrote a moment late."""
    tail = Tail(0, reached=0)
    assert tail.receive(asked(tail), answer(0, NOW)).span == Window(0, NOW - 1)


def test_the_last_page_is_asked_for_with_a_bound_in_the_future() -> None:
    """A complete page that was echoed as asked ends the walk."""
    tail = at_present()
    bounds = asked(tail)
    assert bounds == Bounds(NOW - 1, NOW + YEAR)
    assert tail.receive(bounds, answer(NOW - 1, NOW + YEAR)).is_finished


def test_a_last_page_that_is_full_is_walked_first() -> None:
    """The present is learned anew, and what lies before it is left to the walkers."""
    tail = at_present()
    tail.receive(asked(tail), answer(NOW - 1, NOW + YEAR, is_full=True))
    assert asked(tail) == Bounds(NOW - 1, None)
    step = tail.receive(Bounds(NOW - 1, None), answer(NOW - 1, NOW + 10, is_full=True))
    assert step.span == Window(NOW, NOW + 9)
    assert asked(tail) == Bounds(NOW + 8, NOW + 9 + YEAR)


def test_two_pages_of_different_seconds_stand_in_for_the_last() -> None:
    """Where no bound in the future is taken, a later second shows what the earlier one hid."""
    tail = without_future()
    assert not tail.receive(asked(tail), answer(NOW - 1, NOW + 1)).is_finished
    assert tail.receive(asked(tail), answer(NOW - 2, NOW + 2)).is_finished


def test_two_pages_of_one_second_prove_nothing() -> None:
    """The walk waits until the service's clock has moved."""
    tail = without_future()
    for after in (NOW - 1, NOW - 2):
        assert not tail.receive(asked(tail), answer(after, NOW + 1)).is_finished
    assert isinstance(tail.next(), Pause)
    assert tail.receive(asked(tail), answer(NOW - 2, NOW + 2)).is_finished


def test_a_call_in_between_makes_the_first_page_worthless() -> None:
    """After an interruption two pages are needed again."""
    tail = without_future()
    tail.receive(asked(tail), answer(NOW - 1, NOW + 1))
    tail.interrupt()
    assert not tail.receive(asked(tail), answer(NOW - 1, NOW + 2)).is_finished


def test_a_window_cut_short_is_not_taken_for_the_present() -> None:
    """An echo that goes back with the lower bound is a cut, and the walk goes on from it."""
    tail = without_future()
    tail.receive(asked(tail), answer(NOW - 1, NOW + 99))
    step = tail.receive(asked(tail), answer(NOW - 2, NOW + 98))
    assert not step.is_finished
    assert step.span == Window(NOW, NOW + 97)
    # The length of the cut is known from here on: one page for each.
    step = tail.receive(asked(tail), answer(NOW + 96, NOW + 196))
    assert step.span == Window(NOW + 97, NOW + 195)


def test_a_bound_lowered_to_the_present_is_given_up() -> None:
    """A second page, of a later second, shows what the first one hid."""
    tail = at_present()
    assert not tail.receive(asked(tail), answer(NOW - 1, NOW + 1)).is_finished
    assert not tail.receive(Bounds(NOW - 1, None), answer(NOW - 1, NOW + 1)).is_finished
    assert tail.receive(Bounds(NOW - 2, None), answer(NOW - 2, NOW + 3)).is_finished


@pytest.mark.parametrize(
    "cut",
    [(NOW - 1, NOW + 59), (NOW + YEAR - 60, NOW + YEAR)],
    ids=["at its end", "at its start"],
)
def test_a_window_cut_short_brings_the_last_bound_near(cut: tuple[int, int]) -> None:
    """The walk ends once the present still lies before the end of the page."""
    tail = at_present()
    step = tail.receive(asked(tail), answer(*cut, is_full=True))
    assert not step.is_finished
    assert not step.span
    near = Bounds(NOW - 1, NOW + 59)
    assert asked(tail) == near
    assert not tail.receive(near, answer(NOW - 1, NOW + 59)).is_finished
    assert asked(tail) == Bounds(NOW - 1, None)
    assert tail.receive(Bounds(NOW - 1, None), answer(NOW - 1, NOW + 58)).is_finished


@pytest.mark.parametrize("present", [NOW + 59, NOW + 500], ids=["the bound", "after it"])
def test_a_near_bound_that_the_present_has_reached_is_given_up(present: int) -> None:
    """The page may not have held the current second, or the present was cut short too."""
    tail = at_present()
    tail.receive(asked(tail), answer(NOW - 1, NOW + 59))
    tail.receive(asked(tail), answer(NOW - 1, NOW + 59))
    assert not tail.receive(asked(tail), answer(NOW - 1, present)).is_finished
    assert asked(tail).before is None


def test_a_clock_that_stands_still_ends_the_walk_after_some_patience() -> None:
    """It neither loops for ever nor ends at once."""
    tail = without_future()
    pauses = questions = 0
    while True:
        action = tail.next()
        if isinstance(action, Pause):
            pauses += 1
            continue
        questions += 1
        if tail.receive(action, answer(action.after, NOW)).is_finished:
            break
    assert pauses == 3
    assert questions == 5


def test_a_current_second_that_overfills_a_page_is_waited_out() -> None:
    """It is walked as a second like any other once it has passed, or never will."""
    tail = at_present()
    steps = []
    for _ in range(20):
        action = tail.next()
        if isinstance(action, Bounds):
            before = action.before or NOW + 1
            steps.append(tail.receive(action, answer(action.after, before, is_full=True)))
        if steps and steps[-1].span:
            break
    assert steps[-1].span == Window(NOW, NOW + 1)


def test_an_open_question_that_is_refused_is_an_error() -> None:
    """There is no other way to ask it."""
    assert not Tail(0, reached=0).refuse(Bounds(0, None))


@pytest.mark.parametrize("is_full", [False, True])
def test_an_echo_without_end_is_no_present(is_full: bool) -> None:
    """A complete page ends the walk at once; a full one is walked up to its time of service."""
    tail = Tail(0, reached=0)
    endless = answer(0, 10**11, is_full=is_full, served_at=NOW + 1)
    step = tail.receive(asked(tail), endless)
    assert step.is_finished is not is_full
    assert step.span == (Window(0, NOW) if is_full else Window(0, 0))


def closed() -> Tail:
    """Return the tail of a walk with an upper bound, whose first page came back full."""
    tail = Tail(0, reached=0, until=NOW)
    assert asked(tail) == Bounds(0, NOW)
    assert not tail.receive(Bounds(0, NOW), answer(0, NOW, is_full=True)).is_finished
    assert asked(tail) == Bounds(0, None)
    return tail


def test_a_walk_with_an_upper_bound_asks_for_all_of_it_first() -> None:
    """Most spans are small, and one complete page is all of it."""
    tail = Tail(0, reached=0, until=NOW)
    step = tail.receive(asked(tail), answer(0, NOW))
    assert step.is_finished
    assert not step.span


@pytest.mark.parametrize("is_full", [False, True])
def test_a_bound_that_passed_days_ago_needs_no_present(is_full: bool) -> None:
    """The whole span is walked, or covered by a page that was complete."""
    tail = Tail(0, reached=0, until=NOW)
    page = answer(0, NOW, is_full=is_full, served_at=NOW + 2 * 86_400)
    step = tail.receive(asked(tail), page)
    assert step.is_finished
    assert step.span == Window(0, NOW + 1)
    assert step.is_walked is is_full


def test_a_bound_that_has_passed_leaves_all_to_the_walkers() -> None:
    """The page that tells the present may hold rows behind the bound, and is not used."""
    step = closed().receive(Bounds(0, None), answer(0, NOW + 9))
    assert step.is_finished
    assert step.is_walked
    assert step.span == Window(0, NOW + 1)


def test_a_bound_ahead_is_asked_for_again_once_the_rest_is_done() -> None:
    """What lies before the present is walked, and a complete page from there on is the last."""
    tail = closed()
    step = tail.receive(Bounds(0, None), answer(0, NOW - 50, is_full=True))
    assert step.span == Window(0, NOW - 51)
    assert step.is_walked
    assert not step.is_finished
    assert asked(tail) == Bounds(NOW - 52, NOW)
    assert tail.receive(Bounds(NOW - 52, NOW), answer(NOW - 52, NOW)).is_finished


def test_a_bound_of_the_walk_that_is_refused_is_an_error() -> None:
    """It is the caller's, and nothing else can be asked in its place."""
    assert not Tail(0, reached=0, until=NOW).refuse(Bounds(0, NOW))


def test_a_walk_ahead_of_the_service_s_clock_ends() -> None:
    """Where every echo is the end of a cut window, the service's own time tells when to stop."""
    tail = Tail(0, reached=10 * 86_400)
    assert tail.receive(
        asked(tail), answer(10 * 86_400 - 1, 11 * 86_400, served_at=NOW)
    ).is_finished


def test_an_echo_without_end_and_with_a_raised_start_is_not_believed_for_all() -> None:
    """What lies before the raised start is left to the walkers."""
    tail = Tail(0, reached=0)
    step = tail.receive(asked(tail), answer(500, 10**11, served_at=NOW))
    assert not step.is_finished
    assert step.span == Window(0, NOW - 1)


def followed(lead: int = 0, reached: int = 0) -> Tail:
    """Return the tail of a walk that another will follow."""
    return Tail(max(0, reached - 1), reached=reached, lead=lead)


@pytest.mark.parametrize("behind", [-5, 0, 5])
@pytest.mark.parametrize("is_full", [False, True])
def test_a_walk_that_is_followed_ends_at_the_first_present(behind: int, is_full: bool) -> None:
    """A `Date` close to the echo says that nothing was cut off."""
    tail = followed()
    page = answer(0, NOW, is_full=is_full, served_at=NOW - 1 + behind)
    step = tail.receive(asked(tail), page)
    assert step.is_finished
    assert step.span == Window(0, NOW - 1)
    assert step.is_walked is is_full


@pytest.mark.parametrize("served_at", [None, NOW - 500, NOW + 60, NOW + 86_400])
def test_an_echo_that_may_be_cut_off_is_no_present_to_end_at(served_at: int | None) -> None:
    """Without a `Date`, or with another one, the walk goes on as any other."""
    tail = followed()
    step = tail.receive(asked(tail), answer(0, NOW, served_at=served_at))
    assert not step.is_finished
    assert asked(tail) == Bounds(NOW - 2, NOW - 1 + YEAR)
    # From here on no present is the first.
    tail.refuse(Bounds(NOW - 2, NOW - 1 + YEAR))
    later = answer(NOW - 2, NOW + 5, served_at=NOW + 5)
    assert not tail.receive(asked(tail), later).is_finished


@pytest.mark.parametrize("lead", [86_400, -500])
def test_a_date_known_to_be_wrong_is_no_sign_of_a_cut(lead: int) -> None:
    """As far as it was from the echo before, it may be again."""
    tail = followed(lead=lead)
    page = answer(0, NOW, served_at=NOW + lead + 4)
    assert tail.receive(asked(tail), page).is_finished


@pytest.mark.parametrize("is_full", [False, True])
def test_a_followed_walk_ends_at_the_date_where_the_echo_has_no_end(is_full: bool) -> None:
    """What the page holds of later seconds settles none of them."""
    tail = followed()
    endless = answer(0, 10**11, is_full=is_full, served_at=NOW + 1)
    step = tail.receive(asked(tail), endless)
    assert step.is_finished
    assert step.span == Window(0, NOW)
    assert step.is_walked is is_full


@pytest.mark.parametrize("echoed", [NOW - 500, NOW, NOW + 1])
def test_a_followed_walk_with_nothing_to_go_settles_nothing(echoed: int) -> None:
    """A present that was reached already, or lies before, ends it and moves nothing back."""
    tail = followed(reached=NOW)
    step = tail.receive(asked(tail), answer(NOW - 1, echoed, served_at=echoed))
    assert step.is_finished
    assert not step.span
    assert tail.reached == NOW
