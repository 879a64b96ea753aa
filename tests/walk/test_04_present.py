"""Promise 4: an open walk reads up to the present second, and updates during it lose nothing."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from attrs import define, field
from hypothesis import assume, given
from hypothesis import strategies as st

from income_client import IncomeClient, InvalidRequestError
from income_client.emulator import Emulator
from income_client.testing import JumpingClock
from tests.support.listing import ListService, Outcome, Page, Query, Rules, rows_at, serving
from tests.support.walk_data import (
    BASE,
    LIMITS,
    MEANINGS,
    WALKERS,
    ids_of,
    readings,
    update_seconds,
    walk,
)

FUTURES = ["accept", "lower", "refuse"]


@given(st.data(), LIMITS, WALKERS)
async def test_an_open_walk_reads_up_to_the_present_second(
    data: st.DataObject, limit: int, walkers: int
) -> None:
    """Every row is yielded once, including those of the second in which the walk ends."""
    times = data.draw(update_seconds(limit))
    now = max(times, default=BASE) + data.draw(st.sampled_from([0, 0, 1, 30]), "since the last")
    after = BASE + data.draw(st.sampled_from([-10, -1, 0]), "after")
    rules = data.draw(readings(now - after))
    assume(rules.oldest is None or rules.oldest <= now)
    service = ListService(rows=rows_at(times), now=now, rules=rules)
    async with serving(service) as client:
        paginator = walk(client, after, None, limit=limit, concurrency=walkers)
        found = await ids_of(paginator)
    assert len(found) == len(set(found))
    assert set(found) == service.truth(after, now + 1)
    assert paginator.progress.covered_fraction == 1.0


@define
class Updates:
    """Applications that are updated while a walk is under way."""

    service: ListService
    limit: int
    chance: Random
    until: int
    """Second from which on nothing is updated."""
    moves_again: bool
    """Whether an application may be updated more than once."""
    left: int = 40
    """Updates that are left; a walk that is chased for ever has no end."""
    moved: list[tuple[int, int, str]] = field(factory=list)
    """Before the answer to which question, and in which second, what was updated."""

    def happen(self) -> None:
        """Update some applications, and advance the clock."""
        chance, service = self.chance, self.service
        if chance.random() < 0.5:
            return
        for _ in range(chance.choice([1, 1, self.limit - 1])):
            crowd = sum(second == service.now for second in service.rows.values())
            still = sorted(service.ids)
            if not self.moves_again:
                still = sorted(service.ids - {key for _, _, key in self.moved})
            if crowd < self.limit - 1 and self.left and still and service.now < self.until:
                key = chance.choice(still)
                service.touch(key)
                self.moved.append((len(service.queries), service.now, key))
                self.left -= 1
        service.now += chance.choice([0, 0, 0, 1, 1, 1, 3, 50])

    def before(self, question: int, after: int) -> set[str]:
        """Return what was updated before the reply to a request, and after a given second."""
        return {key for number, at, key in self.moved if number <= question and at > after}


@given(
    data=st.data(),
    limit=st.sampled_from([3, 5, 10]),
    walkers=WALKERS,
    ahead=st.sampled_from([None, None, 0, 7, 60]),
)
async def test_updates_during_a_walk_lose_nothing(
    data: st.DataObject, limit: int, walkers: int, ahead: int | None
) -> None:
    """An application that is updated during the walk is still yielded.

    A service that hides the present second hides what is updated again and again: there
    each application is updated once. What is updated before the answer to the last question
    is not promised where that question only tells the time.
    """
    times = data.draw(update_seconds(limit))
    now = max(times, default=BASE) + 10
    after = BASE + data.draw(st.sampled_from([-1, 0, 10]), "after")
    rules = data.draw(readings(now - after, oldest=None))
    assume(rules.future != "refuse" or ahead is None)
    takes_the_future = rules.future == "accept" and rules.widest in (None, 3_600)
    ends_with_the_time = not rules.upper_closed and not (
        rules.future == "accept" and rules.widest is None
    )
    before = None if ahead is None else now + ahead
    service = ListService(rows=rows_at(times), now=now, rules=rules)
    updates = Updates(
        service,
        limit,
        Random(data.draw(st.integers(0, 2**32))),
        until=now + 10**6 if before is None else before - 1,
        moves_again=rules.upper_closed or takes_the_future,
    )
    service.before_answer = updates.happen
    must = service.truth(after, now + 1 if before is None else before)
    async with serving(service) as client:
        paginator = walk(client, after, before, limit=limit, concurrency=walkers)
        found = await ids_of(paginator)
    must |= updates.before(len(service.queries) - ends_with_the_time, after)
    assert must <= set(found)
    assert paginator.saturated == ()


async def updates_at_each_request(rules: Rules, seconds: int, jump: int) -> None:
    """Walk again and again, updating two applications before another request each time.

    One of them is the oldest of the walk, the other was not updated after its lower bound.

    Args:
        rules: how the service reads the contract.
        seconds: what passes between two requests.
        jump: what passes right after the update, before the answer.
    """
    hides_the_present = rules.future != "accept" and not rules.upper_closed
    number = requests = 0
    while number <= requests:
        number += 1
        times = [BASE - 100] + [BASE + 5 * n for n in range(12)]
        service = ListService(rows=rows_at(times), now=BASE + 60, rules=rules)
        updated = list(service.rows)[:2]

        def update(
            service: ListService = service, at: int = number, keys: Sequence[str] = updated
        ) -> None:
            if len(service.queries) != at:
                service.now += seconds
                return
            for key in keys:
                service.touch(key)
            service.now += jump

        service.before_answer = update
        async with serving(service) as client:
            found = await ids_of(walk(client, BASE - 1, None, limit=5, concurrency=2))
        requests = len(service.queries)
        must = service.ids - {updated[0]} if number > requests - hides_the_present else service.ids
        assert must <= set(found)
    assert requests > 4


@pytest.mark.parametrize("seconds", [0, 1])
@pytest.mark.parametrize("rounds_up", [False, True])
@pytest.mark.parametrize("future", FUTURES)
@pytest.mark.parametrize("meaning", MEANINGS)
async def test_an_update_at_any_request_of_the_walk_is_found(
    meaning: str, future: Any, rounds_up: bool, seconds: int
) -> None:
    """An application updated before any one request of the walk is still yielded."""
    rules = Rules(future=future, rounds_up=rounds_up, order="newest", **MEANINGS[meaning])
    await updates_at_each_request(rules, seconds, 0)


@pytest.mark.parametrize("future", FUTURES)
@pytest.mark.parametrize("cut", ["start", "end"])
async def test_a_clock_that_leaps_at_any_request_hides_nothing(cut: Any, future: Any) -> None:
    """More time may pass between two requests than the service's widest window."""
    rules = Rules(future=future, widest=40, cut=cut, order="newest")
    await updates_at_each_request(rules, 1, 100)


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("future", FUTURES)
@pytest.mark.parametrize("meaning", MEANINGS)
async def test_the_last_page_is_read_after_everything_else(
    meaning: str, future: Any, concurrency: int
) -> None:
    """It is requested when no other request is open, is complete, and reaches the present."""
    rules = Rules(future=future, order="random", slowness=9, **MEANINGS[meaning])
    times = [BASE + 13 * n for n in range(40)]
    service = ListService(rows=rows_at(times), now=BASE + 600, rules=rules)
    served: list[tuple[int, int]] = []

    def note() -> None:
        service.now += 1
        served.append((len(service.pages), service.now))

    service.before_answer = note
    async with serving(service) as client:
        found = await ids_of(walk(client, BASE - 1, None, limit=5, concurrency=concurrency))
    assert set(found) == service.ids
    last = len(service.queries)
    answered, now = served[-1]
    assert answered >= last - 1 - (future == "refuse")
    query, page = service.pages[-1]
    assert len(page.ids) < 5
    if future == "accept":
        assert page.before > now
    else:
        # Two complete pages, served in different seconds, with no call between them.
        other, earlier = service.pages[-2]
        assert len(earlier.ids) < 5
        assert earlier.before < page.before == now
        assert max(other.after or 0, query.after or 0) < earlier.before
        assert service.queries[-2:] == [other, query]


@pytest.mark.parametrize("future", ["lower", "refuse"])
async def test_two_pages_of_one_second_prove_nothing(future: Any) -> None:
    """Behind an exclusive bound, rows of the present second show only once it has passed."""
    service = ListService(
        rows=rows_at([BASE, BASE + 9, BASE + 9]), now=BASE + 9, rules=Rules(future=future)
    )
    async with serving(service) as client:
        found = await ids_of(walk(client, BASE - 1, None))
    assert sorted(found) == sorted(service.ids)
    assert service.now > BASE + 9
    assert sum(service.clock.slept) < 10


@pytest.mark.parametrize("before", [None, BASE + 50])
@pytest.mark.parametrize("future", ["accept", "lower"])
async def test_a_walk_ends_although_the_service_s_clock_is_stuck(
    future: Any, before: int | None
) -> None:
    """After some attempts the walk accepts the clock as it is; it neither loops nor fails."""
    rules = Rules(future=future, clock_stands=True)
    service = ListService(
        rows=rows_at([BASE + n for n in range(9)]), now=BASE + 9, rules=rules, most_requests=60
    )
    async with serving(service) as client:
        found = await ids_of(walk(client, BASE - 1, before, limit=5))
    assert sorted(found) == sorted(service.ids)
    assert sum(service.clock.slept) < 60


@given(data=st.data(), rows=st.integers(0, 40), walkers=WALKERS)
async def test_a_burst_in_the_present_second_is_yielded_or_reported(
    data: st.DataObject, rows: int, walkers: int
) -> None:
    """A burst in the second in which the walk ends is never dropped silently."""
    rules = data.draw(
        readings(
            500, oldest=None, widest=None, clock_stands=data.draw(st.booleans(), "clock stands")
        )
    )
    # A second that never passes cannot be narrowed if no bound may lie after it.
    assume(not rules.clock_stands or rules.future == "accept")
    times = [BASE + 500] * rows + [BASE + n for n in range(30)]
    service = ListService(rows=rows_at(times), now=BASE + 500, rules=rules)
    async with serving(service) as client:
        paginator = walk(
            client, BASE - 1, None, limit=20, concurrency=walkers, on_saturated="report"
        )
        found = await ids_of(paginator)
    named = {window.after for window in paginator.saturated}
    assert named <= {BASE + 499, BASE + 500, BASE + 501}
    missing = service.ids - set(found)
    assert {service.rows[key] for key in missing} <= named
    assert len(found) == len(set(found))


@pytest.mark.parametrize("end", ["9999-12-31T23:59:59", "9999-12-31T00:00:00"])
@pytest.mark.parametrize("rows", [5, 60])
async def test_an_unset_bound_echoed_as_the_end_of_time_is_not_the_present(
    end: str, rows: int
) -> None:
    """A service that echoes the end of time for an unset bound is walked to the present."""
    service = ListService(rows=rows_at([BASE + 9 * n for n in range(rows)]), now=BASE + 600)

    def endless(query: Query, page: Page) -> Outcome:
        if query.before is not None:
            return page
        ids = sorted(service.truth(query.after or 0, BASE + 10**6))
        return Page(after=page.after, before=f'"{end}"', ids=tuple(ids[: query.limit]))

    service.twist = endless
    async with serving(service) as client:
        paginator = walk(client, None, None, limit=10)
        found = await ids_of(paginator)
    assert sorted(found) == sorted(service.ids)
    assert paginator.progress.covered_fraction == 1.0
    assert len(service.queries) < 120


@pytest.mark.parametrize("before", [None, BASE + 50])
async def test_a_service_that_refuses_every_request_is_an_error(before: int | None) -> None:
    """The walk has an alternative to future bounds, but none if every window is refused."""
    service = ListService(rows=rows_at([BASE]), now=BASE + 10, twist=lambda query, page: 400)
    async with serving(service) as client:
        with pytest.raises(InvalidRequestError):
            await ids_of(walk(client, BASE - 1, before))
    assert len(service.queries) < 10


async def test_an_upper_bound_of_the_caller_that_is_refused_is_an_error() -> None:
    """The caller's bound has no substitute, so the refusal is raised."""
    service = ListService(rows=rows_at([BASE]), now=BASE + 10, rules=Rules(future="refuse"))
    async with serving(service) as client:
        with pytest.raises(InvalidRequestError):
            await ids_of(walk(client, BASE - 1, BASE + 500))


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("future", ["accept", "clamp", "refuse"])
@pytest.mark.parametrize("upper_closed", [False, True])
async def test_updates_of_the_emulated_service_are_found(
    upper_closed: bool, future: str, concurrency: int
) -> None:
    """Updates during a walk are also found in the emulator, while its clock runs."""
    clock = JumpingClock()
    options: dict[str, Any] = {"future": future, "upper_closed": upper_closed}
    async with (
        Emulator(60, clock=clock, time_flows=True, order="random", days=3, **options) as service,
        IncomeClient(service.url, auth=service.basic, clock=clock) as client,
    ):
        ids = service.world.ids
        found: list[str] = []
        async for row in client.list_applications(limit=8, concurrency=concurrency):
            found.append(row.application_id)
            if len(found) < 120:
                service.touch(ids[len(found) * 7 % len(ids)])
                clock.advance(0.3)
    assert set(found) == set(ids)
