"""Promise 9: the checkpoint moves forward only, behind service time, and has one owner."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from income_client import (
    ApplicationRecord,
    Batch,
    CheckpointConflictError,
    IncomeClient,
    MemoryCheckpointStore,
    SQLiteCheckpointStore,
    UnexpectedResponseError,
)
from income_client.emulator import Emulator, Fault
from income_client.emulator.times import http_date, stamp
from income_client.events import CheckpointCommitted, Event, RequestAnswered
from income_client.events.kinds import RequestSent
from income_client.polling.checkpoint import Checkpoint, read_checkpoint
from income_client.testing import JumpingClock
from tests.support.polling import (
    LIST,
    NOW_TEXT,
    FailingStore,
    Scene,
    first,
    ids_of,
    one_poll,
    reached,
    rest,
    scene,
    take,
)
from tests.support.service import NOW, collect, until


class SlowStore(MemoryCheckpointStore):
    """Saves nothing before it is let; counts the saves."""

    def __init__(self) -> None:
        super().__init__()
        self.saves = 0
        self.is_free = asyncio.Event()
        self.is_free.set()

    async def save(self, name: str, checkpoint: str, **changes: Any) -> int:
        self.saves += 1
        await asyncio.sleep(0)
        await self.is_free.wait()
        return await super().save(name, checkpoint, **changes)


@pytest.fixture
def store() -> SlowStore:
    return SlowStore()


@pytest.fixture
async def two_batches(store: SlowStore) -> AsyncIterator[Scene]:
    """Run a service with two batches of updates, and a store that may be slow."""
    async with scene(30, batch_size=10) as place:
        place.store = store
        place.touch(*range(20))
        yield place


async def fail(batch: Batch) -> None:
    with pytest.raises(ValueError, match="away"):
        async with batch:
            raise ValueError("the database is away")


async def test_a_batch_is_committed_by_its_own_block() -> None:
    """Once, and by a clean end; a commit within it or after it stores nothing more."""
    events: list[Event] = []
    async with scene(on_event=events.append) as place:
        place.touch(1, 2)
        for is_early in (False, True):
            async with await take(place.poll()) as batch:
                assert len(batch) == len(batch.records) == 2 - is_early
                assert list(batch) == list(batch.records)
                assert await place.text() != batch.checkpoint
                if is_early:
                    await batch.commit()
            assert await place.text() == batch.checkpoint
            version = (await place.store.load("default")).version
            await batch.commit()
            assert (await place.store.load("default")).version == version
            assert isinstance(events[-1], CheckpointCommitted)
            assert events[-1].reached == await reached(place)
            place.touch(3)


async def test_a_batch_whose_block_fails_comes_again_with_growing_delays(place: Scene) -> None:
    """Before any later one, as often as it fails; the delays begin anew with each batch."""
    poller = place.poll(interval=1000)
    clock: Any = place.client._clock
    (updated,) = place.touch(0)
    for number in range(1, 4):
        poller.wake()
        failures = 0
        async for batch in poller.batches():
            assert ids_of(batch) == [updated]
            if failures == 5:
                pauses = [seconds for seconds in clock.slept if seconds < 100]
                await batch.commit()
                break
            if failures == 0:
                clock.slept.clear()
                (later,) = place.touch(number)
            failures += 1
            await fail(batch)
        updated = later
        assert len(pauses) == 5
        assert str(poller.status.last_error) == "the block of a batch has failed: ValueError"
        assert all(2**n / 2 <= pause <= 2**n for n, pause in enumerate(pauses, start=1))


async def test_a_checkpoint_kept_elsewhere_begins_where_it_was(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With data and checkpoint in one transaction of the caller, nothing is repeated.

    A store that has no checkpoint beside one is a warning: it may have had dead letters.
    """
    async with scene(30, batch_size=10) as place:
        place.touch(*range(25))
        caplog.set_level("INFO", "income_client.poller")
        text, ids = NOW_TEXT, list[str]()
        while len(ids) < 25:
            batch = await take(
                place.client.poll(MemoryCheckpointStore(), start=text, documents=False)
            )
            text, ids = batch.checkpoint, ids + ids_of(batch)
        assert len(set(ids)) == 25
    levels = [one.levelname for one in caplog.records if "is new in" in one.getMessage()]
    assert levels == ["INFO", "WARNING", "WARNING"]


async def test_all_of_history_comes_batch_by_batch() -> None:
    async with scene(65, batch_size=10, page_size=15, order="shuffled") as place:
        ids: list[str] = []
        progress = []
        while len(set(ids)) < 65:
            poller = place.poll(start="2026-06-30")
            async for batch in poller.batches():
                async with batch:
                    assert len(batch) <= 10
                    assert len(batch.checkpoint) < 6_000
                    ids += ids_of(batch)
                progress.append(await reached(place))
                if len(progress) % 3 == 0 or len(ids) == 65:
                    break
        assert progress == sorted(progress)
        assert len(ids) == len(set(ids)) == 65
        assert len(set(progress)) > 2


async def test_a_block_whose_commit_covers_a_skipped_batch_warns_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A consumer that collects batches commits the last one by a call, which does not warn."""
    async with scene(50, batch_size=10) as place:
        place.touch(*range(50))
        collected = [batch async for batch in place.poll(name="collected", once=True).batches()]
        await collected[-1].commit()
        async with collected[-1]:
            pass
        poller = place.poll()
        batches = poller.batches()
        one, two, three, four, five = [await anext(batches) for _ in range(5)]
        await fail(one)
        async with three, four, two:
            pass
        assert caplog.records == []
        assert await anext(batches) is one
        async with five:
            pass
        (line,) = caplog.records
        assert (line.levelname, line.name) == ("WARNING", "income_client.poller")
        facts = vars(line)
        assert (facts["poller"], facts["skipped"], facts["committed"]) == ("default", 1, 5)
        place.service.advance(60)
        place.touch(*range(20))
        await anext(batches)
        async with await anext(batches):
            pass
        await batches.aclose()
        assert len(caplog.records) == 1


async def test_batches_that_failed_come_again_in_their_order() -> None:
    """The earliest first, and none that was committed; a later commit covers none of them.

    So they come again after a restart as well.
    """
    async with scene(35, batch_size=10) as place:
        place.touch(*range(35))
        poller = place.poll()
        batches = poller.batches()
        one, two, three, four = [await anext(batches) for _ in range(4)]
        for batch in (three, one, two):
            await fail(batch)
        await two.commit()
        await four.commit()
        assert await reached(place) == NOW
        again = place.client.poll(MemoryCheckpointStore(), start=await place.text())
        assert {*ids_of(one), *ids_of(three)} <= set(ids_of(await rest(again)))
        assert [ids_of(await anext(batches)) for _ in range(2)] == [ids_of(one), ids_of(three)]
        await one.commit()
        await three.commit()
        await batches.aclose()
        assert await rest(place.poll()) == []


async def test_a_batch_whose_block_still_runs_is_not_covered_by_a_later_one(
    two_batches: Scene,
) -> None:
    """The block may fail yet, as where each batch has a task of its own."""
    poller = two_batches.poll()
    batches = poller.batches()
    one, two = await anext(batches), await anext(batches)
    await one.__aenter__()
    async with two:
        pass
    assert await reached(two_batches) == NOW
    error = ValueError("the database is away")
    await one.__aexit__(ValueError, error, None)
    assert await anext(batches) is one
    async with one:
        pass
    await batches.aclose()
    assert await rest(poller) == []
    assert await rest(two_batches.poll()) == []


async def test_a_loop_over_records_that_is_entered_again_warns_once(
    two_batches: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """The record at which it was left counts as done, although the loop's body may have failed."""
    poller = two_batches.poll()
    for _ in range(3):
        async for _ in poller:
            break
    (warning,) = caplog.records
    assert "iterate over batches()" in warning.getMessage()


async def test_a_batch_that_waits_for_one_that_failed_does_not_come_again(
    two_batches: Scene,
) -> None:
    """The consumer committed the waiting batch and left the loop before the failed one came."""
    poller = two_batches.poll()
    batches = poller.batches()
    one, two = await anext(batches), await anext(batches)
    await fail(one)
    await two.commit()
    await batches.aclose()
    async with await take(poller) as again:
        assert again is one
    assert await rest(poller) == []
    assert await rest(two_batches.poll()) == []


async def test_commits_at_the_same_time_are_one_save(two_batches: Scene, store: SlowStore) -> None:
    """The later batch covers the earlier one."""
    batches = two_batches.poll().batches()
    one, two = await anext(batches), await anext(batches)
    saves = store.saves
    await asyncio.gather(two.commit(), one.commit())
    assert store.saves == saves + 1
    await batches.aclose()


async def test_a_block_that_fails_while_a_later_batch_is_committed_holds_nothing_up(
    two_batches: Scene, store: SlowStore
) -> None:
    """The commit covers its batch as well; the checkpoint moves on with the empty polls."""
    poller = two_batches.poll()
    batches = poller.batches()
    one, two = await anext(batches), await anext(batches)
    store.is_free.clear()
    saves = store.saves
    committing = asyncio.create_task(two.commit())
    await until(lambda: store.saves > saves)
    await fail(one)
    store.is_free.set()
    await committing
    await batches.aclose()
    await one_poll(poller)
    committed = await reached(two_batches)
    two_batches.service.advance(100)
    assert await rest(poller) == []
    assert await reached(two_batches) > committed


async def test_an_empty_poll_waits_for_the_open_batch(place: Scene) -> None:
    """A caller that stores checkpoints itself may not have stored that of the batch yet."""
    place.touch(1)
    place.service.advance(10)
    poller = place.poll()
    batches = poller.batches()
    batch = await anext(batches)
    waiting = asyncio.create_task(anext(batches, None))
    await until(lambda: poller.status.polls >= 3)
    assert await reached(place) == NOW
    await batch.commit()
    committed = await reached(place)
    polls = poller.status.polls
    await until(lambda: poller.status.polls >= polls + 2)
    assert await reached(place) > committed
    poller.stop()
    await waiting


async def test_a_commit_that_was_cancelled_and_made_is_not_undone_at_the_end(place: Scene) -> None:
    """Closing the poller stores where it is, and not where it was before that commit."""
    place.store = store = FailingStore()
    place.touch(1, 2, 3)
    place.service.advance(10)
    poller = place.poll(interval=10_000)
    batch = await take(poller)
    store.failures, store.saves_first, store.error = 1, True, asyncio.CancelledError()
    with pytest.raises(asyncio.CancelledError):
        await batch.commit()
    made = read_checkpoint(await place.text()).progress
    assert made == read_checkpoint(batch.checkpoint).progress
    await poller.aclose()
    assert read_checkpoint(await place.text()).progress == made
    assert await rest(place.poll()) == []


@pytest.mark.parametrize("kind", ["memory", "sqlite", "versions only"])
async def test_an_older_poller_overwrites_nothing_where_versions_meet(
    place: Scene, kind: str, tmp_path: Path
) -> None:
    """After a restore from a backup both have counted to the same version, and the newer stays."""
    file, backup = tmp_path / "polls.db", tmp_path / "backup.db"
    memory = FailingStore() if kind == "versions only" else MemoryCheckpointStore()
    place.store = SQLiteCheckpointStore(file) if kind == "sqlite" else memory
    await rest(place.poll())
    kept = dict(memory._stored)
    if kind == "sqlite":
        shutil.copy(file, backup)
    place.touch(1)
    older = await take(place.poll())
    versions = [(await place.store.load("default")).version]
    memory._stored = kept
    if kind == "sqlite":
        shutil.copy(backup, file)
    place.touch(2)
    newer = await take(place.poll())
    before = await place.store.load("default")
    assert [before.version] == versions
    with pytest.raises(CheckpointConflictError):
        await older.commit()
    assert await place.store.load("default") == before
    await newer.commit()
    assert await reached(place) > read_checkpoint(before.checkpoint or "").reached


SETTLE = 5
HOUR = 3_600
DAY = 86_400


async def test_a_poller_without_a_start_begins_settle_seconds_before_the_present() -> None:
    """Records of those seconds are delivered although they became visible later."""
    async with scene(visibility_delay=3) as place:
        place.service.advance(4_000)
        updated = place.touch(1)
        place.service.advance(1)
        assert await rest(place.poll(start=None, settle=SETTLE)) == []
        assert NOW + 4_001 - SETTLE <= await reached(place) <= NOW + 4_006 - SETTLE
        place.service.advance(10)
        assert ids_of(await rest(place.poll(start=None, settle=SETTLE))) == updated


async def test_an_update_that_is_listed_after_summer_time_began_is_delivered() -> None:
    """The list shows the update four seconds late; an hour of its times is skipped meanwhile."""
    start = datetime(2026, 3, 29, 1, 59, 50)  # noqa: DTZ001 - in the service's zone
    async with (
        Emulator(3, start=start, clock=JumpingClock(), visibility_delay=HOUR + 4) as service,
        IncomeClient(
            service.url, auth=service.basic, service_timezone=ZoneInfo("Europe/Berlin")
        ) as client,
    ):
        place = Scene(service, client)
        assert await rest(place.poll(start=None, settle=SETTLE)) == []
        service.advance(9)
        updated = place.touch(1)
        service.advance(HOUR + 2)
        assert await rest(place.poll(settle=SETTLE)) == []
        service.advance(3)
        assert ids_of(await rest(place.poll(settle=SETTLE))) == updated


@pytest.mark.parametrize(
    ("echo", "date", "now"),
    [
        (NOW + 100, http_date(NOW + 60), NOW + 60),
        (NOW + 60, http_date(NOW + 100), NOW + 60),
        (NOW + 60, "some day", NOW + 60),
    ],
    ids=["date-behind", "date-ahead", "no-date"],
)
async def test_a_checkpoint_is_behind_echo_and_date(
    place: Scene, echo: int, date: str, now: int
) -> None:
    """Neither a `Date` nor an echo that runs ahead moves it."""
    place.show(before=echo, headers={"Date": date}, times=None)
    await rest(place.poll(settle=SETTLE))
    assert now - SETTLE - 1 <= await reached(place) <= now - SETTLE


async def test_a_date_that_runs_ahead_does_not_hasten_the_checkpoint() -> None:
    """The list takes some seconds; what is listed late may have been missed at its beginning."""
    began: list[int] = []

    def pass_time(event: Event) -> None:
        if isinstance(event, RequestSent):
            began.append(place.service.now)
            place.service.advance(1)

    rules: dict[str, Any] = {"clock_offset": 2, "future": "refuse"}
    async with scene(60, page_size=20, on_event=pass_time, **rules) as place:
        await rest(place.poll(start="2026-06-30", settle=SETTLE))
        first_list = began[1]  # after the request of a token
        assert len(began) > 4
        assert await reached(place) <= first_list + 1 - SETTLE


async def test_what_was_updated_between_listing_and_reading_comes_once() -> None:
    """Also to the next process, and where the echo of a cut window is far behind the present."""
    times = [NOW - 3 * DAY, NOW - 2 * DAY]
    async with scene(times, max_span=6 * 3_600, span_clamp="before") as place:
        delivered: list[str] = []

        def update(event: Event) -> None:
            if not delivered and isinstance(event, RequestAnswered) and "list" in event.call:
                place.touch(0)

        url, auth, start = place.service.url, place.service.oauth2, stamp(times[0])
        async with IncomeClient(url, auth=auth, on_event=update) as client:
            poller = client.poll(place.store, start=start, documents=False)
            async for batch in poller.batches():
                async with batch:
                    delivered += ids_of(batch)
                if len(delivered) == len(place.ids):
                    break
        assert delivered == list(place.ids)
        assert ids_of(await rest(place.poll(start=start))) == []


async def test_a_service_without_any_time_is_an_error(place: Scene) -> None:
    """The end of the calendar is not the present, and there is no other clock to use."""
    place.show(before=253_402_300_799, headers={"Date": "some day"}, times=None)
    with pytest.raises(UnexpectedResponseError, match="sends no time"):
        await rest(place.poll())
    assert await reached(place) == NOW


@pytest.mark.parametrize("offset", [-86_400, 0, 500])
async def test_steady_polls_take_one_list_call_each(offset: int) -> None:
    """And no other call, also where its `Date` is that of another clock."""
    async with scene(clock_offset=offset) as place:
        await rest(place.poll())
        poller = place.poll()
        waiting = asyncio.create_task(anext(poller, None))
        await until(lambda: poller.status.polls >= 2)
        polls, calls = poller.status.polls, len(place.service.requests)
        await until(lambda: poller.status.polls >= polls + 4)
        waiting.cancel()
        await asyncio.wait([waiting])
        asked = place.service.requests[calls:]
        assert len(asked) <= poller.status.polls - polls + 1
        assert {request.name for request in asked} == {"list_applications"}


def run_ahead(place: Scene, seconds: int, replies: int) -> None:
    """Make the service report a future time and list nothing, for a number of list calls."""
    ahead = place.service.now + seconds
    place.show(before=ahead, headers={"Date": http_date(ahead)}, times=replies)


@pytest.mark.parametrize("future", ["accept", "clamp", "refuse"])
@pytest.mark.parametrize(("start", "seconds"), [(None, HOUR), (NOW_TEXT, 365 * DAY)])
async def test_a_clock_that_is_set_back_is_followed(
    start: str | None, seconds: int, future: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Even if polling began while it was ahead; the checkpoint stays there, and the lag is small.

    One warning says by how much the clock was set back.
    """
    async with scene(future=future) as place:
        run_ahead(place, seconds, replies=3)
        poller = place.poll(start=start)
        waiting = asyncio.create_task(first(poller, 1))
        await until(lambda: poller.status.polls >= 3)
        updated = place.touch(3)
        assert ids_of(await waiting) == updated
        assert 0 <= (poller.status.lag or 0) < 5 * 60
        (line,) = [one for one in caplog.records if "behind a time" in one.getMessage()]
        assert seconds - 5 * 60 < vars(line)["seconds"] <= seconds
        assert line.name == "income_client.poller.clock"  # commands print it
        updated = place.touch(4)
        assert ids_of(await first(poller, 1)) == updated
        assert await rest(poller) == []
        updated = place.touch(5)
        assert ids_of(await first(place.poll(start=start), 1)) == updated
        assert await reached(place) > NOW + seconds - 100


async def test_a_clock_that_was_set_back_before_the_first_commit_is_followed(place: Scene) -> None:
    """A process made the first save and died; the next one finds the clock an hour earlier."""
    began = Checkpoint(since=NOW + HOUR, reached=NOW + HOUR)
    await place.store.save("default", began.text, version=0)
    updated = place.touch(3)
    assert set(updated) <= set(ids_of(await rest(place.poll(start=None))))


async def test_a_clock_that_is_noticed_late_costs_no_update(place: Scene) -> None:
    """The list call that shows that the clock was set back was tried again for a minute."""
    place.show(before=NOW + HOUR, headers={"Date": http_date(NOW + HOUR)}, times=None)
    poller, records = place.poll(settle=0), list[ApplicationRecord]()
    polling = asyncio.create_task(collect(poller, records))
    await until(lambda: poller.status.polls >= 2)
    place.service.faults.clear()
    updated = place.touch(3)
    place.service.faults.add(Fault("status", status=503, path=LIST, times=2, retry_after=30))
    poller.stop(after_poll=True)
    await polling
    assert ids_of(records) == updated


async def test_a_store_that_is_emptied_while_the_clock_is_back_costs_no_dead_letter() -> None:
    """The update is older than the last poll: only the dead letter knew of it."""
    store = MemoryCheckpointStore()
    async with scene() as place:
        place.store = store
        run_ahead(place, HOUR, replies=3)
        poller = place.poll(start=None)
        waiting = asyncio.create_task(first(poller, 1))
        await until(lambda: poller.status.polls >= 3)
        (lost,) = place.touch(3)
        place.spoil(lost, status=404)
        await until(lambda: poller.status.dead_letters == 1)
        polls = poller.status.polls
        await until(lambda: poller.status.polls > polls + 5)
        place.service.faults.clear()
        store._stored.clear()
        store._letters.clear()
        assert lost in ids_of(await waiting)


async def test_a_store_that_is_restored_from_before_the_clock_went_back_costs_no_update() -> None:
    """A poller with standbys resumes from the backup, although its own last poll is newer."""
    async with scene() as place:
        place.store = store = MemoryCheckpointStore()
        run_ahead(place, HOUR, replies=3)
        poller = place.poll(start=None, standby=2.0, interval=5.0)
        records: list[ApplicationRecord] = []
        waiting = asyncio.create_task(collect(poller, records))
        await until(lambda: poller.status.polls >= 1)
        backup = dict(store._stored)
        await until(lambda: poller.status.polls >= 4)
        (lost,) = place.touch(3)
        await until(lambda: ids_of(records) == [lost])
        place.service.advance(100)
        polls = poller.status.polls
        await until(lambda: poller.status.polls > polls + 30)
        store._stored = backup
        await until(lambda: poller.status.polls > polls + 40)
        poller.stop()
        await waiting
        assert lost in ids_of(records[1:])


async def test_a_poller_that_was_replaced_while_it_waited_lists_nothing_more(place: Scene) -> None:
    """The other poller delivers the updates, and this one could not commit them."""
    poller = place.poll()
    await one_poll(poller)
    await rest(place.poll())
    lists = place.requests("list_applications")
    with pytest.raises(CheckpointConflictError):
        await anext(poller)
    assert place.requests("list_applications") == lists


async def test_a_poll_that_finds_nothing_stores_that_the_clock_was_set_back(place: Scene) -> None:
    """The next process is started when the clock has caught up, and lists what it has missed."""
    run_ahead(place, HOUR, replies=3)
    poller = place.poll(settle=0)
    waiting = asyncio.create_task(first(poller, 1))
    await until(lambda: poller.status.polls >= 5)
    poller.stop()
    assert await waiting == []
    place.service.advance(10)
    (updated,) = place.touch(3)
    place.service.advance(2 * HOUR)
    assert ids_of(await rest(place.poll(settle=0))) == [updated]


async def test_a_new_name_does_not_follow_a_clock_before_its_beginning(place: Scene) -> None:
    """The present was echoed a second later when the name was given its beginning."""
    run_ahead(place, 1, replies=1)
    assert await rest(place.poll(start=None, settle=0)) == []


@pytest.mark.parametrize(("lookback", "found"), [(0, False), (HOUR, True)])
async def test_a_lookback_covers_a_clock_that_was_set_back_meanwhile(
    place: Scene, lookback: int, found: bool
) -> None:
    """The clock was set back while the poller was stopped, and has caught up since."""
    run_ahead(place, HOUR, replies=1)
    assert await rest(place.poll(settle=0)) == []
    place.service.advance(10)
    (updated,) = place.touch(3)
    place.service.advance(2 * HOUR)
    poller = place.poll(settle=0, lookback=lookback)
    assert ids_of(await rest(poller)) == [updated] * found
    assert await rest(place.poll(settle=0)) == []


@pytest.mark.parametrize(
    "rules",
    [
        {"max_span": 1200, "span_clamp": "before", "future": "accept"},
        {"max_span": 600, "span_clamp": "after", "future": "clamp"},
        {"max_span": 4000, "span_clamp": "before", "future": "refuse"},
    ],
)
async def test_windows_that_are_cut_short_hold_nothing_up(rules: dict[str, Any]) -> None:
    """Each poll reaches the present, and not only the end of the first window it is shown."""
    async with scene(range(NOW - 40, NOW - 20), **rules) as place:
        updated: list[str] = []
        for number in range(3):
            poller = place.poll(start=None, lookback=HOUR)
            assert set(updated) <= set(ids_of(await rest(poller)))
            assert place.service.now - await reached(place) <= 30
            place.service.advance(600)
            updated = place.touch(number)
