"""What the list does gets its verdict, and where that cannot be told, the reason."""

from typing import Any, Final

import pytest
from attrs import evolve

from income_client.cli.checking.facts import Finding, Verdict
from income_client.cli.checking.list_facts import Clamp, Future, Limits, ListFacts
from income_client.cli.checking.times import Reading
from tests.cli.doctoring import by_check
from tests.cli.fine_facts import FINE

_LIMITS: Final = Limits(
    default_rows=25, large=1000, small_limit=5, small=5, hidden=None, repeats=True
)


def finding(check: str, **changes: Any) -> Finding:
    """Return one line about a list that is fine but for this."""
    lists = FINE.lists or ListFacts()
    return by_check(evolve(FINE, lists=evolve(lists, **changes)))[check]


@pytest.mark.parametrize(
    ("changes", "verdict", "words"),
    [
        (
            {},
            Verdict.OK,
            "asked for 1000, got 1000; asked for 5, got 5; 25 where none was asked for",
        ),
        ({"large": 40, "hidden": 0}, Verdict.OK, "all that there are"),
        ({"large": 40}, Verdict.NOTE, "whether there are more is not known"),
        ({"large": 50, "hidden": 12}, Verdict.FAILED, "hid 12 or more"),
        ({"large": 1500}, Verdict.WARNING, "1500 rows where 1000 were asked for"),
        ({"small": 25}, Verdict.WARNING, "25 rows where 5 were asked for"),
        ({"small": 3}, Verdict.WARNING, "and there are more"),
        ({"default_rows": 100}, Verdict.NOTE, "100 where none was asked for"),
        ({"large": 0, "small_limit": 0, "small": 0}, Verdict.NOTE, "nothing is listed"),
    ],
)
def test_limits(changes: dict[str, Any], verdict: Verdict, words: str) -> None:
    """A page that hides rows without being full loses them, and is the one failure."""
    said = finding("limit", limits=evolve(_LIMITS, **changes))
    assert said.verdict is verdict
    assert words in said.finding


@pytest.mark.parametrize(
    ("seconds", "repeats", "words"),
    [
        ((1, 2, 3, 4), True, "ascending by update time, of 4 rows along a page"),
        ((4, 3, 2, 1), True, "descending by update time, of 4 rows along a page"),
        ((4, 3, 2, 1), False, "though other rows came when asked again"),
        ((4, 1, 3, 1), True, "none by update time, of 4 rows along a page"),
        ((4, 1, 3, 1), False, "and another one when asked again"),
        ((7, 7, 7, 7), True, "cannot be told: 1 update time of 4 rows along a page"),
    ],
)
def test_orders(seconds: tuple[int, ...], repeats: bool, words: str) -> None:
    """The order is told of rows along a page, and whether it stays."""
    limits = evolve(_LIMITS, repeats=repeats)
    said = finding("row order", update_seconds=seconds, limits=limits)
    assert words in said.finding
    assert said.verdict in {Verdict.OK, Verdict.NOTE}


@pytest.mark.parametrize("clamp", Clamp)
def test_wide_windows(clamp: Clamp) -> None:
    """Whatever becomes of them, it is told with the width that is left."""
    said = finding("wide windows", clamp=clamp, clamp_seconds=7 * 86_400)
    assert said.verdict is not Verdict.FAILED
    assert ("7 days" in said.finding) == (clamp is not Clamp.NONE)


@pytest.mark.parametrize("future", Future)
def test_future_bounds(future: Future) -> None:
    """Each answer to a bound in the future has words of its own."""
    said = finding("future bounds", future=future)
    assert (said.verdict is Verdict.OK) == (future is Future.ACCEPTED)


def test_a_short_default_window_is_a_note() -> None:
    """A raw page hides what is older, and the advice says that walks do not."""
    said = finding("default window", starts_at_the_beginning=False, default_span=86_400)
    assert said.verdict is Verdict.NOTE
    assert said.finding.endswith("the last 1 day")
    assert "walks" in said.advice


def present(ahead: int) -> tuple[Reading, ...]:
    """Return an echoed present that is so far ahead of the Date header."""
    return (Reading(second=1000 + ahead, sent_at=1000.2, received_at=1000.4),)


def test_a_zone_of_its_own_is_told() -> None:
    """Whole quarters of an hour are a zone, which the client must be told."""
    said = finding("service time", presents=present(-18_000), shift=-18_000)
    assert said.verdict is Verdict.WARNING
    assert said.finding == "times without zone are UTC-05:00"
    assert "service_timezone" in said.advice


@pytest.mark.parametrize(
    ("ahead", "verdict", "words"),
    [
        (0, Verdict.OK, "times without zone are UTC"),
        (-40, Verdict.NOTE, "times without zone are UTC, 40 s behind Date"),
        (3640, Verdict.WARNING, "UTC+01:00, 40 s ahead of Date"),
    ],
)
def test_echo_and_date_are_compared(ahead: int, verdict: Verdict, words: str) -> None:
    """Seconds apart are told beside the zone."""
    said = finding("service time", presents=present(ahead), shift=3600 if ahead > 3600 else 0)
    assert said.verdict is verdict
    assert words in said.finding


def test_echoes_that_contradict_each_other_are_told() -> None:
    """Two presents that cannot both be so are a warning."""
    said = finding("service time", presents=(*present(0), *present(500)))
    assert said.verdict is Verdict.WARNING


@pytest.mark.parametrize(
    ("read", "verdict"), [((1, 2, 3, 4), Verdict.WARNING), ((), Verdict.FAILED)]
)
def test_applications_that_cannot_be_read(read: tuple[int, ...], verdict: Verdict) -> None:
    """The usual error is told and how often; where nothing can be read it is a failure."""
    unread = ("NotFoundError: 404", "DecodeError: x", "NotFoundError: 404")
    said = finding("applications", update_seconds=read, unread=unread)
    assert said.verdict is verdict
    assert "2 times NotFoundError: 404" in said.finding
