"""``income-client doctor`` looks at emulated services of every habit, and says what is so."""

from itertools import product
from typing import Any, Final

import pytest

from income_client import IncomeClient
from income_client.cli.checking.facts import Facts, Verdict
from income_client.cli.doctor import examine
from income_client.emulator import Emulator
from income_client.emulator.seconds import START, second_of
from tests.cli.doctoring import (
    CappedEmulator,
    DistantEmulator,
    account,
    by_check,
    facts_about,
    findings_about,
)

NOW: Final = second_of(START)
_MOST_REQUESTS: Final = 40
_WORDS: Final = {False: "exclusive", True: "inclusive"}
_WEEK: Final = 7 * 86_400


@pytest.mark.parametrize(
    ("lower", "upper", "order"),
    list(product((False, True), (False, True), ("ascending", "descending", "shuffled", "random"))),
)
async def test_each_meaning_of_the_bounds_is_told(lower: bool, upper: bool, order: str) -> None:
    """For all four meanings and in every order of rows, the verdict is the emulator's rule."""
    async with Emulator(2000, lower_closed=lower, upper_closed=upper, order=order) as service:
        found = await findings_about(service)
    assert found["bounds"].verdict is Verdict.OK
    assert found["bounds"].finding == (
        f"updated_after is {_WORDS[lower]}, updated_before is {_WORDS[upper]} (3 rows looked for)"
    )
    told = order if order in {"ascending", "descending"} else "none"
    assert found["row order"].finding.startswith(f"{told} by update time")
    assert ("another one" in found["row order"].finding) == (order == "random")


@pytest.mark.parametrize(("lower", "upper"), list(product((False, True), (False, True))))
async def test_a_zone_of_its_own_changes_no_verdict(lower: bool, upper: bool) -> None:
    """The list's times may be hours from last_updated_at; the zone is told, and the bounds too."""
    async with DistantEmulator(
        300, shift=-5 * 3600, lower_closed=lower, upper_closed=upper
    ) as service:
        found = await findings_about(service)
    assert found["service time"].finding == "times without zone are UTC-05:00"
    assert f"updated_after is {_WORDS[lower]}, updated_before is {_WORDS[upper]}" in (
        found["bounds"].finding
    )


@pytest.mark.parametrize(
    ("applications", "knobs", "reason"),
    [
        (0, {}, "the service lists no application"),
        ([NOW] * 3, {"future": "refuse", "upper_closed": True}, "a question was not answered"),
        (
            [NOW] * 3,
            {"future": "clamp", "upper_closed": True},
            "the service answered for another window",
        ),
        ([NOW - 5000] * 20_000, {"order": "random"}, "more rows share those seconds"),
    ],
)
async def test_what_cannot_be_told_has_its_reason(
    applications: Any, knobs: dict[str, Any], reason: str
) -> None:
    """No verdict without evidence, and the reason why there is none."""
    async with Emulator(applications, **knobs) as service:
        found = await findings_about(service)
    assert found["bounds"].verdict is Verdict.NOTE
    assert found["bounds"].finding.startswith(f"cannot be told: {reason}")


async def test_rows_that_move_meanwhile_tell_nothing() -> None:
    """Where everything is updated while it is looked at, nothing is concluded of it."""

    def move(_: int) -> None:
        for application_id in service.world.ids:
            service.advance(1)
            service.touch(application_id)

    async with Emulator(4) as service:
        facts = await examine(account(service.url, service.oauth2), move)
    assert by_check(facts)["bounds"].finding.startswith("cannot be told")


@pytest.mark.parametrize(
    ("knobs", "check", "words"),
    [
        ({"max_span": _WEEK}, "wide windows", "cut to 7 days"),
        ({"max_span": _WEEK, "span_clamp": "before"}, "wide windows", "cut to 7 days"),
        ({"max_span": _WEEK, "span_clamp": "before"}, "default window", "before the present"),
        ({"max_span": _WEEK, "span_clamp": "before"}, "bounds", "(3 rows looked for)"),
        ({"oldest": NOW - 2 * _WEEK}, "wide windows", "nothing older than 14 days"),
        ({}, "wide windows", "served from the beginning of time"),
        ({"default_span": 86_400}, "default window", "the last 1 day"),
        ({"default_span": 86_400}, "wide windows", "served from the beginning of time"),
        ({"future": "accept"}, "future bounds", "taken as they are"),
        ({"future": "clamp"}, "future bounds", "lowered to the present"),
        ({"future": "refuse"}, "future bounds", "refused"),
        ({"clock_offset": 40}, "service time", "40 s behind Date"),
        ({"clock_offset": 7200}, "service time", "2 hours from Date, and rows are not"),
        ({}, "service time", "times without zone are UTC"),
    ],
)
async def test_each_habit_is_told(knobs: dict[str, Any], check: str, words: str) -> None:
    """What the emulator was told to do is what the report says."""
    async with Emulator(2000, **knobs) as service:
        found = await findings_about(service)
    assert words in found[check].finding
    assert all(each.verdict is not Verdict.FAILED for each in found.values())


@pytest.mark.parametrize("applications", [500, 20])
async def test_pages_that_hide_rows_are_a_failure(applications: int) -> None:
    """A page below the limit is taken for all there is, so that one that is not loses rows."""
    async with CappedEmulator(applications) as service:
        found = await findings_about(service)
    is_hiding = applications > service.cap
    assert (found["limit"].verdict is Verdict.FAILED) == is_hiding
    assert ("hid" in found["limit"].finding) == is_hiding


@pytest.mark.parametrize(
    ("applications", "knobs"),
    [(5000, {}), (40, {}), (500, {"max_span": _WEEK}), (40, {"clock_offset": 7200})],
)
async def test_it_asks_no_more_than_it_says(applications: int, knobs: dict[str, Any]) -> None:
    """Whatever it meets, it stays within its requests, and asks one at a time."""
    async with Emulator(applications, **knobs) as service:
        await facts_about(service)
        assert len(service.requests) <= _MOST_REQUESTS
        assert service.max_in_flight == 1
        assert service.token_requests == 1


async def test_nothing_is_sent_without_need() -> None:
    """The first questions carry no credentials and ask for no body."""
    async with Emulator(5) as service:
        await facts_about(service)
        methods = [request.method for request in service.requests[:3]]
    assert methods == ["HEAD"] * 3


async def test_basic_credentials_need_no_token() -> None:
    """Where they are taken, that is said, and no token is bought."""
    async with Emulator(5) as service:
        facts = await examine(account(service.url, service.basic), lambda _: None)
        assert service.token_requests == 0
    assert by_check(facts)["credentials"].finding == "user name and password are taken"


async def test_facts_hold_nothing_secret() -> None:
    """No secret, no name of a borrower and no id is in what was found out."""
    async with Emulator(5) as service:
        facts = await facts_about(service)
        forbidden = {service.oauth2.client_secret.reveal(), *service.world.ids}
        async with IncomeClient(service.url, auth=service.oauth2) as client:
            for application_id in service.world.ids:
                read = await client.get_application(application_id)
                forbidden.add(read.application_reference_id)
                forbidden |= {each.last_name for each in read.applicants.values()}
                forbidden |= {each.ssn for each in read.applicants.values()}
    assert isinstance(facts, Facts)
    assert not [each for each in forbidden if each in repr(facts)]
