"""What the list was seen to do tells what its bounds mean, or nothing at all."""

from collections.abc import Callable
from typing import Final

import pytest
from attrs import evolve, fields_dict, frozen
from hypothesis import given
from hypothesis import strategies as st

from income_client.cli.checking.list_facts import (
    Cannot,
    Meaning,
    RowOrder,
    Sight,
    Trial,
    meaning_of_bounds,
    order_of,
)

_WINDOWS: Final = {
    "before": (-1, 1),
    "at_lower": (0, 1),
    "at_upper": (-1, 0),
    "below": (-2, -1),
    "above": (1, 2),
    "after": (-1, 1),
}
"""Windows of a trial in the order in which they are asked for."""
_FACES: Final = st.sampled_from([Sight.HIDDEN, Sight.ELSEWHERE, Sight.UNASKED])


@frozen(kw_only=True)
class Rules:
    """What the bounds of a service mean."""

    lower_closed: bool
    upper_closed: bool

    def sight(self, second: float, after: int, before: int) -> Sight:
        """Say whether a row is listed, its time counted from the second that it shows."""
        is_in = (second >= after if self.lower_closed else second > after) and (
            second <= before if self.upper_closed else second < before
        )
        return Sight.THERE if is_in else Sight.ABSENT


def trial(rules: Rules, second_at: Callable[[int], float]) -> Trial:
    """Look for a row that may be elsewhere at each question."""
    seen = (rules.sight(second_at(turn), *window) for turn, window in enumerate(_WINDOWS.values()))
    return Trial(**dict(zip(_WINDOWS, seen, strict=True)))


_RULES: Final = st.builds(Rules, lower_closed=st.booleans(), upper_closed=st.booleans())


def test_every_question_has_its_window() -> None:
    """The windows above are those of a trial."""
    assert list(fields_dict(Trial)) == list(_WINDOWS)


@given(rules=_RULES, rows=st.integers(1, 4))
def test_each_meaning_is_recognised(rules: Rules, rows: int) -> None:
    """Rows that stay where they are tell which of the four meanings it is."""
    made = [trial(rules, lambda _: 0)] * rows
    assert meaning_of_bounds(made) == Meaning(
        lower_closed=rules.lower_closed, upper_closed=rules.upper_closed, rows=rows
    )


@given(rules=_RULES, turn=st.integers(0, 5), later=st.integers(2, 1000))
def test_a_row_that_moves_tells_nothing_wrong(rules: Rules, turn: int, later: int) -> None:
    """An update while it is looked for moves it away for good, and nothing is concluded."""
    made = trial(rules, lambda now: later if now >= turn else 0)
    assert isinstance(meaning_of_bounds([made]), Cannot)


@given(rules=_RULES, turn=st.integers(1, 5), before=st.integers(-1000, -2))
def test_a_row_that_shows_late_tells_nothing_wrong(rules: Rules, turn: int, before: int) -> None:
    """Where the list comes after the application, the first look says so."""
    made = trial(rules, lambda now: before if now < turn else 0)
    assert isinstance(meaning_of_bounds([made]), Cannot)


@given(rules=_RULES, shift=st.integers(-100, 100).filter(lambda n: abs(n) > 1))
def test_a_row_elsewhere_tells_nothing_wrong(rules: Rules, shift: int) -> None:
    """Another time than last_updated_at, by which the list goes, is noticed."""
    assert isinstance(meaning_of_bounds([trial(rules, lambda _: shift)]), Cannot)


@pytest.mark.parametrize("shift", [-1, 1])
@pytest.mark.parametrize("lower_closed", [False, True])
@pytest.mark.parametrize("upper_closed", [False, True])
def test_a_row_one_second_off_is_noticed_unless_it_is_the_same(
    shift: int, *, lower_closed: bool, upper_closed: bool
) -> None:
    """(a, b] of a second later lists just what [a, b) does, which is then what is said."""
    made = trial(Rules(lower_closed=lower_closed, upper_closed=upper_closed), lambda _: shift)
    found = meaning_of_bounds([made])
    if shift == 1 and not lower_closed and upper_closed:
        assert found == Meaning(lower_closed=True, upper_closed=False, rows=1)
    elif shift == -1 and lower_closed and not upper_closed:
        assert found == Meaning(lower_closed=False, upper_closed=True, rows=1)
    else:
        assert isinstance(found, Cannot)


@given(
    rules=_RULES,
    field=st.sampled_from(list(_WINDOWS)),
    face=_FACES,
)
def test_what_was_not_seen_is_not_taken_for_absent(rules: Rules, field: str, face: Sight) -> None:
    """A full page, another window or no page at any of the questions is the reason given."""
    spoilt = evolve(trial(rules, lambda _: 0), **{field: face})
    found = meaning_of_bounds([spoilt])
    assert isinstance(found, Cannot)
    assert found.value == face.value
    # The others still tell.
    assert isinstance(meaning_of_bounds([spoilt, trial(rules, lambda _: 0)]), Meaning)


def test_fractions_that_are_not_shown_are_noticed() -> None:
    """A whole second and half a second more, both shown as the same, contradict each other."""
    rules = Rules(lower_closed=False, upper_closed=False)
    made = [trial(rules, lambda _: 0), trial(rules, lambda _: 0.5)]
    assert meaning_of_bounds(made) is Cannot.MIXED


def test_no_row_is_a_reason() -> None:
    """Without a row there is nothing to look for."""
    assert meaning_of_bounds(()) is Cannot.NO_ROWS


@given(seconds=st.lists(st.integers(0, 50), min_size=4, max_size=12))
def test_order_is_the_same_backwards(seconds: list[int]) -> None:
    """Rows that rise one way fall the other; what is in no order is so both ways."""
    turned = {
        RowOrder.ASCENDING: RowOrder.DESCENDING,
        RowOrder.DESCENDING: RowOrder.ASCENDING,
    }
    found = order_of(seconds)
    assert order_of(seconds[::-1]) is turned.get(found, found)
    if found is RowOrder.ASCENDING:
        assert seconds == sorted(seconds)
    if found is RowOrder.NONE:
        assert seconds not in (sorted(seconds), sorted(seconds)[::-1])


@pytest.mark.parametrize("seconds", [(), (5,), (5, 5, 5, 5, 5), (1, 2, 3)])
def test_few_times_have_no_order(seconds: tuple[int, ...]) -> None:
    """A few rows are in some order by chance."""
    assert order_of(seconds) is RowOrder.UNTOLD
