"""Conversations between a walk's tail and a service: finding the present, and ending there."""

from functools import partial
from typing import Any

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from income_client.errors import UnexpectedResponseError
from income_client.records.applications import ApplicationPage
from income_client.records.window import EPOCH, Window
from income_client.walk.tail import END_OF_TIME, TRANSITIONS, State, Tail
from income_client.walk.windows import Answer, Bounds

NOW = 1000
DAY = 86_400
YEAR = 366 * DAY
NO_ROWS = ApplicationPage(updated_after=EPOCH, updated_before=EPOCH, applications=())


@frozen
class Told:
    """The bounds that a page echoes, and what else it says."""

    after: int
    before: int
    served_at: int | None = None
    is_full: bool = False
    is_late: bool = False
    """Whether the tail waited for the service's clock before it asked."""


REFUSED = "refused"
Turn = tuple[tuple[int, int | None], Told | str]
"""The bounds that the tail must ask with, and the service's answer."""


@frozen
class End:
    """The result of a conversation."""

    reached: int
    """The second before which all is left to the page or the walkers at the end."""
    then: tuple[int, int | None] | None = None
    """Bounds of the next question."""
    is_finished: bool = False
    is_answer: bool = True
    """Whether the last page answers for the seconds passed by it."""


full = partial(Told, is_full=True)
late = partial(Told, is_late=True)
done = partial(End, is_finished=True)


FUTURE = NOW + YEAR
OPEN = (0, None)
ALL = (0, NOW)
NEXT = (NOW - 1, None)
BACK = (NOW - 2, None)
LAST = (NOW - 1, FUTURE)
NEAR = (NOW - 1, NOW + 59)
HALF = (END_OF_TIME // 2, None)
THREE_QUARTERS = (3 * END_OF_TIME // 4, None)
PRESENT: Turn = (OPEN, Told(0, NOW + 1))
NO_FUTURE: list[Turn] = [PRESENT, (LAST, REFUSED)]
FULL_LAST: list[Turn] = [PRESENT, (LAST, full(*LAST))]
OVERFULL: Turn = (NEXT, full(NOW - 1, NOW + 1))
CLOSED: dict[str, Any] = {"upper_bound": NOW}
FOLLOWED: dict[str, Any] = {"date_ahead": 0}

# How the tail begins, what is asked and answered, and what the tail makes of it.
# fmt: off
TALKS: dict[str, tuple[dict[str, Any], list[Turn], End]] = {
    "the present is taken one second earlier than it is echoed": ({},
        [(OPEN, Told(0, NOW))],
        End(NOW - 1, then=(NOW - 2, FUTURE - 1))),
    "a complete page with a bound in the future is the last": ({},
        [PRESENT, (LAST, Told(*LAST))],
        done(NOW)),
    "a last page that is full is walked first": ({},
        [*FULL_LAST, (NEXT, full(NOW - 1, NOW + 10))],
        End(NOW + 9, then=(NOW + 8, NOW + 69), is_answer=False)),
    "a last page that is full of rows behind the present gets a near bound": ({},
        [*FULL_LAST, (NEXT, Told(NOW - 1, NOW + 1)), (NEXT, late(NOW - 1, NOW + 2)),
         ((NOW, NOW + 61), Told(NOW, NOW + 61)), ((NOW, None), Told(NOW, NOW + 2))],
        done(NOW + 1)),
    "two pages of different seconds replace the last": ({},
        [*NO_FUTURE, (NEXT, Told(NOW - 1, NOW + 1)), (BACK, Told(NOW - 2, NOW + 2))],
        done(NOW + 1)),
    "two pages of one second prove nothing": ({},
        [*NO_FUTURE, (NEXT, Told(NOW - 1, NOW + 1)), (BACK, Told(NOW - 2, NOW + 1)),
         (BACK, late(NOW - 2, NOW + 2))],
        done(NOW + 1)),
    "a page of the same second answers, and is not the last": ({},
        [*NO_FUTURE, (NEXT, Told(NOW - 1, NOW + 1)), (BACK, Told(NOW - 2, NOW + 1))],
        End(NOW, then=BACK)),
    "a page whose echo moves back with the lower bound answers, and is not the last": ({},
        [*NO_FUTURE, (NEXT, Told(NOW - 1, NOW + 99)), (BACK, Told(NOW - 2, NOW + 98))],
        End(NOW + 97, then=(NOW + 96, None))),
    "an echo that moves back with the lower bound is a window cut short": ({},
        [*NO_FUTURE, (NEXT, Told(NOW - 1, NOW + 99)), (BACK, Told(NOW - 2, NOW + 98)),
         ((NOW + 96, None), Told(NOW + 96, NOW + 196))],
        End(NOW + 195)),
    "a bound lowered to the present is given up": ({},
        [PRESENT, (LAST, Told(NOW - 1, NOW + 1)), (NEXT, Told(NOW - 1, NOW + 1)),
         (BACK, Told(NOW - 2, NOW + 3))],
        done(NOW + 2)),
    "a window cut at its end brings the last bound near": ({},
        [PRESENT, (LAST, full(*NEAR)), (NEAR, Told(*NEAR)), (NEXT, Told(NOW - 1, NOW + 58))],
        done(NOW + 57)),
    "a window cut at its start brings the last bound near": ({},
        [PRESENT, (LAST, full(FUTURE - 60, FUTURE)), (NEAR, Told(*NEAR)),
         (NEXT, Told(NOW - 1, NOW + 58))],
        done(NOW + 57)),
    "a near bound that the present has reached is given up": ({},
        [PRESENT, (LAST, Told(*NEAR)), (NEAR, Told(*NEAR)), (NEXT, Told(*NEAR)),
         (NEXT, Told(*NEAR))],
        End(NOW + 58, then=(NOW + 57, None))),
    "a clock that does not move ends the walk after some patience": ({},
        [*NO_FUTURE, (NEXT, Told(NOW - 1, NOW)), (BACK, Told(NOW - 2, NOW)),
         *[(BACK, late(NOW - 2, NOW))] * 3],
        done(NOW)),
    "a current second that overfills a page is walked once it never passes": ({},
        [*FULL_LAST, OVERFULL, *[(NEXT, full(NOW - 1, NOW + 1, is_late=True))] * 3],
        End(NOW + 1, is_answer=False)),
    "no second behind a present that does not pass is walked": ({"reached": NOW + 2},
        [((NOW + 1, None), full(NOW, NOW)), ((NOW + 1, FUTURE + 2), full(NOW, NOW)),
         *[((NOW + 1, None), full(NOW, NOW, is_late=late)) for late in (False, True, True, True)]],
        done(NOW + 2, is_answer=False)),
    "a clock that has moved is waited for no more": ({},
        [*FULL_LAST, OVERFULL, (NEXT, full(NOW - 1, NOW + 3, is_late=True)),
         ((NOW + 1, NOW + 62), Told(NOW + 1, NOW + 62)), ((NOW + 1, None), Told(NOW + 1, NOW + 4))],
        done(NOW + 3)),
    "a complete page without an upper bound is all": ({},
        [(OPEN, Told(0, 10**11, NOW + 1))],
        done(0)),
    "a full page without an upper bound is walked to its Date": ({},
        [(OPEN, full(0, 10**11, NOW + 1))],
        End(NOW, is_answer=False)),
    "a full page that tells no time has the present sought by halves": ({},
        [(OPEN, full(0, 10**11)), (HALF, full(HALF[0], 10**11)), (THREE_QUARTERS, REFUSED)],
        End(0, then=(5 * END_OF_TIME // 8, None), is_answer=False)),
    "a present that is told no more is sought from where the walk is": ({},
        [*FULL_LAST, (NEXT, full(NOW - 1, 10**11))],
        End(NOW, then=((NOW + END_OF_TIME) // 2, None), is_answer=False)),
    "a time that is not told yet is waited for": ({"reached": END_OF_TIME - 3},
        [((END_OF_TIME - 4, None), full(END_OF_TIME - 4, 10**11)),
         ((END_OF_TIME - 2, None), Told(END_OF_TIME - 3, 10**11)),
         ((END_OF_TIME - 4, None), full(END_OF_TIME - 4, 10**11, is_late=True))],
        End(END_OF_TIME - 3, then=(END_OF_TIME - 4, None), is_answer=False)),
    "a time that is told no more between two pages is sought": ({},
        [*NO_FUTURE, (NEXT, full(NOW - 1, 10**11))],
        End(NOW, then=((NOW + END_OF_TIME) // 2, None), is_answer=False)),
    "without an upper bound and with a raised start it is not all": ({},
        [(OPEN, Told(500, 10**11, NOW))],
        End(NOW - 1)),
    "a walk ahead of the service's own clock ends": ({"reached": 400 * DAY},
        [((400 * DAY - 1, None), Told(400 * DAY - 1, 401 * DAY, NOW))],
        done(400 * DAY)),
    "a Date that is days behind ends no walk": ({"reached": 10 * DAY},
        [((10 * DAY - 1, None), Told(10 * DAY - 1, 11 * DAY, NOW))],
        End(11 * DAY - 1)),
    "one complete page is all of a small span": (CLOSED,
        [(ALL, Told(*ALL))],
        done(0)),
    "a span that ended days ago is covered by a complete page": (CLOSED,
        [(ALL, Told(*ALL, NOW + 2 * DAY))],
        done(NOW + 1)),
    "a span that ended days ago is walked if its page is full": (CLOSED,
        [(ALL, full(*ALL, NOW + 2 * DAY))],
        done(NOW + 1, is_answer=False)),
    "a span that ended a day ago may not have passed": (CLOSED,
        [(ALL, full(*ALL, NOW + DAY))],
        End(0, then=OPEN, is_answer=False)),
    "a span of one second is no window cut short": ({"upper_bound": 1},
        [((0, 1), Told(0, 1, 500))],
        done(0)),
    "a bound that passed long ago ends the walk with its page": (CLOSED,
        [(ALL, full(*ALL)), (OPEN, full(0, NOW - 50)),
         ((NOW - 52, NOW), Told(NOW - 52, NOW, NOW + 2 * DAY))],
        done(NOW + 1)),
    "a page behind the upper bound only says that it has passed": (CLOSED,
        [(ALL, full(*ALL)), (OPEN, Told(0, NOW + 9))],
        done(NOW + 1, is_answer=False)),
    "a bound ahead of the present is asked for again at the end": (CLOSED,
        [(ALL, full(*ALL)), (OPEN, full(0, NOW - 50)), ((NOW - 52, NOW), Told(NOW - 52, NOW))],
        done(NOW - 51)),
    "a followed walk ends at a present close to Date": (FOLLOWED,
        [(OPEN, Told(0, NOW, NOW + 4))],
        done(NOW - 1)),
    "a followed walk knows how far Date is from the present": ({"date_ahead": -7_200},
        [(OPEN, Told(0, NOW, NOW - 7_203))],
        done(NOW - 1)),
    "a followed walk ends at its present, walked if the page is full": (FOLLOWED,
        [(OPEN, full(0, NOW, NOW))],
        done(NOW - 1, is_answer=False)),
    "a followed walk without a Date is like any other": (FOLLOWED,
        [(OPEN, Told(0, NOW))],
        End(NOW - 1, then=(NOW - 2, FUTURE - 1))),
    "a followed walk goes on where the window may have been cut short": (FOLLOWED,
        [(OPEN, Told(0, NOW, NOW + 60)), ((NOW - 2, FUTURE - 1), REFUSED),
         (BACK, Told(NOW - 2, NOW + 5, NOW + 5))],
        End(NOW - 1, then=(NOW - 3, None))),
    "a followed walk without an upper bound ends at Date": (FOLLOWED,
        [(OPEN, Told(0, 10**11, NOW + 1))],
        done(NOW)),
    "a followed walk moves nothing back": (FOLLOWED | {"reached": NOW},
        [(NEXT, Told(NOW - 1, NOW - 500, NOW - 500))],
        done(NOW)),
}
# fmt: on


def answer(told: Told) -> Answer:
    """Make an answer without rows that has these values."""
    return Answer(
        page=NO_ROWS,
        echo=Window(told.after, told.before),
        rows={},
        is_full=told.is_full,
        served_at=told.served_at,
    )


def begun(
    *, reached: int = 0, upper_bound: int | None = None, date_ahead: int | None = None
) -> Tail:
    """Make a tail."""
    return Tail(
        max(0, reached - 1), reached=reached, upper_bound=upper_bound, date_ahead=date_ahead
    )


@pytest.mark.parametrize(("tail_of", "turns", "end"), TALKS.values(), ids=TALKS)
def test_the_tail_asks_and_ends_as_the_answers_tell(
    tail_of: dict[str, Any], turns: list[Turn], end: End
) -> None:
    """Each question and each conclusion from an answer are as expected."""
    tail, is_answer = begun(**tail_of), True
    for asked, told in turns:
        assert not tail.is_finished
        must_wait, bounds = tail.must_wait, tail.next()
        assert bounds == Bounds(*asked)
        if isinstance(told, str):
            assert tail.refuse(bounds)
            continue
        assert must_wait is told.is_late
        is_answer = tail.receive(bounds, answer(told))
    assert (tail.reached, tail.is_finished) == (end.reached, end.is_finished)
    assert is_answer is end.is_answer
    if end.then is not None:
        assert tail.next() == Bounds(*end.then)


def test_the_talks_take_every_way_of_the_table() -> None:
    """Each pair of states that an event connects occurs in a conversation, and no other pair."""
    taken = set()
    for tail_of, turns, _ in TALKS.values():
        tail = begun(**tail_of)
        for _, told in turns:
            state, bounds = tail.state, tail.next()
            tail.refuse(bounds) if isinstance(told, str) else tail.receive(bounds, answer(told))
            taken.add((state, tail.state))
    assert taken == {(state, then) for state, row in TRANSITIONS.items() for then in row.values()}


def test_every_state_but_the_last_has_a_row() -> None:
    """Only the end of the walk has none."""
    assert TRANSITIONS.keys() == set(State) - {State.FINISHED}


EDGES = st.sampled_from([-YEAR, -60, -2, -1, 0, 1, 2, 60, YEAR, 10**11])


@given(
    reached=st.sampled_from([0, NOW]),
    upper_bound=st.sampled_from([None, NOW, NOW + 2, NOW + DAY]),
    date_ahead=st.sampled_from([None, 0]),
    answers=st.lists(
        st.tuples(EDGES, EDGES, EDGES | st.none(), st.booleans(), st.booleans()), max_size=30
    ),
)
def test_every_state_has_an_answer_to_every_page(
    reached: int,
    upper_bound: int | None,
    date_ahead: int | None,
    answers: list[tuple[int, int, int | None, bool, bool]],
) -> None:
    """For any echo or refusal, the walk moves along the table, and never back."""
    tail = begun(reached=reached, upper_bound=upper_bound, date_ahead=date_ahead)
    for after, before, date, is_full, is_refused in answers:
        if tail.is_finished:
            break
        state, start, bounds = tail.state, tail.reached, tail.next()
        if is_refused and tail.refuse(bounds):
            continue
        told = Told(
            bounds.after + after,
            (NOW if bounds.before is None else bounds.before) + before,
            None if date is None else NOW + date,
            is_full=is_full,
        )
        try:
            is_answer = tail.receive(bounds, answer(told))
        except UnexpectedResponseError:
            assert (tail.state, tail.reached) == (state, start)
            continue
        is_past = upper_bound is not None and tail.reached > upper_bound
        assert tail.is_finished if is_past else tail.state in TRANSITIONS[state].values()
        assert tail.reached >= start
        assert not (is_answer and is_full)


@pytest.mark.parametrize("upper_bound", [None, NOW])
def test_a_question_that_no_other_can_replace_must_not_be_refused(upper_bound: int | None) -> None:
    """Neither the one without an upper bound, nor the one with the caller's."""
    assert not begun(upper_bound=upper_bound).refuse(Bounds(0, upper_bound))


def test_a_page_that_proves_nothing_moves_nothing() -> None:
    """Windows of a second or two are refused at the end, and the walk stays where it was."""
    tail = begun(upper_bound=20)
    for told in (Told(0, 2, 500), Told(0, 1), Told(0, 1, 15), Told(0, 1)):
        tail.receive(tail.next(), answer(told))
    with pytest.raises(UnexpectedResponseError):
        tail.receive(tail.next(), answer(Told(0, 2, 500)))
    assert (tail.reached, tail.is_finished) == (0, False)
