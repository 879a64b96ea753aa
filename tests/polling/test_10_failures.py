"""Promise 10: transient failures end no poller, refused credentials do, nothing is forgotten."""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable
from functools import partial
from itertools import pairwise
from typing import Any, Final

import pytest
from attrs import define, field

from income_client import (
    AuthenticationError,
    PermissionDeniedError,
    Poller,
    RateLimitedError,
    RetryPolicy,
    ServerError,
)
from income_client.emulator import Fault
from income_client.emulator.times import http_date
from income_client.events import DeadLettered, Event, PollFailed
from income_client.testing import JumpingClock
from tests.support.payloads import row_of_list
from tests.support.polling import (
    LIST,
    NOW_TEXT,
    Scene,
    first,
    ids_of,
    one_poll,
    reached,
    rest,
    scene,
)
from tests.support.service import NOW, until

NO_ID: Final = {name: value for name, value in row_of_list().items() if name != "application_id"}
"""A row of the list without its id."""
GONE: Final[dict[str, Any]] = {"kind": "status", "status": 404}
FAILING: Final[dict[str, Any]] = {"kind": "status", "status": 500}
LATE: Final[dict[str, Any]] = {"kind": "stall"}
# fmt: off
FAULTS: Final[dict[str, tuple[dict[str, Any], int]]] = {
    "deleted":     (GONE, 2),
    "undecodable": ({"kind": "body", "body": b'{"application_id": 7}'}, 2),
    "another's":   ({"kind": "body", "body": b"{}"}, 2),
    "forbidden":   ({"kind": "status", "status": 403}, 3),
    "failing":     (FAILING, 3),
    "late":        (LATE, 1),
}
# fmt: on
"""Faults of a record, each with the number of attempts before the record becomes a dead letter.
"""


@pytest.mark.parametrize(
    ("name", "is_alone"),
    [*((name, False) for name in FAULTS), ("deleted", True), ("failing", True), ("late", True)],
)
async def test_an_unreadable_record_becomes_a_dead_letter(
    place: Scene, name: str, *, is_alone: bool
) -> None:
    """The others are delivered, the checkpoint moves on, and the dead letter has the reason.

    What hangs is tried once, since it holds up the others; what may be the service, thrice.
    Also where nothing else is updated: the others are in the list all the same.
    """
    fault, attempts = FAULTS[name]
    bad, *good = place.touch(1) if is_alone else place.touch(1, 2, 3)
    place.spoil(bad, **fault)
    place.service.advance(10)
    polling = asyncio.create_task(rest(place.poll()))
    if fault is LATE:
        for times in range(1, 3 if is_alone else 2):
            await until(partial(are_held_up_by, place, [bad], times))
            (deadline,) = place.client._session.deadlines.running
            deadline.expire(math.inf)
    assert sorted(ids_of(await polling)) == sorted(good)
    (letter,) = await place.store.dead_letters("default")
    assert (letter.application_id, letter.attempts) == (bad, attempts)
    assert letter.window.after <= NOW < letter.window.before + 1
    assert bad in letter.reason or "Error" in letter.reason
    assert await reached(place) > NOW
    place.service.faults.clear()
    assert await rest(place.poll()) == []


@pytest.mark.parametrize(("status", "rate", "seed"), [(503, 0.6, 2), (503, 0.8, 1), (429, 0.7, 6)])
async def test_an_outage_makes_no_dead_letter(status: int, rate: float, seed: int) -> None:
    """Most requests fail for a while; then every application is delivered at the next poll."""
    events: list[Event] = []
    async with scene(60, on_event=events.append) as place:
        updated = place.touch(*range(60))
        place.service.advance(10)
        place.service.faults.add(Fault("status", status=status, path="/v1/*", rate=rate, seed=seed))
        delivered: list[str] = []
        for _ in range(3):
            with contextlib.suppress(ServerError, RateLimitedError):
                await deliver(place.poll(once=True), delivered)
        place.service.faults.clear()
        delivered += ids_of(await rest(place.poll()))
        assert {*delivered} == {*updated}
    assert [event for event in events if isinstance(event, DeadLettered)] == []


async def deliver(poller: Poller, delivered: list[str]) -> None:
    """Note the ids of the records that a poller delivers, also of one that fails in the end."""
    async for record in poller:
        delivered += [record.application_id]


async def test_several_that_fail_among_others_become_dead_letters(place: Scene) -> None:
    """A failure beside other failures is judged by a second read beside good applications."""
    bad = place.touch(1, 2, 3)
    good = place.touch(4, 5, 6, 7)
    place.spoil(*bad, **FAILING)
    place.service.advance(10)
    assert sorted(ids_of(await rest(place.poll()))) == sorted(good)
    letters = await place.store.dead_letters("default")
    assert sorted((one.application_id, one.attempts) for one in letters) == [
        (one, 3) for one in sorted(bad)
    ]


@pytest.mark.parametrize("others", [(), (2, 3)], ids=["alone", "among others"])
async def test_a_429_is_about_the_account(place: Scene, others: tuple[int, ...]) -> None:
    """The poll fails after it has delivered the others; the application is no dead letter."""
    (throttled,) = place.touch(1)
    good = place.touch(*others)
    place.spoil(throttled, status=429)
    place.service.advance(10)
    delivered: list[str] = []
    with pytest.raises(RateLimitedError):
        await deliver(place.poll(once=True), delivered)
    assert sorted(delivered) == sorted(good)
    assert await place.letters() == []
    place.service.faults.clear()
    assert ids_of(await rest(place.poll())) == [throttled]


async def test_a_429_does_not_delay_a_dead_letter(place: Scene) -> None:
    """The attempt does not count: the next poll makes another one."""
    (bad,) = place.touch(1)
    place.spoil(bad, **GONE)
    place.service.advance(10)
    await rest(place.poll())
    place.service.faults.clear()
    place.spoil(bad, status=429)
    place.service.advance(600)
    before = await place.store.dead_letters("default")
    assert await rest(place.poll()) == []
    assert await place.store.dead_letters("default") == before
    place.service.faults.clear()
    assert ids_of(await rest(place.poll())) == [bad]


@pytest.mark.parametrize(
    ("late", "good", "times"), [((1, 2), (3, 4, 5), 1), ((1, 2, 3), (4, 5), 3)]
)
async def test_few_late_ones_delay_all_others_by_one_deadline(
    place: Scene, late: tuple[int, ...], good: tuple[int, ...], times: int
) -> None:
    """A service may be slow where most are late: they are asked for again, beside witnesses."""
    bad, updated = place.touch(*late), place.touch(*good)
    place.spoil(*bad, **LATE)
    place.service.advance(10)
    polling = asyncio.create_task(rest(place.poll()))
    for count in range(1, times + 1):
        await until(partial(are_held_up_by, place, bad, count))
        for deadline in tuple(place.client._session.deadlines.running):
            deadline.expire(math.inf)
    assert sorted(ids_of(await polling)) == sorted(updated)
    assert sorted(map(str, await place.letters())) == sorted(bad)
    assert [place.asked(one) for one in bad] == [times] * len(bad)


def are_held_up_by(place: Scene, ids: list[str], times: int) -> bool:
    """Return whether the only calls under way are for applications asked for so often."""
    are_running = len(place.client._session.deadlines.running) == len(ids)
    return are_running and all(place.asked(one) == times for one in ids)


@pytest.mark.parametrize("fault", [GONE, FAILING], ids=["deleted", "failing"])
async def test_a_dead_letter_is_tried_again_and_taken_out(
    place: Scene, fault: dict[str, Any]
) -> None:
    """Retries get rarer and survive a restart; once read, the record is delivered."""
    bad, good = place.touch(1, 2)
    place.spoil(bad, **fault)
    place.service.advance(10)
    assert ids_of(await rest(place.poll())) == [good]
    tries = place.asked(bad)
    for _ in range(10):
        place.service.advance(600)
        assert await rest(place.poll()) == []
    (letter,) = await place.store.dead_letters("default")
    assert 4 <= letter.attempts <= 9
    assert place.asked(bad) > tries
    place.service.faults.clear()
    place.service.advance(40_000)
    assert ids_of(await rest(place.poll())) == [bad]
    assert await place.letters() == []
    place.service.advance(90_000)
    assert await rest(place.poll()) == []
    # A newer version that is read takes it out as well, whenever it is due.
    place.touch(1)
    place.spoil(bad, **fault)
    place.service.advance(10)
    assert await rest(place.poll()) == []
    assert await place.letters() == [bad]
    place.service.faults.clear()
    place.touch(1)
    place.service.advance(10)
    assert ids_of(await rest(place.poll())) == [bad]
    assert await place.letters() == []


async def test_a_dead_letter_of_a_version_that_was_delivered_does_not_deliver_it_again(
    place: Scene,
) -> None:
    """The list shows it again within `settle`; the letter is tried when it no longer does."""
    updated = place.touch(1, 2)
    place.service.advance(10)
    assert sorted(ids_of(await rest(place.poll(settle=60)))) == sorted(updated)
    place.spoil(updated[0], **GONE)
    for seconds, letters in ((10, updated[:1]), (70, updated[:1]), (600, [])):
        place.service.advance(seconds)
        if not letters:
            place.service.faults.clear()
        assert await rest(place.poll(settle=60)) == []
        assert await place.letters() == letters


async def test_an_outage_makes_no_dead_letters(place: Scene) -> None:
    """While no record can be read the poll fails, and is retried until the service is back."""
    updated = place.touch(*range(8))
    place.spoil("*", status=503, times=100)
    place.service.advance(10)
    assert sorted(ids_of(await first(place.poll(), 8))) == sorted(updated)
    assert await place.letters() == []


async def test_others_show_that_the_service_works() -> None:
    """Records of later pages count where the failing application is alone on its page.

    Where there are none at all, the only one is not given up.
    """
    times = [NOW - 90_000_000, *range(NOW - 1060, NOW - 1000)]
    async with scene(times, page_size=20, order="shuffled") as place:
        bad = place.service.world.id_of(0)
        place.spoil(bad, **FAILING)
        assert len(await rest(place.poll(start="2020-01-01"))) == 60
        assert await place.letters() == [bad]
    async with scene(1) as place:
        (updated,) = place.touch(0)
        place.spoil(updated, times=40, **FAILING)
        place.service.advance(10)
        assert ids_of(await first(place.poll(), 1)) == [updated]
        assert await place.letters() == []


@pytest.mark.parametrize(("readable", "letters"), [((0, 2), 0), ((0, 2, 4), 1)])
async def test_most_witnesses_decide(place: Scene, readable: tuple[int, ...], letters: int) -> None:
    """Five others are read where all have failed: an outage spares some, a bad record one."""
    (bad,) = place.touch(19)
    place.service.advance(10)
    place.spoil(*(one for number, one in enumerate(place.ids) if number not in readable), **FAILING)
    delivered: list[str] = []
    with contextlib.suppress(ServerError):
        await deliver(place.poll(once=True), delivered)
    assert delivered == []
    assert await place.letters() == [bad][:letters]


async def test_a_429_does_not_count_against_a_saturated_second() -> None:
    """A failed list call says nothing about the window of a dead letter."""
    second = NOW - 500
    async with scene([second] * 25, page_size=20, order="shuffled") as place:
        await rest(place.poll(start="2026-06-30"))
        before = await place.store.dead_letters("default")
        assert [letter.window.after for letter in before] == [second]
        place.service.advance(4000)
        place.service.faults.add(Fault("status", status=429, path=LIST, skip=3, times=None))
        assert await rest(place.poll()) == []
        assert await place.store.dead_letters("default") == before


async def test_a_saturated_second_is_reported_and_not_raised(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Visible rows of the second are delivered; hidden rows come once it has fewer rows."""
    second = NOW - 500
    async with scene([second] * 25, page_size=20, order="shuffled") as place:
        poller = place.poll(start="2026-06-30")
        given = await rest(poller)
        assert len(given) == 20
        assert [window.after for window in poller.status.saturated] == [second]
        (letter,) = await place.store.dead_letters("default")
        assert (letter.application_id, letter.window.after) == (None, second)
        (line,) = [line for line in caplog.records if hasattr(line, "is_new")]
        assert "2026-06-30T11:51:40" in line.getMessage()
        assert "more rows than one page holds" in line.getMessage()
        facts = vars(line)
        assert (facts["second"], facts["application_id"]) == ("2026-06-30T11:51:40", None)
        # The service may refuse old windows; the dead letter stays, and its attempts count.
        place.service.advance(4000)
        place.service.faults.add(Fault("status", status=400, path=LIST, skip=3))
        assert await rest(place.poll()) == []
        (letter,) = await place.store.dead_letters("default")
        assert (letter.application_id, letter.attempts) == (None, 2)
        assert letter.reason.startswith("InvalidRequestError: ")
        place.service.faults.clear()
        hidden = set(place.ids) - set(ids_of(given))
        for one in sorted(ids_of(given))[:10]:
            place.service.touch(one)
        assert len(await rest(place.poll())) == 10
        place.service.advance(4000)
        assert hidden <= set(ids_of(await rest(place.poll())))
        assert await place.letters() == []


async def test_a_saturated_second_is_kept_when_the_clock_is_set_back() -> None:
    """The clock is set back after the listing, so that the second lies in the future."""
    second = NOW - 500
    async with scene([second] * 25, page_size=20) as place:
        await rest(place.poll(start="2026-06-30"))
        place.service.advance(4000)
        place.show(before=second - 600, headers={"Date": http_date(second - 600)}, skip=4, times=20)
        assert await rest(place.poll()) == []
        (letter,) = await place.store.dead_letters("default")
        assert letter.window.after == second
        place.service.faults.clear()
        place.touch(*range(10))
        place.service.advance(4000)
        assert len(await rest(place.poll())) >= 15
        assert await place.letters() == []


@pytest.mark.parametrize("future", ["accept", "clamp"])
async def test_a_clock_that_does_not_move_saturates_no_second_to_come(future: str) -> None:
    """The current second is overfull, and every page from there on is full of its rows."""
    rules: dict[str, Any] = {"lower_closed": True, "upper_closed": True, "future": future}
    async with scene(page_size=5, time_flows=False, **rules) as place:
        place.touch(*range(8))
        assert len(await rest(place.poll(settle=0))) == 5
        letters = await place.store.dead_letters("default")
        assert [letter.window.after for letter in letters] == [NOW]


@pytest.mark.parametrize("row", [NO_ID, "invented"])
async def test_a_row_without_an_id_does_not_hold_up_the_others(place: Scene, row: Any) -> None:
    """The row becomes a dead letter without an id; polls of the same seconds do not repeat it."""
    place.touch(0, 1)
    place.show(*map(row_of_list, place.ids[:2]), row, times=3)
    place.service.advance(10)
    poller = place.poll()
    assert sorted(ids_of(await rest(poller))) == sorted(place.ids[:2])
    for _ in range(2):
        place.service.advance(10)
        assert await rest(place.poll()) == []
    (letter,) = await place.store.dead_letters("default")
    assert letter.application_id is None
    assert letter.key == f"rows:{letter.window.after}"
    assert letter.window.after <= NOW < letter.window.before
    assert letter.reason.startswith(
        "DecodeError: a row of the list without an id (list_applications: $.applications[2]"
    )
    assert "invented" not in letter.reason
    assert poller.status.failures == 0
    assert poller.status.saturated == ()
    assert poller.status.dead_letters == 1


async def test_a_row_without_an_id_is_looked_for_again(place: Scene) -> None:
    """Once the list does not show it, what stood in its place is delivered."""
    hidden = place.touch(0, 1, 2)[-1]
    place.show(*map(row_of_list, place.ids[:2]), None)
    place.service.advance(10)
    assert hidden not in ids_of(await rest(place.poll()))
    place.service.advance(4000)
    place.show(*map(row_of_list, place.ids[:2]), None, skip=1)
    await rest(place.poll())
    (letter,) = await place.store.dead_letters("default")
    assert letter.attempts == 2
    place.service.advance(4000)
    assert hidden in ids_of(await rest(place.poll()))
    assert await place.letters() == []


async def test_a_list_that_cannot_be_read_is_retried(place: Scene) -> None:
    """The checkpoint stays, the status shows the failures, and what was updated is delivered."""
    updated = place.touch(1)
    for body in (b"{}", b"[]", b'{"applications": [{}]}', b"null"):
        place.service.faults.add(Fault("body", body=body, path=LIST))
    place.service.faults.add(Fault("status", status=503, path=LIST, times=3))
    poller = place.poll()
    waiting = asyncio.create_task(first(poller, 1))
    await until(lambda: poller.status.failures == 5)
    assert await reached(place) == NOW
    error = poller.status.last_error
    assert isinstance(error, ServerError)
    assert error.__traceback__ is None
    assert ids_of(await waiting) == updated
    assert (poller.status.failures, poller.status.last_error) == (0, error)


async def test_an_invalid_id_is_a_dead_letter(place: Scene) -> None:
    """A listed id is untrusted text, and no request is sent for one that changes the path."""
    place.show(*map(row_of_list, ("..", "a\u0007", "", "b\0")))
    await rest(place.poll())
    assert sorted(map(str, await place.letters())) == ["", "..", "a\u0007", "b\\x00"]
    assert place.requests("get_application") == 0
    reasons = [letter.reason for letter in await place.store.dead_letters("default")]
    path = "DecodeError: $.applications[*].application_id: "
    assert all(reason.startswith(path) for reason in reasons)


async def test_an_id_that_is_too_long_is_cut(
    place: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the store nor the log takes all of it, and each has a dead letter of its own."""
    ids = [f"{'x' * 100_000}{end}" for end in "ab"]
    for one in ids:
        place.show(row_of_list(one))
        place.service.advance(10)
        await rest(place.poll())
    place.service.advance(4000)
    await rest(place.poll())
    letters = await place.store.dead_letters("default")
    assert [letter.attempts for letter in letters] == [3, 3]
    assert all(letter.key.startswith(f"application:{'x' * 512}...") for letter in letters)
    assert all(len(letter.key) < 600 for letter in letters)
    assert all("must not be longer than 512" in letter.reason for letter in letters)
    assert max(map(len, caplog.messages)) < 1_000


async def test_one_that_was_read_shows_that_the_service_works(place: Scene) -> None:
    """The poller requests the application once more until it is gone.

    It is not delivered again.
    """
    poller = place.poll()
    (witness,) = place.touch(1)
    assert ids_of(await first(poller, 1)) == [witness]
    place.service.advance(10)
    await one_poll(poller)
    for bad, is_listed in ((2, False), (3, True)):
        (failing,) = place.touch(bad)
        place.spoil(failing, **FAILING)
        if is_listed:
            place.spoil(witness, **GONE)
        asked = place.asked(witness)
        place.service.advance(10)
        await one_poll(poller)
        assert failing in await place.letters()
        assert place.asked(witness) > asked


async def test_a_service_that_refuses_to_list_others_does_not_end_the_poller(place: Scene) -> None:
    """Without another to compare with, the one that failed is asked for again."""
    listed = Fault("status", status=400, path=LIST, skip=1, times=1)
    (updated,) = place.touch(1)
    place.spoil(updated, times=4, **FAILING)
    place.service.faults.add(listed)
    place.service.advance(10)
    assert ids_of(await rest(place.poll())) == [updated]
    assert [request.status for request in place.service.requests].count(400) == 1


async def test_what_failed_waits_until_the_others_are_read() -> None:
    """The first batch is delivered without a pause for the one among them that fails."""
    async with scene(12, batch_size=10) as place:
        place.client = place.client.with_options(retry=RetryPolicy(max_attempts=1))
        place.touch(*range(11))
        place.service.advance(10)
        place.spoil(place.ids[7], times=1, **FAILING)
        sizes = []
        async for batch in place.poll(once=True).batches():
            async with batch:
                sizes.append(len(batch))
        assert sizes == [9, 2]


FIVE_MINUTES: Final = 300.0


@define
class Refused:
    """A service that can refuse credentials, and the times of its poller's failures."""

    clock: JumpingClock = field(factory=JumpingClock)
    place: Scene = field(init=False)
    failed: list[tuple[float, PollFailed]] = field(factory=list)
    look: Callable[[float], None] = lambda _: None

    def refuse(self, path: str = "*", status: int = 401) -> None:
        self.place.service.faults.add(Fault("status", status=status, path=path, times=None))

    def relent(self) -> None:
        self.place.service.faults.clear()

    def hear(self, event: Event) -> None:
        """Record a failure and its time; let the test change the service at that moment."""
        if isinstance(event, PollFailed):
            self.failed.append((self.clock.monotonic(), event))
            self.look(self.since_first)

    @property
    def since_first(self) -> float:
        return self.failed[-1][0] - self.failed[0][0]

    async def worked(self, **options: Any) -> "tuple[Poller, asyncio.Task[list[Any]]]":
        """Return a poller that has polled once, and a task that waits for its next record."""
        poller = self.place.poll(**options)
        waiting = asyncio.create_task(first(poller, 1))
        await until(lambda: poller.status.polls == 1)
        return poller, waiting


@pytest.fixture
async def refused() -> AsyncIterator[Refused]:
    refused = Refused()
    async with scene(clock=refused.clock, on_event=refused.hear) as refused.place:
        yield refused


@pytest.mark.parametrize(
    ("path", "start"), [("*", NOW_TEXT), ("/token", NOW_TEXT), (LIST, NOW_TEXT), ("*", None)]
)
async def test_wrong_credentials_at_the_start_end_a_poller(
    refused: Refused, path: str, start: str | None
) -> None:
    """Credentials that have never worked in this run are not retried."""
    refused.refuse(path)
    with pytest.raises(AuthenticationError):
        await anext(refused.place.poll(start=start))
    ((_, failed),) = refused.failed
    assert (failed.is_last, failed.status) == (True, 401)


@pytest.mark.parametrize("interval", [1, 30, 36_000])
async def test_five_minutes_of_refusals_end_a_poller(refused: Refused, interval: float) -> None:
    """Until then it retries at least once a minute, whatever its interval."""
    _, waiting = await refused.worked(interval=interval)
    refused.refuse()
    with pytest.raises(AuthenticationError) as caught:
        await waiting
    moments = [moment for moment, _ in refused.failed]
    assert FIVE_MINUTES <= refused.since_first <= FIVE_MINUTES + 60
    assert moments[-2] - moments[0] < FIVE_MINUTES
    assert max(later - earlier for earlier, later in pairwise(moments)) <= 60
    assert [failed.is_last for _, failed in refused.failed].index(True) == len(moments) - 1
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


async def test_five_minutes_count_from_the_first_refusal_since_it_worked(refused: Refused) -> None:
    """Identity providers refuse everything while they are deployed; the status shows it."""
    poller, waiting = await refused.worked()
    for _ in range(4):
        polls, shown = poller.status.polls, list[tuple[int, Any]]()

        def look(seconds: float, shown: list[Any] = shown) -> None:
            shown.append((poller.status.failures, type(poller.status.last_error)))
            if seconds > FIVE_MINUTES / 2:
                refused.relent()

        refused.failed.clear()
        refused.look = look
        refused.refuse()
        await until(lambda polls=polls: poller.status.polls > polls)  # type: ignore[misc]
        assert shown == [(n, AuthenticationError) for n in range(1, len(shown) + 1)]
    assert poller.status.failures == 0
    updated = refused.place.touch(3)
    assert ids_of(await waiting) == updated


async def test_an_outage_between_refusals_is_not_counted_as_a_refusal(refused: Refused) -> None:
    """During other failures it is unknown whether the credentials work."""
    poller, waiting = await refused.worked()

    def look(seconds: float) -> None:
        _, last = refused.failed[-1]
        refused.relent()
        if seconds <= 2 * FIVE_MINUTES:
            refused.refuse(status=503 if last.status == 401 else 401)

    refused.look = look
    refused.refuse()
    await until(lambda: not refused.place.service.faults)
    updated = refused.place.touch(3)
    assert ids_of(await waiting) == updated
    assert {failed.status for _, failed in refused.failed} == {401, 503}
    assert poller.status.failures == 0


async def test_five_minutes_of_refused_applications_end_a_poller(refused: Refused) -> None:
    refused.refuse(f"{LIST}/*")
    refused.place.touch(3)
    with pytest.raises(AuthenticationError):
        await anext(refused.place.poll())
    assert refused.since_first >= FIVE_MINUTES


async def test_a_refused_application_among_others_is_a_dead_letter(refused: Refused) -> None:
    """Refusals of one application do not end the poller, however often, alone or among others."""
    ids = refused.place.ids
    refused.refuse(f"*/{ids[3]}")
    poller = refused.place.poll(start="2026-06-30T11:00:00")
    assert set(ids_of(await first(poller, len(ids) - 1))) == {*ids} - {ids[3]}
    waiting = asyncio.create_task(anext(poller, None))
    attempts = 0
    while attempts < 3:
        polls = poller.status.polls
        await until(lambda polls=polls: poller.status.polls > polls)  # type: ignore[misc]
        (letter,) = await refused.place.store.dead_letters("default")
        attempts = letter.attempts
    assert letter.application_id == ids[3]
    assert poller.status.failures == 0
    poller.stop()
    assert await waiting is None


@pytest.mark.parametrize("status", [403, 400, 404, 302])
async def test_other_refusals_of_the_list_never_end_a_poller(refused: Refused, status: int) -> None:
    """A refusal of the first poll does not end it: a firewall may answer so while deploying."""
    refused.refuse(LIST, status)
    refused.look = lambda seconds: refused.relent() if seconds > 2 * FIVE_MINUTES else None
    poller = refused.place.poll()
    (updated,) = refused.place.touch(3)
    assert (await anext(poller)).application_id == updated
    assert not any(failed.is_last for _, failed in refused.failed)
    if status == 403:
        assert isinstance(poller.status.last_error, PermissionDeniedError)


async def test_a_single_poll_raises_a_refusal_at_once(refused: Refused) -> None:
    poller, waiting = await refused.worked()
    poller.stop(after_poll=True)
    refused.refuse()
    with pytest.raises(AuthenticationError):
        await waiting
    assert len(refused.failed) == 1
