"""Promise 6: a walk that is stopped at any point resumes from its checkpoint without loss."""

import asyncio
import contextlib
import zlib
from itertools import chain, pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from income_client import CheckpointError, PermissionDeniedError, ServerError
from income_client.records.window import Window
from income_client.walk import ApplicationPaginator
from income_client.walk.checkpoint import read_checkpoint, write_checkpoint
from income_client.walk.windows import Bounds, Intervals
from tests.support.listing import BASE, DAY, Listing, ListService, serving, text_of
from tests.support.server import turns
from tests.support.walks import (
    LIMITS,
    WALKERS,
    DryWalk,
    collect,
    dry_walk,
    ids_of,
    listings,
    walk,
    walks,
)

# What is covered, as a set of seconds

WINDOWS = st.lists(st.builds(Window, st.integers(0, 60), st.integers(0, 60)), max_size=12)


def seconds_of(windows: list[Window]) -> set[int]:
    """Return every second of the windows."""
    return {second for window in windows for second in range(window.after, window.before)}


@given(WINDOWS, st.builds(Window, st.integers(0, 60), st.integers(0, 60)))
def test_a_set_of_windows_is_the_set_of_their_seconds(
    windows: list[Window], within: Window
) -> None:
    """Ascending and apart, and as short as it can be; its gaps are the seconds that it lacks."""
    intervals = Intervals(windows)
    merged = list(intervals)
    assert seconds_of(merged) == seconds_of(windows)
    assert intervals.seconds == len(seconds_of(windows))
    assert all(merged)
    assert all(left.before < right.after for left, right in pairwise(merged))
    gaps = intervals.gaps(within)
    assert seconds_of(gaps) == seconds_of([within]) - seconds_of(windows)
    assert sum(gap.before - gap.after for gap in gaps) == len(seconds_of(gaps))


# As a text


def checked(text: str) -> str:
    """Return a state with the check of its own content."""
    members = msgspec.json.encode(msgspec.json.decode(text), order="deterministic")
    return text[:-1] + f',"check":{zlib.crc32(members)}}}'


STATE = '{"walk":1,"after":0,"before":99,"covered":[[0,10],[20,100]]}'
GOOD = checked(STATE)
# Of version 0.1; it covers the first 400 seconds of 600.
KNOWN = (
    '{"walk":1,"after":1700000000,"before":1700000600,'
    '"covered":[[1700000000,1700000400]],"check":1849168817}'
)


@given(
    st.lists(st.builds(Window, st.integers(0, 100), st.integers(0, 100))),
    st.builds(Bounds, st.just(0), st.none() | st.integers(100, 200)),
    st.sampled_from([None, "a", "b"]),
)
@example([Window(7, 8)], Bounds(7, 7), None)
def test_a_state_comes_back_as_it_was(
    windows: list[Window], bounds: Bounds, filter_digest: str | None
) -> None:
    covered = Intervals(windows)
    text = write_checkpoint(bounds, covered, filter_digest)
    assert read_checkpoint(text, filter_digest=filter_digest) == (bounds, list(covered))


def test_a_state_is_read_for_its_own_span_and_filter_only() -> None:
    """Also one of an earlier version; one of a newer version is named as such."""
    known = (Bounds(BASE, BASE + 600), [Window(BASE, BASE + 400)])
    for bounds in [(None, None), (BASE, None), (BASE, BASE + 600)]:
        assert read_checkpoint(KNOWN, *bounds) == known
    for bounds in [(BASE + 1, None), (None, BASE + 599), (BASE, BASE + 601)]:
        with pytest.raises(CheckpointError, match="another span"):
            read_checkpoint(KNOWN, *bounds)
    for text, other in [(KNOWN, "a"), (checked(STATE[:-1] + ',"filter":"a"}'), None)]:
        with pytest.raises(CheckpointError, match="another filter"):
            read_checkpoint(text, filter_digest=other)
    with pytest.raises(CheckpointError, match="newer version"):
        read_checkpoint(checked(STATE.replace('"walk":1', '"walk":2')))


# What takes the place of which part of a sound state.
# fmt: off
DAMAGE = [
    ('"walk":1', '"walk":0'), ('"walk"', '"poll"'), ("1", "true"),
    ('"after":0', '"after":0.5'), ('"after":0', '"after":null'),
    ('"after":0', '"after":-62135596801'), ('"before":99', '"before":253402300800'),
    ('"before":99', '"before":-1'), ('"before":99', '"before":50'),
    ('"before":99', '"before":true'), ('99,"covered":[[0,10],[20,100]]', '0,"covered":[[0,2]]'),
    ("[0,10]", "[10,0]"), ("[0,10]", "[-5,10]"), ("[0,10]", "[0,20]"),
    ("[0,10]", "[0]"), ("[0,10]", '["0",10]'), ("[0,10]", "[false,10]"),
    ("[[0,10],[20,100]]", "{}"), ('"covered"', '"extra":1,"covered"'),
]
DEEP = "[" * 300 + "]" * 300
NO_STATES: list[object] = [
    None, b"{}", 1, [], {}, "", "{", "[]", "null", "\ud800", DEEP,
    f'{{"walk":1,"after":0,"before":9,"covered":{DEEP}}}', STATE, STATE[:-1],
    GOOD.replace("[20,100]", "[30,100]"), GOOD.replace('"after":0', '"after":1'),
]
# fmt: on


@pytest.mark.parametrize(("old", "new"), DAMAGE)
def test_a_damaged_state_is_refused(old: str, new: str) -> None:
    """A damaged state is never taken for a fresh start, even if its checksum fits."""
    changed = STATE.replace(old, new, 1)
    assert changed != STATE
    for damaged in (changed, checked(changed)):
        with pytest.raises(CheckpointError, match="damaged"):
            read_checkpoint(damaged)


@pytest.mark.parametrize("text", NO_STATES)
def test_what_is_no_state_is_refused(text: object) -> None:
    with pytest.raises(CheckpointError, match="damaged"):
        read_checkpoint(text)


# The planner


@given(walks(after=[0], is_open=[False]))
def test_planned_and_covered_windows_partition_the_span_at_every_step(walked: DryWalk) -> None:
    """No second is in two places or in none, and no more questions are in flight than walkers."""
    going = True
    while going:
        going = walked.step()
        position = BASE
        for part in sorted([*walked.planner.planned, *walked.planner.covered]):
            assert part.after == position
            position = part.before
        assert position == walked.planner.span.before
        assert len(walked.in_flight) <= walked.options["walkers"]


@given(walks(), st.integers(0, 12))
def test_a_walk_that_crashed_anywhere_resumes_without_loss(first: DryWalk, steps: int) -> None:
    """Rows acknowledged before the crash and rows of the resumed walk are all rows."""
    before = first.planner.bounds.before or first.listing.now + 1
    for _ in range(steps):
        first.step()
    again = first.resumed()
    assert set(first.ids) | set(again.ids) == first.listing.truth(BASE - 1, before)
    assert len(first.ids) == len(set(first.ids))
    assert len(again.ids) == len(set(again.ids))


@given(walks(is_open=[True], oldest=None))
def test_a_question_that_failed_is_asked_again(walked: DryWalk) -> None:
    """Dropping any question at any time changes nothing about the result."""
    while walked.step():
        if walked.in_flight and walked.listing.chance.random() < 0.3:
            question, _ = walked.in_flight.pop()
            walked.planner.drop(question)
    assert sorted(walked.ids) == sorted(walked.listing.ids)


@given(st.data(), LIMITS, WALKERS, st.integers(2, 3_600), st.sampled_from([1, 3, 9, 10**6]))
def test_a_walk_up_to_a_future_bound_leaves_the_future_uncovered(
    data: st.DataObject, limit: int, walkers: int, ahead: int, steps: int
) -> None:
    """Updates before that bound come in the walk or its resumption, which then covers all."""
    futures = st.sampled_from(["accept", "lower"])
    listing = data.draw(listings(Listing, limit, [10], oldest=None, future=futures))
    before = listing.now + ahead
    must = listing.truth(BASE - 10, before)
    first = dry_walk(listing, BASE - 10, before, limit=limit, walkers=walkers)
    for _ in range(steps):
        if not first.step():
            break
    listing.now = min(listing.now + 1, before - 1)
    touched = listing.chance.sample(sorted(must), min(len(must), limit - 1))
    for key in touched:
        listing.touch(key)
    listing.now = before + 2 * DAY
    again = first.resumed()
    assert must <= {*first.ids, *again.ids}
    assert set(touched) <= set(again.ids)
    if listing.rules.date_ahead is not None:
        asked = len(listing.queries)
        assert again.resumed().ids == []
        assert len(listing.queries) == asked


@given(
    walks(since=[2], is_open=[True], limits=st.sampled_from([3, 5, 10]), oldest=None),
    st.lists(st.integers(0, 90), min_size=1, max_size=5),
)
def test_walks_that_resume_each_other_lose_no_update(walked: DryWalk, rounds: list[int]) -> None:
    """An open walk resumed after its end yields later updates, even of the same second."""
    listing, chance, limit = walked.listing, walked.listing.chance, walked.limit
    assert set(walked.run().ids) == listing.ids
    for seconds in rounds:
        listing.now += seconds
        crowd = sum(second == listing.now for second in listing.rows.values())
        room = max(0, min(len(listing.ids), limit - 1 - crowd))
        touched = chance.sample(sorted(listing.ids), chance.randint(0, room))
        for key in touched:
            listing.touch(key)
        walked = walked.resumed()
        assert set(touched) <= set(walked.ids)
        assert walked.planner.requests < 60 + 2 * len(touched)


@given(st.data(), LIMITS, st.sampled_from([0, 3_600]))
def test_walks_that_follow_each_other_lose_nothing(
    data: st.DataObject, limit: int, date_ahead: int
) -> None:
    """Each walk ends at the first echoed present; the next begins a second before it."""
    dates = st.sampled_from([0, None])
    listing = data.draw(listings(Listing, limit, [2], oldest=None, date_ahead=dates))
    rules, now = listing.rules, listing.now
    # Windows of a few seconds cannot be followed as fast as their end moves on.
    assume(rules.widest is None or rules.widest > 12)
    start, ids = BASE - 10, set[str]()
    while start < now - 1:
        walked = dry_walk(listing, start - 1, None, limit=limit, date_ahead=date_ahead).run()
        # Without its `Date` a service that cuts windows short may be followed into the future.
        present = min(walked.planner.present or start, listing.now - 1 + rules.rounds_up)
        assert not walked.planner.covered.gaps(Window(start, present))
        ids |= set(walked.ids)
        listing.now += 1
        assert present > start, "no walk gets any further"
        start = present
    assert listing.truth(BASE - 10, now) <= ids


# Over sockets


STOPS = st.tuples(
    st.sampled_from(["rows", "pages", "cancel", "cancel twice", "failure"]),
    st.integers(0, 40),
    st.booleans(),
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
        case "cancel" | "cancel twice":
            consumer = asyncio.create_task(_take_slowly(paginator, into))
            await turns(6 * count)
            consumer.cancel()
            if stop == "cancel twice":
                await turns(1)  # so that the first is being cleaned up after
                consumer.cancel()
            await asyncio.wait([consumer])
        case "failure":
            last = len(service.queries) + count // 2
            status = 500 if count % 2 else 403
            service.twist = lambda query, page: status if len(service.queries) > last else page
            with contextlib.suppress(PermissionDeniedError, ServerError):
                await collect(paginator, into)
            service.twist = lambda query, page: page


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
    service = data.draw(listings(ListService, limit, oldest=None))
    last = service.now
    before = None if is_open else last
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


@given(
    data=st.data(),
    limit=LIMITS,
    walkers=WALKERS,
    by_page=st.booleans(),
    taken=st.lists(st.integers(1, 40), min_size=1, max_size=3),
)
async def test_a_row_is_covered_once_the_next_one_is_requested(
    data: st.DataObject, limit: int, walkers: int, by_page: bool, taken: list[int]
) -> None:
    """A walk that is left with any row or page yields that again once resumed, and the rest."""
    fixed: dict[str, Any] = {"oldest": None, "widest": None, "future": "accept"}
    service = data.draw(listings(ListService, limit, **fixed))
    before = data.draw(st.sampled_from([None, service.now]), "before")
    options: dict[str, Any] = {"limit": limit, "concurrency": walkers}
    async with serving(service) as client:
        for count in taken:
            paginator = walk(client, BASE - 1, before, **options)
            parts: Any = paginator.pages() if by_page else paginator
            seen: list[list[str]] = []
            while len(seen) < count and (part := await anext(parts, None)) is not None:
                rows = part.applications if by_page else (part,)
                seen.append([row.application_id for row in rows])
            checkpoint = paginator.checkpoint
            await parts.aclose()
            await paginator.aclose()
            assert paginator.checkpoint == checkpoint
            again = await ids_of(client.list_applications(resume=checkpoint, **options))
            assert len(again) == len(set(again))
            assert {*chain(*seen), *again} == service.ids
            has_ended = len(seen) < count
            assert has_ended or set(seen[-1]) <= set(again)


async def test_what_is_covered_is_not_read_again() -> None:
    """At most the page that the consumer holds and one per other walker come again."""
    service = ListService.of(range(0, 200 * 37, 37), order="random")
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, BASE + 8_000, limit=10)
        for _ in range(150):
            await anext(paginator)
        again = await ids_of(client.list_applications(limit=10, resume=paginator.checkpoint))
    assert len(again) <= 50 + 4 * 10


@pytest.mark.parametrize("before", [None, BASE + 9_000])
async def test_progress_only_grows_and_ends_at_one(before: int | None) -> None:
    """The progress is 1 only once the consumer has finished, though updates move rows ahead."""
    service = ListService.of(range(0, 9_000, 60), 9_000)
    unseen = dict.fromkeys(service.rows)
    fractions: list[float] = []
    async with serving(service) as client:
        paginator = walk(client, None, before, limit=20)
        assert paginator.progress.covered_fraction == 0.0
        async for row in paginator:
            fractions.append(paginator.progress.covered_fraction)
            unseen.pop(row.application_id, None)
            service.now += 5
            if before is None and unseen:
                service.touch(unseen.popitem()[0])
        assert paginator.progress.covered_fraction == 1.0
    assert fractions == sorted(fractions)
    assert before is None or fractions[-1] < 1.0


async def test_a_checkpoint_is_checked_before_anything_is_requested() -> None:
    """The checkpoint contains its span: bounds may be omitted or repeated.

    Others raise an error.
    """
    service = ListService.of(range(0, 80 * 7, 7))
    after, before = text_of(BASE), text_of(BASE + 600)
    async with serving(service) as client:
        assert client.list_applications(after, before, resume=KNOWN).checkpoint == KNOWN
        for wrong in [(text_of(BASE + 1), None), (None, text_of(BASE + 601))]:
            with pytest.raises(CheckpointError):
                client.list_applications(*wrong, resume=KNOWN)
        fresh = client.list_applications().checkpoint
        assert client.list_applications(resume=fresh).checkpoint == fresh
        assert service.queries == []
        found = await ids_of(client.list_applications(resume=KNOWN))
    assert set(found) == {key for key in service.ids if service.rows[key] >= BASE + 400}
    assert {query.after for query in service.queries} == {BASE + 399}
