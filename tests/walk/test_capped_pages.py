"""A service, or a gateway before it, that returns fewer rows than a page was asked for."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from income_client import MemoryCheckpointStore
from tests.support.listing import BASE, DAY, ListService, Page, Query, Rules, rows_at, serving
from tests.support.walks import MEANINGS, ids_of, walk

WARNING = "the service lists 100 applications at most where more are asked for"


def capped(rows: int, *, cap: int | None = 100, seed: int = 7, **rules: Any) -> ListService:
    """Return a service whose applications were updated within ten days."""
    chance = Random(seed)
    seconds = [BASE + chance.randrange(10 * DAY) for _ in range(rows)]
    return ListService(rows=rows_at(seconds), now=BASE + 11 * DAY, rules=Rules(cap=cap, **rules))


@pytest.mark.parametrize("meaning", MEANINGS)
@pytest.mark.parametrize("order", ["oldest", "newest", "random"])
async def test_a_walk_finds_what_capped_pages_hide(
    order: Any, meaning: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning says once that the service returns fewer rows than it is asked for."""
    service = capped(500, order=order, **MEANINGS[meaning])
    async with serving(service) as client:
        assert sorted(await ids_of(walk(client, None, None))) == sorted(service.ids)
        assert sorted(await ids_of(walk(client, None, None))) == sorted(service.ids)
    assert [record.getMessage() for record in caplog.records] == [WARNING]


@settings(max_examples=30)
@given(
    rows=st.integers(0, 200),
    cap=st.integers(25, 60),
    length=st.sampled_from([1, 60, 3_600, 10 * DAY]),
    walkers=st.sampled_from([1, 4]),
    order=st.sampled_from(["oldest", "newest", "random"]),
    seed=st.integers(0, 2**32),
)
async def test_a_walk_finds_what_any_cap_hides(
    rows: int, cap: int, length: int, walkers: int, order: Any, seed: int
) -> None:
    """Every second has fewer rows than a page."""
    chance = Random(seed)
    seconds = [BASE + number // 20 + chance.randrange(length) for number in range(rows)]
    service = ListService(
        rows=rows_at(seconds), now=BASE + 11 * DAY, rules=Rules(cap=cap, order=order)
    )
    async with serving(service) as client:
        listed = await ids_of(walk(client, None, None, concurrency=walkers))
        assert sorted(listed) == sorted(service.ids)


async def test_an_audit_and_a_poll_find_what_capped_pages_hide() -> None:
    service = capped(300)
    held = dict.fromkeys(service.ids, "2023-01-01")
    async with serving(service) as client:
        store = MemoryCheckpointStore()
        poller = client.poll(store, start="2020-01-01", once=True, documents=False)
        assert {record.application.application_id async for record in poller} == service.ids
    async with serving(capped(300)) as client:
        audit = await client.audit(held)
        assert (audit.listed, len(audit.stale), audit.missing) == (300, 300, ())


async def test_a_page_that_hides_nothing_is_tried_once() -> None:
    """Smaller pages are believed from then on, and a larger one is tried again."""
    service = capped(60, cap=None)
    async with serving(service) as client:
        await ids_of(walk(client, None, None))
        first = len(service.queries)
        await ids_of(walk(client, None, None))
        assert len(service.queries) - first == 2
        service.rows |= rows_at([BASE + number for number in range(90)])
        await ids_of(walk(client, None, None))
        assert len(service.queries) - first > 4


async def test_a_cap_that_comes_later_is_found_within_the_hour() -> None:
    service = capped(200, cap=None)
    async with serving(service) as client:
        await ids_of(walk(client, None, None))
        service.rules = Rules(cap=100)
        service.clock.advance(3_601)
        assert sorted(await ids_of(walk(client, None, None))) == sorted(service.ids)
        service.rules = Rules()
        assert sorted(await ids_of(walk(client, None, None))) == sorted(service.ids)


async def test_a_row_that_is_added_meanwhile_is_no_sign_of_a_cap(
    caplog: pytest.LogCaptureFixture,
) -> None:
    service = capped(60, cap=None)

    def add_row(query: Query, page: Page) -> Page:
        service.rows[f"new-{len(service.queries)}"] = BASE + 5 * DAY
        return page

    service.twist = add_row
    async with serving(service) as client:
        await client.get_application_page(limit=1)
        await ids_of(walk(client, BASE, BASE + 10 * DAY))
    assert caplog.records == []


async def test_a_service_that_refuses_parts_of_a_window_is_believed() -> None:
    service = capped(60, cap=None)
    service.twist = lambda query, page: page if len(service.queries) in (1, 2) else 400
    async with serving(service) as client:
        assert len(await ids_of(walk(client, BASE, BASE + 10 * DAY))) == 60


async def test_a_second_with_as_many_rows_as_the_page_is_believed() -> None:
    service = ListService(
        rows=rows_at([BASE + DAY] * 60), now=BASE + 11 * DAY, rules=Rules(order="oldest")
    )
    async with serving(service) as client:
        assert len(await ids_of(walk(client, None, None))) == 60
        assert len(service.queries) < 80


async def test_a_second_that_is_believed_proves_nothing_about_others() -> None:
    """A page of 60 rows of one second does not show that a page of 60 rows hides none."""
    service = ListService(rows=rows_at([BASE + DAY] * 60), now=BASE + 11 * DAY, rules=Rules(cap=60))
    async with serving(service) as client:
        await ids_of(walk(client, BASE, BASE + 2 * DAY))
        later = [BASE + 3 * DAY + 600 * number for number in range(200)]
        service.rows |= {f"later-{second}": second for second in later}
        listed = await ids_of(walk(client, BASE + 2 * DAY, BASE + 10 * DAY))
        assert len(listed) == len(set(listed)) == 200
