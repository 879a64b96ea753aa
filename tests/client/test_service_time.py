"""The service's present, as the client learns it: never the end of a window that was cut short."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from email.utils import format_datetime
from typing import Any, Final, Literal
from urllib.parse import parse_qsl

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from income_client import (
    BasicAuth,
    IncomeClient,
    ServerError,
    UnexpectedResponseError,
)
from tests.support.foreign_times import NEW_YORK, ZoneOfOffsets
from tests.support.listing import ListService, Outcome, Page, Query, Rules, rows_at, serving
from tests.support.server import ScriptedServer, in_turn, reply

NOW: Final = 1_782_820_800
PRESENT: Final = datetime(2026, 6, 30, 12, tzinfo=UTC)
DAY: Final = 86_400
FUTURES: Final = ("accept", "lower", "refuse")
Cut = Literal["start", "end"]
Future = Literal["accept", "lower", "refuse"]
Twist = Callable[[Query, Page], Outcome]


def service_of(**rules: Any) -> ListService:
    """Return a service with one application, whose clock stands."""
    return ListService(rows=rows_at([NOW - 5]), now=NOW, rules=Rules(**rules))


@given(
    widest=st.sampled_from([2, 7 * DAY, None]),
    cut=st.sampled_from(["start", "end"]),
    future=st.sampled_from(FUTURES),
    ahead=st.sampled_from([None, 0, 60, 7_200, -60, -7_200]),
)
async def test_the_present_is_found_whatever_window_the_service_serves(
    widest: int | None, cut: Cut, future: Future, ahead: int | None
) -> None:
    """The answer is exact for every widest window, in a few requests; no later than Date."""
    service = service_of(widest=widest, cut=cut, future=future, date_ahead=ahead)
    async with serving(service) as client:
        behind = timedelta(seconds=min(ahead or 0, 0))
        assert await client.service_time() == PRESENT + behind
    assert len(service.queries) <= (110 if cut == "end" else 3)


@pytest.mark.parametrize("cut", ["start", "end"])
async def test_an_ordinary_service_is_asked_once(cut: Cut) -> None:
    """A reply that agrees with its own Date needs no second look."""
    service = service_of(widest=7 * DAY if cut == "start" else None, cut=cut)
    async with serving(service) as client:
        await client.service_time()
    assert len(service.queries) == 1


def tomorrow(_query: Query, page: Page) -> Outcome:
    """Answer as a service that answers for the whole day."""
    return evolve(page, before=NOW + DAY // 2)


def unbounded(_query: Query, page: Page) -> Outcome:
    """Answer as a service that applies no upper bound."""
    return Page(after=page.after, before='"9999-12-31T23:59:59"', ids=page.ids)


def run_away(query: Query, page: Page) -> Outcome:
    """Answer for more than was asked, each time."""
    return Page(after=page.after, before=(query.after or 0) + DAY, ids=())


@pytest.mark.parametrize("twist", [tomorrow, unbounded])
async def test_an_upper_bound_in_the_future_is_not_the_present(twist: Twist) -> None:
    """An update later today is not read yet."""
    service = service_of()
    service.twist = twist
    async with serving(service) as client:
        assert await client.service_time() == PRESENT


@pytest.mark.parametrize("twist", [unbounded, run_away])
async def test_a_service_that_tells_no_time_is_an_error(twist: Twist) -> None:
    """Without a Date: the local clock is no substitute, and a bound is not followed for ever."""
    service = service_of(date_ahead=None)
    service.twist = twist
    async with serving(service) as client:
        with pytest.raises(UnexpectedResponseError) as caught:
            await client.service_time()
        assert caught.value.call == "list_applications"
        assert str(caught.value) == "list_applications: the service sends no time"
        assert len(service.queries) < 200
        service.twist = lambda query, page: 503
        with pytest.raises(ServerError):
            await client.service_time()


CLOCKS_BACK: Final = datetime(2026, 11, 1, 6, tzinfo=UTC)
"""The second at which 2:00 becomes 1:00 in New York."""
CLOCKS_AHEAD: Final = datetime(2026, 3, 8, 7, tzinfo=UTC)
"""The second at which 2:00 becomes 3:00."""
WEEK: Final = timedelta(days=7)


@pytest.mark.parametrize("zone", [NEW_YORK, ZoneOfOffsets()], ids=["zoneinfo", "pytz"])
@pytest.mark.parametrize("shift", [CLOCKS_BACK, CLOCKS_AHEAD])
@given(
    behind=st.sampled_from([0, 1, -1, 30]),
    minutes=st.sampled_from([-90, -61, -60, -30, -1, 0, 1, 30, 59, 60, 61, 90]),
)
async def test_the_present_is_aware_and_right_while_clocks_are_changed(
    minutes: int, behind: int, shift: datetime, zone: tzinfo
) -> None:
    """In each pass of the hour that comes twice it is the time of the reply's own Date.

    It is a bound of a walk like any other: what was updated since is never cut off.
    """
    now = shift + timedelta(minutes=minutes)
    echo = (now - timedelta(seconds=behind)).astimezone(NEW_YORK).replace(tzinfo=None)
    page = {"updated_after": "2026-01-01T00:00:00", "updated_before": echo.isoformat()}
    body = json.dumps({**page, "applications": []}).encode()
    dated = reply(body=body, Date=format_datetime(now, usegmt=True))
    async with ScriptedServer(in_turn(dated)) as server:
        auth = BasicAuth("partner", "invented")
        async with IncomeClient(server.url, auth=auth, service_timezone=zone) as client:
            present = await client.service_time()
            await client.get_application_page(present.astimezone(UTC) - WEEK, limit=1)
    assert present.utcoffset() == present.astimezone(NEW_YORK).utcoffset()
    assert zone is not NEW_YORK or present.tzinfo is NEW_YORK
    assert present.astimezone(UTC) == now - timedelta(seconds=max(behind, 0))
    sent = datetime.fromisoformat(dict(parse_qsl(server.requests[-1].query))["updated_after"])
    week_ago = (present.astimezone(UTC) - WEEK).astimezone(NEW_YORK).replace(tzinfo=None)
    assert week_ago - timedelta(hours=1) <= sent <= week_ago
