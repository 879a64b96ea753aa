"""Promise 6: a walk that is stopped at any point resumes from its checkpoint without loss."""

import asyncio
import contextlib
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client import (
    ApplicationPaginator,
    CheckpointError,
    IncomeClient,
    MemoryCheckpointStore,
    PermissionDeniedError,
    ServerError,
)
from income_client.emulator import Emulator
from income_client.testing import JumpingClock
from tests.support.listing import (
    ListService,
    Outcome,
    Page,
    Query,
    Rules,
    rows_at,
    serving,
    text_of,
)
from tests.support.walk_data import (
    BASE,
    DAY,
    LIMITS,
    MEANINGS,
    WALKERS,
    collect,
    ids_of,
    readings,
    update_seconds,
    walk,
)

STOPS = st.tuples(
    st.sampled_from(["rows", "pages", "cancel", "failure"]), st.integers(0, 40), st.booleans()
)


async def run_until(
    stop: str, count: int, service: ListService, paginator: ApplicationPaginator, into: list[str]
) -> None:
    """Iterate until a number of rows, pages or loop turns is reached, or a request fails."""
    match stop:
        case "rows":
            while count and (row := await anext(paginator, None)) is not None:
                into.append(row.application_id)
                count -= 1
        case "pages":
            pages = paginator.pages()
            while count > 0 and (page := await anext(pages, None)) is not None:
                into += [row.application_id for row in page.applications]
                count -= 9
            await pages.aclose()
        case "cancel":
            await _cancel_after(6 * count, paginator, into)
        case "failure":
            last = len(service.queries) + count // 2
            status = 500 if count % 2 else 403
            service.twist = lambda query, page: status if len(service.queries) > last else page
            with contextlib.suppress(PermissionDeniedError, ServerError):
                await collect(paginator, into)
            service.twist = lambda query, page: page


async def _cancel_after(turns: int, paginator: ApplicationPaginator, into: list[str]) -> None:
    consumer = asyncio.create_task(_take_slowly(paginator, into))
    for _ in range(turns):
        await asyncio.sleep(0)
    consumer.cancel()
    await asyncio.wait([consumer])


async def _take_slowly(paginator: ApplicationPaginator, into: list[str]) -> None:
    async for row in paginator:
        into.append(row.application_id)
        await asyncio.sleep(0)


@given(
    data=st.data(),
    limit=LIMITS,
    walkers=WALKERS,
    stops=st.lists(STOPS, min_size=1, max_size=4),
    is_open=st.booleans(),
)
async def test_a_walk_stopped_anywhere_and_resumed_loses_nothing(
    data: st.DataObject,
    limit: int,
    walkers: int,
    stops: list[tuple[str, int, bool]],
    is_open: bool,
) -> None:
    """Wherever a walk stops, its rows and those of the resumed walk are complete.

    The same walk goes on by itself when it is iterated again, and repeats no row.
    """
    times = data.draw(update_seconds(limit))
    last = max([*times, BASE + 5]) + 5
    before = None if is_open else last
    rules = data.draw(readings(last - BASE, oldest=None, future="accept"))
    service = ListService(rows=rows_at(times), now=last, rules=rules)
    options: dict[str, Any] = {"limit": limit, "concurrency": walkers}
    everything: set[str] = set()
    found: list[str] = []
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, before, **options)
        for stop, count, is_resumed in stops:
            await run_until(stop, count, service, paginator, found)
            assert len(found) == len(set(found))
            if is_resumed:
                checkpoint = paginator.checkpoint
                await paginator.aclose()
                everything.update(found)
                found = []
                paginator = client.list_applications(resume=checkpoint, **options)
        await collect(paginator, found)
    assert len(found) == len(set(found))
    assert everything | set(found) == service.truth(BASE - 1, last + is_open)


@given(data=st.data(), limit=LIMITS, walkers=WALKERS, by_page=st.booleans())
async def test_a_row_is_covered_once_the_next_one_is_requested(
    data: st.DataObject, limit: int, walkers: int, by_page: bool
) -> None:
    """A walk resumed from the checkpoint after any row yields that row again, and the rest."""
    times = data.draw(update_seconds(limit))
    last = max([*times, BASE + 5]) + 5
    before = data.draw(st.sampled_from([None, last]), "before")
    rules = data.draw(readings(last - BASE, oldest=None, widest=None, future="accept"))
    service = ListService(rows=rows_at(times), now=last, rules=rules)
    options: dict[str, Any] = {"limit": limit, "concurrency": walkers}
    parts: list[tuple[list[str], str]] = []
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, before, **options)
        if by_page:
            async for page in paginator.pages():
                ids = [row.application_id for row in page.applications]
                parts.append((ids, paginator.checkpoint))
        else:
            async for row in paginator:
                parts += [([row.application_id], paginator.checkpoint)]
        done = {key for ids, _ in parts for key in ids}
        assert done == service.ids
        chosen = data.draw(st.permutations(range(len(parts)))) if parts else []
        for number in chosen[:4]:
            held, checkpoint = parts[number]
            again = await ids_of(client.list_applications(resume=checkpoint, **options))
            assert set(held) <= set(again)
            assert len(again) == len(set(again))
            earlier = {key for ids, _ in parts[:number] for key in ids}
            assert earlier | set(again) == service.ids


@given(
    data=st.data(),
    limit=st.sampled_from([3, 5, 10]),
    walkers=WALKERS,
    rounds=st.lists(st.integers(0, 90), min_size=1, max_size=5),
)
async def test_walks_that_follow_each_other_lose_no_update(
    data: st.DataObject, limit: int, walkers: int, rounds: list[int]
) -> None:
    """An open walk resumed after its end yields later updates, even of the same second."""
    times = data.draw(update_seconds(limit))
    now = max(times, default=BASE) + 2
    rules = data.draw(readings(now - BASE, oldest=None))
    service = ListService(rows=rows_at(times), now=now, rules=rules)
    chance = Random(len(times))
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, None, limit=limit, concurrency=walkers)
        assert set(await ids_of(paginator)) == service.ids
        for seconds in rounds:
            service.now += seconds
            crowd = sum(second == service.now for second in service.rows.values())
            room = min(len(times), limit - 1 - crowd)
            touched = chance.sample(sorted(service.ids), chance.randint(0, max(0, room)))
            for key in touched:
                service.touch(key)
            paginator = client.list_applications(
                limit=limit, concurrency=walkers, resume=paginator.checkpoint
            )
            asked = len(service.queries)
            assert set(touched) <= set(await ids_of(paginator))
            assert len(service.queries) - asked < 60 + 2 * len(touched)


@pytest.mark.parametrize("walkers", [1, 4])
@pytest.mark.parametrize("cut", ["start", "end"])
@pytest.mark.parametrize("date_ahead", [0, None, -6 * 3_600])
async def test_no_second_that_has_not_passed_is_covered(
    date_ahead: int | None, cut: Any, walkers: int
) -> None:
    """A shortened window does not show the present, as the service cuts future windows too."""
    rules = Rules(widest=3_600, cut=cut, date_ahead=date_ahead, order="random")
    times = [BASE + 100 * n for n in range(60)] + [BASE + 5_990 + n for n in range(9)]
    service = ListService(rows=rows_at(times), now=BASE + 6_000, rules=rules)
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, None, limit=5, concurrency=walkers)
        assert sorted(await ids_of(paginator)) == sorted(service.ids)
        for seconds in (1, 60, 600):
            service.now += seconds
            touched = next(iter(service.rows))
            service.touch(touched)
            paginator = client.list_applications(limit=5, resume=paginator.checkpoint)
            assert touched in await ids_of(paginator)


@pytest.mark.parametrize("date_ahead", [0, None])
async def test_an_echo_without_end_covers_no_future(date_ahead: int | None) -> None:
    """If an unset bound is echoed as the end of time, later updates are still yielded later."""
    service = ListService(
        rows=rows_at([BASE + 9 * n for n in range(20)]),
        now=BASE + 600,
        rules=Rules(date_ahead=date_ahead),
    )

    def endless(query: Query, page: Page) -> Outcome:
        if query.before is not None:
            return page
        ids = sorted(service.truth(query.after or 0, BASE + 10**6))
        return Page(after=page.after, before='"9999-12-31T23:59:59"', ids=tuple(ids))

    service.twist = endless
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, None)
        assert sorted(await ids_of(paginator)) == sorted(service.ids)
        service.now += 60
        touched = next(iter(service.rows))
        service.touch(touched)
        again = client.list_applications(resume=paginator.checkpoint)
        assert touched in await ids_of(again)


@pytest.mark.parametrize("ahead", [5, 3_600])
@pytest.mark.parametrize("future", ["accept", "lower"])
async def test_updates_before_a_future_upper_bound_come_when_resumed(
    future: Any, ahead: int
) -> None:
    """A walk that ends before its upper bound has passed leaves the future uncovered."""
    times = [BASE + 9 * n for n in range(40)]
    service = ListService(rows=rows_at(times), now=BASE + 400, rules=Rules(future=future))
    before = BASE + 400 + ahead
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, before, limit=10)
        assert sorted(await ids_of(paginator)) == sorted(service.ids)
        service.now = max(service.now + 1, before - 2)
        touched = next(iter(service.rows))
        service.touch(touched)
        service.now = before + 2 * DAY
        again = client.list_applications(limit=10, resume=paginator.checkpoint)
        assert touched in await ids_of(again)
        # By now the whole span has passed and is covered.
        asked = len(service.queries)
        assert await ids_of(client.list_applications(resume=again.checkpoint)) == []
    assert len(service.queries) == asked


@pytest.mark.parametrize("by_page", [False, True])
@pytest.mark.parametrize("concurrency", [1, 4])
async def test_leaving_a_walk_covers_nothing_more(concurrency: int, by_page: bool) -> None:
    """The page that a consumer holds when it leaves its loop is yielded again."""
    service = ListService(rows=rows_at([BASE + 37 * n for n in range(60)]), now=BASE + 30 * DAY)
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, BASE + 5_000, limit=10, concurrency=concurrency)
        ids: list[str] = []
        if by_page:
            pages = paginator.pages()
            for _ in range(3):
                ids = [row.application_id for row in (await anext(pages)).applications]
            await pages.aclose()
        else:
            for _ in range(25):
                ids = [(await anext(paginator)).application_id]
        await paginator.aclose()
        again = await ids_of(client.list_applications(limit=10, resume=paginator.checkpoint))
    assert set(ids) <= set(again)


@pytest.mark.parametrize("meaning", MEANINGS)
async def test_what_is_covered_is_not_read_again(meaning: str) -> None:
    """A finished walk with an upper bound sends nothing; an unfinished one reads the rest."""
    rules = Rules(order="random", **MEANINGS[meaning])
    times = [BASE + 37 * n for n in range(200)]
    service = ListService(rows=rows_at(times), now=BASE + 30 * DAY, rules=rules)
    found: list[str] = []
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, BASE + 8_000, limit=10)
        while len(found) < 150:
            found.append((await anext(paginator)).application_id)
        checkpoint, asked = paginator.checkpoint, len(service.queries)
        found += await ids_of(paginator)
        assert len(found) == 200
        whole = len(service.queries)
        again = await ids_of(client.list_applications(limit=10, resume=checkpoint))
        # At most the page that the consumer holds and one per other walker come again.
        assert len(again) <= 50 + 4 * 10
        assert len(service.queries) - whole < asked
        asked = len(service.queries)
        assert await ids_of(client.list_applications(resume=paginator.checkpoint)) == []
    assert len(service.queries) == asked


async def test_a_saturated_second_is_never_covered() -> None:
    """A resumed walk requests it again, and reports it again."""
    rows = rows_at([BASE + 50] * 30 + [BASE + n for n in range(40)])
    service = ListService(rows=rows, now=BASE + 30 * DAY)
    async with serving(service) as client:
        first = walk(client, BASE - 1, BASE + 100, limit=10, on_saturated="report")
        assert len(await ids_of(first)) == 50
        asked = len(service.queries)
        again = client.list_applications(limit=10, on_saturated="report", resume=first.checkpoint)
        assert len(await ids_of(again)) == 10
        assert again.saturated == first.saturated
        assert len(service.queries) - asked <= asked


@pytest.mark.parametrize("before", [None, BASE + 3_000])
@pytest.mark.parametrize("concurrency", [1, 4])
async def test_a_failure_of_any_request_loses_nothing(concurrency: int, before: int | None) -> None:
    """Whichever request fails, iterating again or resuming yields the rest."""
    number = requests = 0
    while number <= requests:
        number += 1
        rules = Rules(future="refuse", order="random", slowness=3)
        times = [BASE + 37 * n for n in range(40)]
        service = ListService(rows=rows_at(times), now=BASE + 10 * DAY, rules=rules)

        def fail(
            query: Query, page: Page, service: ListService = service, at: int = number
        ) -> Outcome:
            return 403 if len(service.queries) == at else page

        service.twist = fail
        found: list[str] = []
        async with serving(service) as client:
            paginator = walk(client, BASE - 1, before, limit=8, concurrency=concurrency)
            with contextlib.suppress(PermissionDeniedError):
                await collect(paginator, found)
            again = client.list_applications(limit=8, resume=paginator.checkpoint)
            resumed = set(found) | set(await ids_of(again))
            await collect(paginator, found)
        assert sorted(found) == sorted(service.ids)
        assert resumed == service.ids
        requests = len(service.queries) // 2
    assert requests > 4


@pytest.mark.parametrize("turns", range(0, 120, 8))
async def test_cancelled_twice_in_a_row_a_walk_still_resumes(turns: int) -> None:
    """A second cancellation during the cleanup of the first loses nothing."""
    times = [BASE + 37 * n for n in range(60)]
    service = ListService(rows=rows_at(times), now=BASE + 5_000, rules=Rules(slowness=5))
    found: list[str] = []
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, None, limit=10)
        consumer = asyncio.create_task(_take_slowly(paginator, found))
        for _ in range(turns):
            await asyncio.sleep(0)
        consumer.cancel()
        await asyncio.sleep(0)
        consumer.cancel()
        await asyncio.wait([consumer])
        checkpoint = paginator.checkpoint
        again = set(await ids_of(client.list_applications(limit=10, resume=checkpoint)))
        assert set(found) | again == service.ids
        found += await ids_of(paginator)
    assert sorted(found) == sorted(service.ids)


async def checkpoint_of(service: ListService) -> str:
    """Return the checkpoint of a walk that was stopped half-way."""
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, BASE + 5_000, limit=10, concurrency=1)
        for _ in range(30):
            await anext(paginator)
        await paginator.aclose()
    return paginator.checkpoint


def half_walked() -> ListService:
    """Return a service with some applications of long ago."""
    times = [BASE + 37 * n for n in range(60)]
    return ListService(rows=rows_at(times), now=BASE + 30 * DAY)


@given(data=st.data())
async def test_a_damaged_checkpoint_is_refused(data: st.DataObject) -> None:
    """A damaged checkpoint either means the same as before or raises an error."""
    service = half_walked()
    text = await checkpoint_of(service)
    place = data.draw(st.integers(0, len(text) - 1), "place")
    length = data.draw(st.integers(0, 3), "characters removed")
    written = data.draw(st.text(alphabet='0123456789[]{},:"-. aefx', max_size=3), "in their place")
    damaged = text[:place] + written + text[place + length :]
    asked = len(service.queries)
    async with serving(service) as client:
        try:
            paginator = client.list_applications(resume=damaged)
        except CheckpointError:
            pass
        else:
            assert paginator.checkpoint == text
    assert len(service.queries) == asked


@pytest.mark.parametrize(
    "checkpoint",
    ["", "garbage", "null", "[]", "{}", "0", "\ud800", "[" * 300 + "]" * 300, 7, b"{}", [], {}],
)
async def test_an_invalid_checkpoint_is_refused(checkpoint: Any) -> None:
    """It raises before any request, instead of starting a walk from the beginning."""
    service = half_walked()
    async with serving(service) as client:
        with pytest.raises(CheckpointError):
            client.list_applications(resume=checkpoint)
    assert service.queries == []


# Of version 0.1, and of a version after it; both cover the first 400 seconds of 600.
KNOWN = (
    '{"walk":1,"after":1700000000,"before":1700000600,'
    '"covered":[[1700000000,1700000400]],"check":1849168817}'
)
NEWER = (
    '{"walk":2,"after":1700000000,"before":1700000600,'
    '"covered":[[1700000000,1700000400]],"check":1159020658}'
)


async def test_a_checkpoint_of_an_earlier_version_resumes() -> None:
    """Checkpoints stored by a released version remain valid."""
    service = ListService(rows=rows_at([BASE + 7 * n for n in range(80)]), now=BASE + 30 * DAY)
    async with serving(service) as client:
        found = await ids_of(client.list_applications(resume=KNOWN))
    assert set(found) == {key for key in service.ids if service.rows[key] >= BASE + 400}
    assert {query.after for query in service.queries} == {BASE + 399}


async def test_a_checkpoint_of_a_newer_version_is_refused() -> None:
    """After a rollback the error says why the walk cannot resume."""
    service = half_walked()
    async with serving(service) as client:
        with pytest.raises(CheckpointError, match="newer version"):
            client.list_applications(resume=NEWER)
    assert service.queries == []


async def test_a_checkpoint_of_polling_is_refused() -> None:
    """A poller's checkpoint cannot resume a walk."""
    store, clock = MemoryCheckpointStore(), JumpingClock()
    async with (
        Emulator(3, clock=clock, time_flows=True) as service,
        IncomeClient(service.url, auth=service.basic, clock=clock) as client,
    ):
        poller = client.poll(store, start="2026-01-01")
        async for _ in poller:
            poller.stop()
        stored = await store.load("default")
        assert stored.checkpoint is not None
        with pytest.raises(CheckpointError):
            client.list_applications(resume=stored.checkpoint)


async def test_a_checkpoint_carries_its_span() -> None:
    """Bounds may be omitted or repeated when resuming; other bounds raise an error."""
    service = half_walked()
    text = await checkpoint_of(service)
    after, before = text_of(BASE - 1), text_of(BASE + 5_000)
    async with serving(service) as client:
        for bounds in [(None, None), (after, None), (None, before), (after, before)]:
            assert client.list_applications(*bounds, resume=text).checkpoint == text
        for wrong in [(text_of(BASE), None), (None, text_of(BASE + 5_001)), (before, None)]:
            with pytest.raises(CheckpointError):
                client.list_applications(*wrong, resume=text)
        fresh = client.list_applications().checkpoint
        assert client.list_applications(resume=fresh).checkpoint == fresh
