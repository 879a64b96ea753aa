"""Unreadable records are kept until they are read or forgotten, and tried again ever less often."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from itertools import pairwise

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from income_client import DeadLetter, MemoryCheckpointStore
from income_client.errors import DecodeError, NotFoundError, PayloadFault
from income_client.events import DeadLettered, DeadLetterResolved, Event
from income_client.polling.dead_letters import DeadLetters, dead_letter_reason
from income_client.records.dead_letters import key_of_application, key_of_window
from income_client.records.window import EPOCH, Window
from income_client.wire.times import LAST_SECOND
from tests.support.polling import FailingStore, Scene, first, ids_of, one_poll, rest, scene
from tests.support.service import NOW, until

WINDOW = Window(0, 10)
DAY = 86_400
KEY = key_of_application("a")


def put(letters: DeadLetters, one: str | None = "a", *, attempts: int = 2, now: int = NOW) -> None:
    letters.record_failure(one, WINDOW, "gone", attempts=attempts, now=now)


def ids(letters: list[DeadLetter] | tuple[DeadLetter, ...]) -> list[str | None]:
    return [letter.application_id for letter in letters]


def pause_after(attempts: int) -> int:
    """Return how long one waits that was tried so often, in seconds."""
    letters = DeadLetters()
    put(letters, attempts=attempts)
    pause = (letters.unsaved[0].next_try_at - EPOCH) // timedelta(seconds=1) - NOW
    assert not letters.due(NOW + pause - 1, most=1)
    assert letters.due(NOW + pause, most=1)
    return pause


def test_pauses_double_up_to_a_day() -> None:
    """Each pause is as long as its letter says."""
    pauses = [pause_after(attempts) for attempts in range(1, 60)]
    assert pauses[:4] == [60, 120, 240, 480]
    assert all(later == min(2 * one, DAY) for one, later in pairwise(pauses))
    assert pause_after(10**9) == DAY
    letters = DeadLetters()  # a service may claim any time, also the end of the calendar
    put(letters, now=LAST_SECOND)
    assert letters.due(LAST_SECOND, most=1) == []


def test_the_most_overdue_comes_first() -> None:
    letters = DeadLetters()
    for number, one in enumerate("cab"):
        put(letters, one, now=NOW + number)
    put(letters, "d", attempts=1, now=NOW)
    assert ids(letters.due(NOW + 59, most=9)) == []
    assert ids(letters.due(NOW + 60, most=9)) == ["d"]
    assert ids(letters.due(NOW + DAY, most=3)) == ["d", "c", "a"]
    assert ids(letters.due(NOW + DAY, most=9)) == ["d", "c", "a", "b"]


def test_attempts_add_up_and_the_first_is_remembered() -> None:
    """A restarted poller resumes where the store is; what changed meanwhile is stored again."""
    letters = DeadLetters()
    put(letters)
    (saving,) = letters.unsaved
    letters.record_failure("a", Window(50, 60), "broken", attempts=1, now=NOW + 120)
    assert len(letters) == 1
    added = evolve(
        saving,
        window=Window(50, 60),
        reason="broken",
        attempts=3,
        last_tried_at=EPOCH + timedelta(seconds=NOW + 120),
    )
    assert saving.first_tried_at == EPOCH + timedelta(seconds=NOW)
    letters.saved([saving], ())
    assert letters.unsaved == (added,)
    letters.saved(letters.unsaved, ())
    put(letters, None)
    for known in (letters, DeadLetters((added, *letters.unsaved))):
        assert KEY in known
        assert key_of_window(WINDOW) in known
        assert KEY not in {letter.key for letter in known.unsaved}
        assert ids(known.due(NOW + 360, most=9)) == [None, "a"]
        put(known, attempts=1, now=NOW + 360)
        assert [letter.attempts for letter in known.unsaved if letter.key == KEY] == [4]


steps = st.lists(
    st.tuples(st.sampled_from(["put", "resolve", "save"]), st.sampled_from(["a", "b", None])),
    max_size=30,
)


@given(steps)
def test_a_store_that_is_told_has_what_is_dead_and_nothing_else(
    drawn: list[tuple[str, str | None]],
) -> None:
    """The store gets every change that it needs, for any order of findings."""
    letters = DeadLetters()
    stored: dict[str, DeadLetter] = {}
    for step, one in [*drawn, ("save", None)]:
        key = key_of_window(WINDOW) if one is None else key_of_application(one)
        match step:
            case "put":
                put(letters, one)
            case "resolve":
                letters.resolve(key)
            case _:
                unsaved, resolved = letters.unsaved, letters.resolved
                stored |= {letter.key: letter for letter in unsaved}
                stored = {key: one for key, one in stored.items() if key not in resolved}
                letters.saved(unsaved, resolved)
                assert not letters.unsaved
                assert not letters.resolved
                dead = {letter.key: letter for letter in letters.due(NOW + 9 * DAY, most=9)}
                assert stored == dead
                assert len(letters) == len(dead)


def test_a_reason_names_the_error_and_stays_short() -> None:
    """A reason is the error's class and message, which has no content, cut to 500 characters."""
    assert dead_letter_reason(NotFoundError("get_application(a): 404 Not Found")) == (
        "NotFoundError: get_application(a): 404 Not Found"
    )
    faults = tuple(PayloadFault(f"$.{'x' * 300}{n}", "missing") for n in range(9))
    letters = DeadLetters()
    reason = dead_letter_reason(DecodeError(faults))
    letters.record_failure("a", WINDOW, reason, attempts=1, now=NOW)
    assert len(letters.unsaved[0].reason) == 500
    assert letters.unsaved[0].reason.startswith("DecodeError: $.xxx")


@pytest.mark.parametrize(
    ("known", "shown", "expected"),
    [
        ([], (500, 600), [(500, 600)]),
        ([], (500, 500), [(500, 502)]),
        ([(500, 501)], (500, 501), [(500, 502)]),
        ([(500, 600)], (550, 600), [(500, 600)]),
        ([(500, 600)], (590, 610), [(500, 610)]),
        ([(500, 4090)], (4080, 4110), [(4090, 4110)]),
        ([(500, 600), (700, 800)], (550, 900), [(500, 700), (700, 900)]),
        ([(500, 600), (600, 700)], (550, 650), [(600, 700)]),
    ],
)
def test_windows_of_rows_without_an_id_leave_no_second_out(
    known: list[tuple[int, int]], shown: tuple[int, int], expected: list[tuple[int, int]]
) -> None:
    """Windows that dead letters cover in part are extended or added, by an hour at most."""
    letters = DeadLetters()
    for edges in known:
        letters.record_failure(None, Window(*edges), "invented", attempts=1, now=900)
    assert letters.windows_around(Window(*shown)) == [Window(*edges) for edges in expected]


async def test_a_row_without_an_id_in_a_saturated_second_has_a_dead_letter_of_its_own() -> None:
    """Neither takes the place of the other, and each is forgotten by its own key."""
    second = Window(NOW, NOW + 1)
    letters = DeadLetters()
    for window in (second, *letters.windows_around(second)):
        letters.record_failure(None, window, "invented", attempts=1, now=NOW)
    assert letters.seconds == (second,)
    store = MemoryCheckpointStore()
    await store.save("default", "{}", version=0, dead_letters=letters.unsaved)
    assert await store.forget("default", [f"rows:{NOW}"]) == (f"rows:{NOW}",)
    (left,) = await store.dead_letters("default")
    assert (left.key, left.window) == (f"window:{NOW}", second)


LONG = 100_000
"""Seconds after which every dead letter is due."""


def lose(place: Scene, number: int) -> str:
    """Make the service report an application as deleted, although it is listed."""
    (lost,) = place.touch(number)
    place.spoil(lost, status=404)
    place.service.advance(10)
    return lost


class HookedStore(FailingStore):
    """Does something once after dead letters are read, and counts how often they are."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.after: Callable[[], Awaitable[object]] | None = None

    async def dead_letters(self, name: str) -> tuple[DeadLetter, ...]:
        self.reads += 1
        letters = await super().dead_letters(name)
        if self.after is not None:
            after, self.after = self.after, None
            await after()
        return letters


async def test_a_forgotten_one_is_neither_tried_nor_shown_nor_stored_again(place: Scene) -> None:
    """The poller runs all the time, gets no conflict, and keeps the other dead letter."""
    store = place.store = HookedStore()
    lost, kept, late = (lose(place, number) for number in (1, 2, 3))
    poller = place.poll()
    await one_poll(poller)
    assert poller.status.dead_letters == 3
    version = (await store.load("default")).version
    assert await store.forget("default", [f"application:{lost}"]) == (f"application:{lost}",)
    assert (await store.load("default")).version == version
    # The store is asked again before a letter that it had is replaced.
    store.after = partial(store.forget, "default", [f"application:{late}"])
    before = [place.asked(one) for one in (lost, kept, late)]
    place.service.advance(LONG)
    await one_poll(poller)
    asked = [place.asked(one) > was for one, was in zip((lost, kept, late), before, strict=True)]
    assert asked == [False, True, True]
    assert await place.letters() == [kept]
    assert poller.status.dead_letters == 1


async def test_those_that_are_made_due_are_tried_in_the_next_poll(place: Scene) -> None:
    """The checkpoint's version stays, so that the running poller loses nothing by it."""
    store = place.store = HookedStore()
    lost, kept = (lose(place, number) for number in (1, 2))
    poller = place.poll()
    await one_poll(poller)
    version = (await store.load("default")).version
    key = f"application:{lost}"
    assert await store.retry("default", [key]) == (key,)
    assert (await store.load("default")).version == version
    before = place.asked(kept)
    await one_poll(poller)
    letters = {one.application_id: one for one in await store.dead_letters("default")}
    assert place.asked(kept) == before
    assert letters[lost].attempts > 0
    assert letters[lost].last_tried_at > letters[kept].last_tried_at
    assert letters[lost].first_tried_at <= letters[kept].first_tried_at
    place.service.faults.clear()
    await store.retry("default", [key])
    assert ids_of(await first(poller, 1)) == [lost]
    await one_poll(poller)
    assert await place.letters() == [kept]


async def test_one_that_is_being_tried_is_not_due_again(place: Scene) -> None:
    """A request to retry that meets an attempt changes nothing: the attempt counts."""
    store = place.store = HookedStore()
    lost = lose(place, 1)
    poller = place.poll()
    await one_poll(poller)
    place.service.advance(LONG)
    store.after = partial(store.retry, "default", [f"application:{lost}"])
    await one_poll(poller)
    (letter,) = await store.dead_letters("default")
    assert letter.attempts > 1
    assert await place.letters() == [lost]


@pytest.mark.parametrize("is_late", [False, True], ids=["before-the-poll", "during-the-poll"])
async def test_one_that_is_listed_again_is_a_new_one(place: Scene, is_late: bool) -> None:
    """The new letter is never lost, also if the old one is forgotten while it is being read."""
    store = place.store = HookedStore()
    lost = lose(place, 1)
    poller = place.poll()
    await one_poll(poller)
    (old,) = await store.dead_letters("default")
    if is_late:
        store.after = partial(store.forget, "default", [old.key])
    else:
        await store.forget("default", [old.key])
    place.service.advance(100)
    lose(place, 1)
    await one_poll(poller)
    (new,) = await store.dead_letters("default")
    assert (new.key, new.attempts) == (old.key, old.attempts)
    assert new.first_tried_at > old.first_tried_at
    assert poller.status.dead_letters == 1
    assert lost in new.key


async def test_the_store_is_asked_for_letters_only_where_there_are_some(place: Scene) -> None:
    """Once in a poll; if that fails it is tried again, which the status shows."""
    store = place.store = HookedStore()
    poller = place.poll()
    await one_poll(poller)
    reads = store.reads
    place.service.advance(100)
    await one_poll(poller)
    assert store.reads == reads
    lose(place, 1)
    await one_poll(poller)
    await one_poll(poller)
    assert store.reads == reads + 1
    store.failing_letters = 3
    waiting = asyncio.create_task(one_poll(poller))
    await until(lambda: poller.status.failures == 3)
    await waiting
    assert store.reads == reads + 5
    assert poller.status.failures == 0


async def test_a_second_that_is_forgotten_does_not_come_back() -> None:
    """Neither in the store nor among those that are shown as saturated."""
    async with scene([NOW - 500] * 25, page_size=20) as place:
        store = place.store = MemoryCheckpointStore()
        poller = place.poll(start="2026-06-30")
        await first(poller, 20)
        await one_poll(poller)
        (letter,) = await store.dead_letters("default")
        await store.forget("default", [letter.key])
        place.service.advance(LONG)
        await one_poll(poller)
        assert (poller.status.dead_letters, poller.status.saturated) == (0, ())
        assert await place.letters() == []


async def test_a_report_says_whether_a_dead_letter_is_new(caplog: pytest.LogCaptureFixture) -> None:
    """A warning when it becomes one, and information each time that it is tried again in vain."""
    events: list[Event] = []
    caplog.set_level(logging.INFO, "income_client.poller")
    async with scene(on_event=events.append) as place:
        lost = lose(place, 1)
        await rest(place.poll())
        for _ in range(2):
            place.service.advance(LONG)
            await rest(place.poll())
    told = [
        (one.letter.application_id, one.is_new) for one in events if isinstance(one, DeadLettered)
    ]
    assert told == [(lost, True), (lost, False), (lost, False)]
    lines = [line for line in caplog.records if hasattr(line, "is_new")]
    assert [line.__dict__["is_new"] for line in lines] == [True, False, False]
    assert [line.levelno for line in lines] == [logging.WARNING, logging.INFO, logging.INFO]
    assert all(lost in line.getMessage() for line in lines)
    assert "became a dead letter" in lines[0].getMessage()
    assert "remains a dead letter" in lines[1].getMessage()


async def test_a_dead_letter_that_is_read_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Once its record is committed, and once only; the rest of the application's life is silent."""
    events: list[Event] = []
    caplog.set_level(logging.INFO, "income_client.poller")
    async with scene(on_event=events.append) as place:
        lost = lose(place, 1)
        await rest(place.poll())
        (letter,) = await place.store.dead_letters("default")
        place.service.faults.clear()
        place.service.advance(LONG)
        poller = place.poll()
        async for batch in poller.batches():
            assert [one for one in events if isinstance(one, DeadLetterResolved)] == []
            await batch.commit()
            break
        await one_poll(poller)
    resolved = [one.letter for one in events if isinstance(one, DeadLetterResolved)]
    assert resolved == [letter]
    (line,) = [line for line in caplog.records if "was a dead letter" in line.getMessage()]
    assert line.levelno == logging.INFO
    text = f"poller 'default': application {lost!r}, which was a dead letter, was read"
    assert line.getMessage() == text


def test_what_was_never_stored_is_not_reported_as_read() -> None:
    """An application that failed and was read within one poll was no dead letter."""
    letters = DeadLetters()
    put(letters, "a")
    letters.resolve(KEY)
    assert letters.saved((), letters.resolved) == []
    put(letters, "a")
    (letter,) = letters.unsaved
    letters.saved(letters.unsaved, ())
    letters.resolve(KEY)
    assert letters.saved((), letters.resolved) == [letter]
    assert letters.saved((), [KEY]) == []
