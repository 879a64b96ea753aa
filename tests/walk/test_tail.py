"""How a walk learns the present and ends there, as talks between its tail and a service."""

from typing import Any

import pytest
from attrs import field, frozen

from income_client.errors import UnexpectedResponseError
from income_client.records.applications import ApplicationPage
from income_client.records.window import EPOCH, Window
from income_client.walk.tail import Tail
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
    is_full: bool = False
    served_at: int | None = None
    is_late: bool = False
    """Whether the tail waited for the service's clock before it asked."""


REFUSED = "refused"
Turn = tuple[tuple[int, int | None], Told | str]
"""The bounds that the tail must ask with, and the service's answer."""


@frozen(kw_only=True)
class Talk:
    """What is asked and answered, and what the tail makes of it."""

    turns: list[Turn]
    reached: int
    """The second before which all is left to the page or the walkers at the end."""
    is_finished: bool = False
    is_answer: bool = True
    """Whether the last page answers for the seconds passed by it."""
    then: tuple[int, int | None] | None = None
    """What is asked next."""
    tail: dict[str, Any] = field(factory=dict)
    """How the tail begins."""


PRESENT: Turn = ((0, None), Told(0, NOW + 1))
NEXT_PRESENT = (NOW - 1, None)
LAST = (NOW - 1, NOW + YEAR)
NEAR = (NOW - 1, NOW + 59)
NO_FUTURE: list[Turn] = [PRESENT, (LAST, REFUSED)]
CLOSED: dict[str, Any] = {"upper_bound": NOW}
ALL = (0, NOW)
UNMOVED: Turn = ((NOW - 2, None), Told(NOW - 2, NOW, is_late=True))
OVERFULL: Turn = (NEXT_PRESENT, Told(NOW - 1, NOW + 1, is_full=True))
STILL_OVERFULL: Turn = (NEXT_PRESENT, Told(NOW - 1, NOW + 1, is_full=True, is_late=True))
ALL_FULL: Turn = (ALL, Told(*ALL, is_full=True))
FOLLOWED: dict[str, Any] = {"date_ahead": 0}

TALKS: dict[str, Talk] = {
    "the present is taken one second earlier than it is echoed": Talk(
        turns=[((0, None), Told(0, NOW))], reached=NOW - 1, then=(NOW - 2, NOW - 1 + YEAR)
    ),
    "a complete page with a bound in the future is the last": Talk(
        turns=[PRESENT, (LAST, Told(*LAST))], reached=NOW, is_finished=True
    ),
    "a last page that is full is walked first": Talk(
        turns=[
            PRESENT,
            (LAST, Told(*LAST, is_full=True)),
            (NEXT_PRESENT, Told(NOW - 1, NOW + 10, is_full=True)),
        ],
        reached=NOW + 9,
        is_answer=False,
        then=(NOW + 8, NOW + 9 + YEAR),
    ),
    "two pages of different seconds replace the last": Talk(
        turns=[
            *NO_FUTURE,
            (NEXT_PRESENT, Told(NOW - 1, NOW + 1)),
            ((NOW - 2, None), Told(NOW - 2, NOW + 2)),
        ],
        reached=NOW + 1,
        is_finished=True,
    ),
    "two pages of one second prove nothing": Talk(
        turns=[
            *NO_FUTURE,
            (NEXT_PRESENT, Told(NOW - 1, NOW + 1)),
            ((NOW - 2, None), Told(NOW - 2, NOW + 1)),
            ((NOW - 2, None), Told(NOW - 2, NOW + 2, is_late=True)),
        ],
        reached=NOW + 1,
        is_finished=True,
    ),
    "an echo that moves back with the lower bound is a window cut short": Talk(
        turns=[
            *NO_FUTURE,
            (NEXT_PRESENT, Told(NOW - 1, NOW + 99)),
            ((NOW - 2, None), Told(NOW - 2, NOW + 98)),
            ((NOW + 96, None), Told(NOW + 96, NOW + 196)),
        ],
        reached=NOW + 195,
    ),
    "a bound lowered to the present is given up": Talk(
        turns=[
            PRESENT,
            (LAST, Told(NOW - 1, NOW + 1)),
            (NEXT_PRESENT, Told(NOW - 1, NOW + 1)),
            ((NOW - 2, None), Told(NOW - 2, NOW + 3)),
        ],
        reached=NOW + 2,
        is_finished=True,
    ),
    "a window cut at its end brings the last bound near": Talk(
        turns=[
            PRESENT,
            (LAST, Told(*NEAR, is_full=True)),
            (NEAR, Told(*NEAR)),
            (NEXT_PRESENT, Told(NOW - 1, NOW + 58)),
        ],
        reached=NOW + 57,
        is_finished=True,
    ),
    "a window cut at its start brings the last bound near": Talk(
        turns=[
            PRESENT,
            (LAST, Told(NOW + YEAR - 60, NOW + YEAR, is_full=True)),
            (NEAR, Told(*NEAR)),
            (NEXT_PRESENT, Told(NOW - 1, NOW + 58)),
        ],
        reached=NOW + 57,
        is_finished=True,
    ),
    "a near bound that the present has reached is given up": Talk(
        turns=[
            PRESENT,
            (LAST, Told(*NEAR)),
            (NEAR, Told(*NEAR)),
            (NEXT_PRESENT, Told(NOW - 1, NOW + 59)),
        ],
        reached=NOW + 58,
        then=(NOW + 57, None),
    ),
    "a clock that does not move ends the walk after some patience": Talk(
        turns=[
            *NO_FUTURE,
            (NEXT_PRESENT, Told(NOW - 1, NOW)),
            ((NOW - 2, None), Told(NOW - 2, NOW)),
            *[UNMOVED] * 3,
        ],
        reached=NOW,
        is_finished=True,
    ),
    "a current second that overfills a page is walked once it never passes": Talk(
        turns=[
            PRESENT,
            (LAST, Told(*LAST, is_full=True)),
            OVERFULL,
            *[STILL_OVERFULL] * 3,
        ],
        reached=NOW + 1,
        is_answer=False,
    ),
    "a clock that has moved is waited for no more": Talk(
        turns=[
            PRESENT,
            (LAST, Told(*LAST, is_full=True)),
            OVERFULL,
            (NEXT_PRESENT, Told(NOW - 1, NOW + 3, is_full=True, is_late=True)),
            ((NOW + 1, NOW + 2 + YEAR), Told(NOW + 1, NOW + 2 + YEAR)),
        ],
        reached=NOW + 2,
        is_finished=True,
    ),
    "a complete page without an upper bound is all": Talk(
        turns=[((0, None), Told(0, 10**11, served_at=NOW + 1))], reached=0, is_finished=True
    ),
    "a full page without an upper bound is walked to its Date": Talk(
        turns=[((0, None), Told(0, 10**11, is_full=True, served_at=NOW + 1))],
        reached=NOW,
        is_answer=False,
    ),
    "without an upper bound and with a raised start it is not all": Talk(
        turns=[((0, None), Told(500, 10**11, served_at=NOW))], reached=NOW - 1
    ),
    "a walk ahead of the service's own clock ends": Talk(
        tail={"reached": 400 * DAY},
        turns=[((400 * DAY - 1, None), Told(400 * DAY - 1, 401 * DAY, served_at=NOW))],
        reached=400 * DAY,
        is_finished=True,
    ),
    "a Date that is days behind ends no walk": Talk(
        tail={"reached": 10 * DAY},
        turns=[((10 * DAY - 1, None), Told(10 * DAY - 1, 11 * DAY, served_at=NOW))],
        reached=11 * DAY - 1,
    ),
    "one complete page is all of a small span": Talk(
        tail=CLOSED, turns=[(ALL, Told(*ALL))], reached=0, is_finished=True
    ),
    "a span that ended days ago is covered by a complete page": Talk(
        tail=CLOSED,
        turns=[(ALL, Told(*ALL, served_at=NOW + 2 * DAY))],
        reached=NOW + 1,
        is_finished=True,
    ),
    "a span that ended days ago is walked if its page is full": Talk(
        tail=CLOSED,
        turns=[(ALL, Told(*ALL, is_full=True, served_at=NOW + 2 * DAY))],
        reached=NOW + 1,
        is_finished=True,
        is_answer=False,
    ),
    "a page behind the upper bound only says that it has passed": Talk(
        tail=CLOSED,
        turns=[ALL_FULL, ((0, None), Told(0, NOW + 9))],
        reached=NOW + 1,
        is_finished=True,
        is_answer=False,
    ),
    "a bound ahead of the present is asked for again at the end": Talk(
        tail=CLOSED,
        turns=[
            ALL_FULL,
            ((0, None), Told(0, NOW - 50, is_full=True)),
            ((NOW - 52, NOW), Told(NOW - 52, NOW)),
        ],
        reached=NOW - 51,
        is_finished=True,
    ),
    "a followed walk ends at a present close to Date": Talk(
        tail=FOLLOWED,
        turns=[((0, None), Told(0, NOW, served_at=NOW + 4))],
        reached=NOW - 1,
        is_finished=True,
    ),
    "a followed walk knows how far Date is from the present": Talk(
        tail={"date_ahead": -7_200},
        turns=[((0, None), Told(0, NOW, served_at=NOW - 7_203))],
        reached=NOW - 1,
        is_finished=True,
    ),
    "a followed walk ends at its present, walked if the page is full": Talk(
        tail=FOLLOWED,
        turns=[((0, None), Told(0, NOW, is_full=True, served_at=NOW))],
        reached=NOW - 1,
        is_finished=True,
        is_answer=False,
    ),
    "a followed walk without a Date is like any other": Talk(
        tail=FOLLOWED,
        turns=[((0, None), Told(0, NOW))],
        reached=NOW - 1,
        then=(NOW - 2, NOW - 1 + YEAR),
    ),
    "a followed walk goes on where the window may have been cut short": Talk(
        tail=FOLLOWED,
        turns=[
            ((0, None), Told(0, NOW, served_at=NOW + 60)),
            ((NOW - 2, NOW - 1 + YEAR), REFUSED),
            ((NOW - 2, None), Told(NOW - 2, NOW + 5, served_at=NOW + 5)),
        ],
        reached=NOW - 1,
        then=(NOW - 3, None),
    ),
    "a followed walk without an upper bound ends at Date": Talk(
        tail=FOLLOWED,
        turns=[((0, None), Told(0, 10**11, served_at=NOW + 1))],
        reached=NOW,
        is_finished=True,
    ),
    "a followed walk moves nothing back": Talk(
        tail=FOLLOWED | {"reached": NOW},
        turns=[((NOW - 1, None), Told(NOW - 1, NOW - 500, served_at=NOW - 500))],
        reached=NOW,
        is_finished=True,
    ),
}


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


@pytest.mark.parametrize("talk", TALKS.values(), ids=TALKS)
def test_the_tail_asks_and_ends_as_the_answers_tell(talk: Talk) -> None:
    """Each question is as expected, and so is what is concluded from its answer."""
    tail, is_answer = begun(**talk.tail), True
    for turn in talk.turns:
        assert not tail.is_finished
        must_wait, bounds = tail.must_wait, tail.next()
        asked, told = turn
        assert bounds == Bounds(*asked)
        if isinstance(told, str):
            assert tail.refuse(bounds)
            continue
        assert must_wait is told.is_late
        is_answer = tail.receive(bounds, answer(told))
    assert (tail.reached, tail.is_finished) == (talk.reached, talk.is_finished)
    assert is_answer is talk.is_answer
    if talk.then is not None:
        assert tail.next() == Bounds(*talk.then)


@pytest.mark.parametrize("upper_bound", [None, NOW])
def test_a_question_that_no_other_can_replace_must_not_be_refused(upper_bound: int | None) -> None:
    """Neither the one without an upper bound, nor the one with the caller's."""
    assert not begun(upper_bound=upper_bound).refuse(Bounds(0, upper_bound))


def test_a_page_that_proves_nothing_moves_nothing() -> None:
    """Windows of a second or two are refused at the end, and the walk stays where it was."""
    tail = begun(upper_bound=20)
    for told in (
        Told(0, 2, served_at=500),
        Told(0, 1),
        Told(0, 1, served_at=15),
        Told(0, 1),
    ):
        tail.receive(tail.next(), answer(told))
    with pytest.raises(UnexpectedResponseError):
        tail.receive(tail.next(), answer(Told(0, 2, served_at=500)))
    assert (tail.reached, tail.is_finished) == (0, False)
