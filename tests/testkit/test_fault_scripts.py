"""Scripts of faults mean what they say; what cannot be read is refused."""

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client import (
    ApplicationRecord,
    ConfigurationError,
    IncomeClient,
    RetryPolicy,
    ServerError,
)
from income_client.emulator import Fault, Faults
from income_client.testing import (
    IncomeService,
    JumpingClock,
    cut_body,
    flaky,
    outage,
    script,
    slow,
    throttled,
)
from income_client.testing.planned_faults import armed

APPLICATION = "/v1/income/applications/app-1"


def _played(faults: Faults, path: str, times: int) -> list[int | str]:
    taken = (faults.take("GET", path) for _ in range(times))
    return ["ok" if each is None else each.status or each.kind.value for each in taken]


@given(st.lists(st.sampled_from(["ok", "500", "503", "429", "cut", "reset"]), min_size=1))
def test_steps_fall_on_requests_in_turn(steps: list[str]) -> None:
    """The first on the first, and whatever comes later is served as usual."""
    faults = Faults()
    faults.add(*script(f"get_application: {', '.join(steps)}"))
    meant = [int(step) if step.isdigit() else step for step in steps]
    assert _played(faults, APPLICATION, len(steps) + 2) == [*meant, "ok", "ok"]


def test_a_line_is_about_one_call() -> None:
    """Each line counts the requests of its own call."""
    faults = Faults()
    faults.add(*script("get_application: ok x2, 500 x2\nget_documents: 503; token: 401"))
    assert _played(faults, f"{APPLICATION}/documents", 2) == [503, "ok"]
    assert _played(faults, APPLICATION, 5) == ["ok", "ok", 500, 500, "ok"]
    assert _played(faults, "/token", 2) == [401, "ok"]


def test_a_line_can_be_about_one_application() -> None:
    """Another one, whose id begins alike, is served."""
    faults = Faults()
    faults.add(*script("get_application(app-1): 500"))
    assert _played(faults, f"{APPLICATION}0", 1) == ["ok"]
    assert _played(faults, APPLICATION, 1) == [500]


def test_any_call_is_any_of_the_api_s() -> None:
    """Tokens and files are asked for by their names."""
    faults = Faults()
    faults.add(*script("any: 500 retry-after=3"))
    assert _played(faults, "/token", 1) == ["ok"]
    fault = faults.take("GET", APPLICATION)
    assert fault is not None
    assert fault.headers == {"Retry-After": "3"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("get_aplication: 500", "no call get_aplication; did you mean get_application?"),
        ("get_application 500", "'call: step, step'"),
        ("get_application:", "'reset', not ''"),
        ("get_application: 500 twice", "not '500 twice'"),
        ("get_application: resett", "no step resett; did you mean reset?"),
        ("get_application: 500 retry=3", "not '500 retry=3'; did you mean retry-after?"),
        ("get_application: 500 x2 retry-after=3", "such as '503 retry-after=2 x3' or 'reset'"),
        ("get_application: 999", "no step 999; there are statuses from 100 to 599, ok, expired"),
        ("get_application: boom", "no step boom; there are statuses from 100 to 599, ok, expired"),
        ("get_application: reset retry-after=2", "only a status has a retry-after"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, message: str) -> None:
    """The message says what would have been."""
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        script(text)


@pytest.mark.parametrize(
    ("trouble", "arguments", "message"),
    [
        (outage, {"seconds": -1}, "seconds is a number, 0 or more, not -1"),
        (outage, {"seconds": "x"}, "seconds is a number, 0 or more, not 'x'"),
        (outage, {"seconds": math.inf}, "seconds is a number, 0 or more, not inf"),
        (outage, {"seconds": 1, "after": -1}, "after is a number, 0 or more"),
        (outage, {"seconds": 1, "status": "down"}, "status is a whole number"),
        (outage, {"seconds": 1, "call": 503}, "call is a str, not int"),
        (flaky, {"rate": "often"}, "rate is a number, 0 or more, not 'often'"),
        (flaky, {"rate": -0.5}, "rate is a number, 0 or more, not -0.5"),
        (flaky, {"rate": 1.5}, "rate is a share from 0 to 1, not 1.5"),
        (flaky, {"rate": 0.5, "seed": None}, "seed is a whole number"),
        (throttled, {"retry_after": -5}, "retry_after is 0 or more, not -5"),
        (throttled, {"retry_after": "soon"}, "retry_after is a whole number"),
        (throttled, {"retry_after": 1, "times": 0}, "times is 1 or more"),
        (cut_body, {"keep": -1}, "keep is 0 or more"),
        (slow, {"seconds_a_byte": -1}, "interval is a number, 0 or more"),
    ],
)
def test_a_trouble_that_cannot_be_meant_is_refused(
    trouble: Callable[..., Any], arguments: dict[str, Any], message: str
) -> None:
    """Where it is made, and not where it should have been played."""
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        trouble(**arguments)


def test_an_outage_begins_and_ends() -> None:
    """It counts from when it is added."""
    clock, faults = JumpingClock(), Faults()
    faults.add(*[armed(each, clock.monotonic) for each in outage(30, after=10)])
    seen = []
    for _ in range(5):
        seen += _played(faults, APPLICATION, 1)
        clock.advance(10)
    assert seen == ["ok", 503, 503, 503, "ok"]


def test_only_requests_that_it_matches_are_counted() -> None:
    """Who merely asks whether a fault is about a request changes nothing."""
    (fault,) = (armed(each, lambda: 0.0) for each in flaky(0.5))
    faults, asked = Faults(), Faults()
    faults.add(fault)
    asked.add(*[armed(each, lambda: 0.0) for each in flaky(0.5)])
    meant = _played(asked, APPLICATION, 40)
    assert all(fault.matches("GET", APPLICATION) for _ in range(40))
    assert _played(faults, APPLICATION, 40) == meant


def test_a_flaky_service_fails_by_its_seed() -> None:
    """The same requests fail each time, whatever is asked between them."""
    paths = [f"/v1/income/applications/app-{number % 50}" for number in range(400)]

    def failed(order: list[str], seed: int) -> list[str]:
        faults = Faults()
        faults.add(*[armed(each, lambda: 0.0) for each in flaky(0.3, seed=seed)])
        return sorted(path for path in order if faults.take("GET", path))

    assert failed(paths, 1) == failed(paths[::-1], 1) != failed(paths, 2)
    assert 60 < len(failed(paths, 1)) < 180


@pytest.mark.income_client(retry=RetryPolicy(max_attempts=3))
async def test_a_flaky_service_fails_some_calls_for_good(
    income_service: IncomeService, income_client: IncomeClient
) -> None:
    """Chance falls on attempts, so that who reads much lets failures be yielded."""
    income_service.faults.add(flaky(0.5, call="get_application"))
    records = income_client.fetch_records(income_service.ids, documents=False, on_error="yield")
    came = [isinstance(each, ApplicationRecord) async for each in records]
    assert 0 < came.count(False) < came.count(True)
    assert len(came) == len(income_service.ids)


@pytest.mark.income_service(applications=3)
async def test_troubles_are_played_over_sockets(
    income_service: IncomeService, income_client: IncomeClient, income_clock: JumpingClock
) -> None:
    """A client comes through those that pass, and tells of the one that lasts."""
    (first, *_) = income_service.ids
    income_service.faults.add(throttled(9), cut_body())
    await income_client.get_application(first)
    assert income_service.requests.count("get_application") == 3
    assert max(income_clock.slept) >= 9
    income_service.faults.add(slow(0.0))
    await income_client.get_application(first)
    income_service.faults.add(outage(60))
    with pytest.raises(ServerError):
        await income_client.get_application(first)
    income_service.advance(60)
    await income_client.get_application(first)
    income_service.faults.clear()
    assert len(income_service.faults) == 0


@pytest.mark.income_client(retry=RetryPolicy(max_attempts=1))
async def test_an_outage_lasts_as_long_as_it_says(
    income_service: IncomeService, income_client: IncomeClient, income_clock: JumpingClock
) -> None:
    """To the fraction of a second, though the service's own present is a whole one."""
    (first, *_) = income_service.ids
    income_clock.advance(0.9)
    income_service.faults.add(outage(0.5))
    income_clock.advance(0.2)
    income_service.advance(0.2)
    with pytest.raises(ServerError):
        await income_client.get_application(first)
    income_clock.advance(0.1)
    await income_client.get_application(first)


def test_what_is_no_fault_is_refused(income_service: IncomeService) -> None:
    """Also in the midst of others."""
    with pytest.raises(ConfigurationError, match="a fault is a"):
        income_service.faults.add(Fault("reset"), 500)  # type: ignore[arg-type]
