"""What an echoed window says about the seconds asked for."""

from datetime import timedelta

import pytest

from income_client.errors import UnexpectedResponseError
from income_client.records.applications import ApplicationPage
from income_client.records.window import EPOCH, Window
from income_client.walk.windows import Answer, Bounds, split_by_echo

ASKED = Window(100, 200)
SENT = Bounds(99, 200)
NOTHING = Window(0, 0)

CASES = {
    "as asked": (Window(99, 200), Window(100, 200), []),
    "wider at both ends": (Window(0, 900), Window(100, 200), []),
    "cut at its start": (Window(149, 200), Window(150, 200), [Window(100, 150)]),
    "cut at its end": (Window(99, 150), Window(100, 150), [Window(150, 200)]),
    "cut at both": (Window(119, 150), Window(120, 150), [Window(100, 120), Window(150, 200)]),
    "nothing so old is kept": (Window(500, 500), Window(100, 200), []),
    "nothing so old is kept, end as asked": (Window(500, 200), Window(100, 200), []),
    "the present is earlier": (Window(99, 99), Window(100, 200), []),
    "only the last second lies within": (
        Window(199, 200),
        NOTHING,
        [Window(100, 199), Window(199, 200)],
    ),
}


@pytest.mark.parametrize(("echo", "covered", "left"), CASES.values(), ids=CASES)
def test_only_what_was_applied_is_covered(
    echo: Window, covered: Window, left: list[Window]
) -> None:
    """What lies strictly between the echoed bounds is answered for, and the rest is left."""
    found, rest = split_by_echo(ASKED, SENT, echo)
    assert rest == left
    assert found == covered or not (found or covered)


@pytest.mark.parametrize(
    "echo",
    [
        Window(500, 600),
        Window(10, 60),
        Window(201, 300),
        Window(10, 10),
        Window(99, 50),
        Window(600, 500),
    ],
)
def test_an_echo_of_another_window_is_an_error(echo: Window) -> None:
    """A page about other seconds is never taken for an empty one."""
    with pytest.raises(UnexpectedResponseError):
        split_by_echo(ASKED, SENT, echo)


def test_one_second_that_the_service_has_nothing_for_is_settled() -> None:
    """At the edge of what is kept a window cannot be cut further; the walk continues."""
    window = Window(100, 101)
    assert split_by_echo(window, Bounds(99, 101), Window(100, 101)) == (window, [])


def test_an_open_question_answers_up_to_what_was_echoed() -> None:
    """Without an upper bound the echo decides."""
    covered, _ = split_by_echo(Window(100, 150), Bounds(99, None), Window(99, 150))
    assert covered == Window(100, 150)


def test_a_fraction_of_a_second_never_makes_an_echo_wider() -> None:
    """The lower bound is rounded up and the upper one down."""
    moment = EPOCH + timedelta(seconds=10.5)
    page = ApplicationPage(updated_after=moment, updated_before=moment, applications=())
    assert Answer.of(page, 10, None).echo == Window(11, 10)
