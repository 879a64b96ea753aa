"""Promise 5: a walk trusts the window that the service echoes, and requests the rest."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client import (
    ApplicationPaginator,
    DecodeError,
    IncomeClient,
    MemoryCheckpointStore,
    UnexpectedResponseError,
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

HOUR = 3_600


def applied(service: ListService, after: int, before: int, limit: int) -> Page:
    """Answer for other bounds than the requested ones, and echo those."""
    query = Query(after=after, before=before, limit=limit, sent={})
    page = service.page(query)
    assert isinstance(page, Page)
    return page


@given(st.data(), LIMITS, WALKERS, st.sampled_from(["start", "end", "both"]))
async def test_windows_cut_short_at_random_lose_nothing(
    data: st.DataObject, limit: int, walkers: int, cut: str
) -> None:
    """However short the service cuts a window, at either end, the rest is requested again."""
    times = data.draw(update_seconds(limit))
    last = max([*times, BASE + 5]) + 5
    rules = data.draw(readings(last - BASE, oldest=None, widest=None))
    service = ListService(
        rows=rows_at(times), now=last + 3 * DAY, rules=rules, most_requests=10_000
    )
    chance = Random(data.draw(st.integers(0, 2**32)))

    def cut_short(query: Query, page: Page) -> Outcome:
        after, before = page.after, page.before
        if before - after > 4 and chance.random() < 0.7:
            # Often at the second of a row, which must be in one of the two pages.
            if cut != "end":
                within = [second for second in times if after < second < before - 2]
                third = after + chance.randint(1, (before - after) // 3)
                after = chance.choice([*within, third])
            if cut != "start":
                within = [second for second in times if after + 2 <= second < before]
                before = chance.choice([*within, chance.randint(after + 2, before)])
        return applied(service, after, before, query.limit)

    service.twist = cut_short
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, last, limit=limit, concurrency=walkers)
        found = await ids_of(paginator)
    assert len(found) == len(set(found))
    assert set(found) == service.truth(BASE - 1, last)
    assert paginator.progress.covered_fraction == 1.0


@pytest.mark.parametrize("meaning", MEANINGS)
@pytest.mark.parametrize("cut", ["start", "end"])
@pytest.mark.parametrize("widest", [3, 4, 7])
async def test_a_window_that_ends_at_the_second_of_a_row_hides_none(
    widest: int, cut: Any, meaning: str
) -> None:
    """With a row in every second, each cut lies at the second of one, which is yielded once."""
    rules = Rules(widest=widest, cut=cut, **MEANINGS[meaning])
    service = ListService(
        rows=rows_at([BASE + n for n in range(30)]), now=BASE + 10 * DAY, rules=rules
    )
    async with serving(service) as client:
        found = await ids_of(walk(client, BASE - 1, BASE + 30, limit=50))
    assert sorted(found) == sorted(service.ids)


@pytest.mark.parametrize("meaning", MEANINGS)
@pytest.mark.parametrize("cut", ["start", "end"])
@pytest.mark.parametrize("before", [None, BASE + 5_000])
async def test_windows_of_an_hour_at_most_are_walked_hour_by_hour(
    before: int | None, cut: Any, meaning: str
) -> None:
    """A service with a maximum window is walked in full, in about as many requests as needed."""
    times = [BASE + 97 * n for n in range(50)]
    rules = Rules(widest=600, cut=cut, **MEANINGS[meaning])
    service = ListService(rows=rows_at(times), now=BASE + 5_000, rules=rules)
    async with serving(service) as client:
        found = await ids_of(walk(client, BASE - 1, before, concurrency=3))
    assert sorted(found) == sorted(service.ids)
    assert len(service.queries) < 40


@given(st.data(), LIMITS, WALKERS, st.integers(0, 90), st.integers(0, 90))
async def test_wider_windows_hide_nothing(
    data: st.DataObject, limit: int, walkers: int, earlier: int, later: int
) -> None:
    """From a service that rounds windows outwards, each requested row comes once."""
    chance = Random(data.draw(st.integers(0, 2**32)))
    second, times = BASE, []
    for _ in range(data.draw(st.sampled_from([0, limit, 30]), "rows")):
        second += 400 + chance.randrange(2_000)
        times.append(second)
    rules = data.draw(readings(second - BASE, oldest=None, widest=None, future="accept"))
    service = ListService(rows=rows_at(times), now=second + 3 * DAY, rules=rules)

    def widen(query: Query, page: Page) -> Outcome:
        return applied(service, page.after - earlier, page.before + later, query.limit)

    service.twist = widen
    async with serving(service) as client:
        found = await ids_of(walk(client, BASE - 1, second, limit=limit, concurrency=walkers))
    assert len(found) == len(set(found))
    assert service.truth(BASE - 1, second) <= set(found)
    assert set(found) <= service.truth(BASE - 1 - earlier, second + later)


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("oldest", [BASE - 5, BASE, BASE + 100, BASE + 4_999, BASE + 9_000])
async def test_what_is_no_longer_kept_is_passed_over(oldest: int, concurrency: int) -> None:
    """A lower bound that the service raises to its retention limit is not an error."""
    times = [BASE + 97 * n for n in range(50)]
    for before in (None, BASE + 5_000):
        rules = Rules(oldest=oldest, order="random")
        service = ListService(rows=rows_at(times), now=BASE + 9_500, rules=rules)
        async with serving(service) as client:
            paginator = walk(client, BASE - 1, before, limit=10, concurrency=concurrency)
            found = await ids_of(paginator)
        assert sorted(found) == sorted(service.truth(BASE - 1, BASE + 9_501))
        assert paginator.progress.covered_fraction == 1.0


@given(st.integers(0, 2**32), WALKERS)
async def test_a_moving_retention_limit_loses_nothing_that_is_kept(seed: int, walkers: int) -> None:
    """Everything that the service still keeps at the end of the walk was yielded."""
    chance = Random(seed)
    service = ListService(
        rows=rows_at([BASE + chance.randrange(5_000) for _ in range(50)]), now=BASE + 3 * DAY
    )
    oldest = BASE - 500

    def forget(query: Query, page: Page) -> Outcome:
        nonlocal oldest
        oldest += chance.randrange(120)
        return applied(service, max(page.after, oldest), page.before, query.limit)

    service.twist = forget
    async with serving(service) as client:
        found = await ids_of(walk(client, BASE - 1, BASE + 5_000, limit=8, concurrency=walkers))
    assert service.truth(max(oldest, BASE - 1), BASE + 5_000) <= set(found)
    assert len(found) == len(set(found))


@pytest.mark.parametrize("hours", [-6, 6, -1, 1, 14])
@pytest.mark.parametrize("before", [None, BASE + DAY])
async def test_windows_of_another_zone_are_an_error_or_lose_nothing(
    before: int | None, hours: int
) -> None:
    """A service that applies bounds in another zone raises an error or is walked in full."""
    times = [BASE + 1_700 * n for n in range(50)]
    service = ListService(rows=rows_at(times), now=BASE + DAY, most_requests=500)

    def shift(query: Query, page: Page) -> Outcome:
        if query.before is None:
            return applied(service, page.after + hours * HOUR, service.now, query.limit)
        shifted = (query.after or 0) + hours * HOUR, query.before + hours * HOUR
        return applied(service, *shifted, query.limit)

    service.twist = shift
    found: list[str] = []
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, before, limit=10)
        try:
            await collect(paginator, found)
        except UnexpectedResponseError:
            assert paginator.progress.covered_fraction < 1.0
            found += await rest_of(service, client, paginator)
    assert set(found) >= service.ids
    assert not service.overran


async def rest_of(
    service: ListService, client: IncomeClient, paginator: ApplicationPaginator
) -> set[str]:
    """Repair the service, and return what a walk resumed from the checkpoint yields."""
    service.twist = lambda query, page: page
    await paginator.aclose()
    return set(await ids_of(client.list_applications(resume=paginator.checkpoint, limit=10)))


ELSEWHERE: dict[str, Callable[[int, int], tuple[int, int]]] = {
    "all later": lambda after, before: (before + 5_000, before + 6_000),
    "all earlier": lambda after, before: (after - 6_000, after - 5_000),
    "nothing before the start": lambda after, before: (after - 50, after - 50),
    "ends before it starts": lambda after, before: (before + 10, after - 10),
    "a day earlier": lambda after, before: (after - DAY, before - DAY),
}


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("elsewhere", ELSEWHERE)
@pytest.mark.parametrize("number", [1, 2, 5])
async def test_a_page_about_another_window_covers_nothing(
    number: int, elsewhere: str, concurrency: int
) -> None:
    """It raises or is requested again, and never counts as an empty page."""
    times = [BASE + 97 * n for n in range(50)]
    service = ListService(rows=rows_at(times), now=BASE + 30 * DAY)

    def lie(query: Query, page: Page) -> Outcome:
        if len(service.queries) != number:
            return page
        after, before = ELSEWHERE[elsewhere](page.after, page.before)
        return Page(after=after, before=before, ids=())

    service.twist = lie
    found: list[str] = []
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, BASE + 5_000, limit=10, concurrency=concurrency)
        try:
            await collect(paginator, found)
            # The first page of a walk only gives the total, and is not needed.
            assert number == 1
        except UnexpectedResponseError:
            assert paginator.progress.covered_fraction < 1.0
            found += await rest_of(service, client, paginator)
    assert set(found) == service.ids


MALFORMED: dict[str, Any] = {
    "no lower bound": {"after": None},
    "no upper bound": {"before": None},
    "null": {"before": "null"},
    "a number": {"before": "1700000000"},
    "empty": {"after": '""'},
    "words": {"after": '"yesterday"'},
    "no such day": {"before": '"2024-02-30T00:00:00"'},
    "the hour 24": {"before": '"2024-01-31T24:00:00"'},
    "a list": {"after": '["2024-01-31T00:00:00"]'},
}


@pytest.mark.parametrize("malformed", MALFORMED)
@pytest.mark.parametrize("number", [1, 3])
async def test_a_malformed_echo_is_an_error(number: int, malformed: str) -> None:
    """A page without a valid echo is never accepted."""
    times = [BASE + 97 * n for n in range(50)]
    service = ListService(rows=rows_at(times), now=BASE + 30 * DAY)

    def spoil(query: Query, page: Page) -> Outcome:
        if len(service.queries) < number:
            return page
        bounds: dict[str, Any] = {"after": page.after, "before": page.before}
        return Page(**bounds | MALFORMED[malformed], ids=())

    service.twist = spoil
    found: list[str] = []
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, BASE + 5_000, limit=10)
        with pytest.raises(DecodeError):
            await collect(paginator, found)
        assert await rest_of(service, client, paginator) | set(found) == service.ids


@pytest.mark.parametrize(
    ("until", "before"), [(None, -62_135_596_800), (None, 0), (None, None), (BASE + 5_000, 0)]
)
async def test_an_echo_at_the_end_of_the_calendar_is_an_error(
    until: int | None, before: int | None
) -> None:
    """The seconds after it cannot be requested, and the error says so."""
    service = ListService(rows=rows_at([BASE + 1]), now=BASE + DAY)

    def spoil(_: Query, page: Page) -> Outcome:
        upper = page.before if before is None else before
        return Page(after=253_402_300_799, before=upper, ids=())

    service.twist = spoil
    async with serving(service) as client:
        with pytest.raises(UnexpectedResponseError, match="calendar"):
            await collect(walk(client, BASE - 1, until), [])
        poller = client.poll(MemoryCheckpointStore(), start="1970-01-01", once=True)
        with pytest.raises(UnexpectedResponseError):
            await anext(poller)
    assert len(service.queries) < 100


@pytest.mark.parametrize("meaning", MEANINGS)
async def test_fractions_in_an_echo_make_it_narrower(meaning: str) -> None:
    """A bound between two seconds covers the whole seconds inside; the rest is requested."""
    times = [BASE + 7 * n for n in range(30)]
    service = ListService(
        rows=rows_at(times), now=BASE + 30 * DAY, rules=Rules(**MEANINGS[meaning])
    )

    def cut_fractions(query: Query, page: Page) -> Outcome:
        if page.before - page.after < 10:
            return page
        # The service applies bounds half a second further in: neither is the second of a row.
        first, last = page.after + 3, page.before - 3
        keys = [key for key, second in service.rows.items() if first <= second <= last]
        after, before = text_of(first - 1), text_of(last)
        return Page(
            after=f'"{after}.500000"', before=f'"{before}.500000"', ids=tuple(keys[: query.limit])
        )

    service.twist = cut_fractions
    async with serving(service) as client:
        found = await ids_of(walk(client, BASE - 1, BASE + 300, limit=50))
    assert sorted(found) == sorted(service.ids)


@pytest.mark.parametrize(
    "knobs", [{"default_span": 3_600}, {"default_span": 0}, {"max_span": 86_400}]
)
async def test_default_and_widest_spans_of_the_emulated_service_hide_nothing(
    knobs: dict[str, Any],
) -> None:
    """The service's defaults for unset bounds do not affect a walk."""
    clock = JumpingClock()
    async with (
        Emulator(60, clock=clock, days=20, **knobs) as service,
        IncomeClient(service.url, auth=service.basic, clock=clock) as client,
    ):
        after = None if "default_span" in knobs else "2026-06-01"
        found = await ids_of(client.list_applications(after, limit=20))
    assert sorted(found) == sorted(service.world.ids)


@pytest.mark.parametrize("seconds", [1, 2])
async def test_windows_too_narrow_to_prove_anything_are_an_error(seconds: int) -> None:
    """A service that serves one or two seconds per window raises, and hides nothing."""
    clock = JumpingClock()
    rules: dict[str, Any] = {"max_span": seconds, "span_clamp": "before"}
    async with (
        Emulator(60, clock=clock, days=0.01, **rules) as service,
        IncomeClient(service.url, auth=service.basic, clock=clock) as client,
    ):
        with pytest.raises(UnexpectedResponseError, match=f"cuts windows down to {seconds} s"):
            await ids_of(client.list_applications("2026-06-30T11:00", "2026-06-30T11:58"))
