"""Promise 10: transient failures never end a poller, and unreadable records are not forgotten."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any, Final

import pytest
from attrs import define, field

from income_client import (
    AuthenticationError,
    Event,
    IncomeClient,
    MemoryCheckpointStore,
    PermissionDeniedError,
    Poller,
    PollFailed,
)
from income_client.emulator import Emulator, Fault
from income_client.emulator.times import http_date, stamp
from income_client.polling.dead_letters import DeadLetters
from income_client.records.window import EPOCH, Window
from income_client.testing import JumpingClock
from tests.support.payloads import row_of_list
from tests.support.pollers import pages_of
from tests.support.polling import Scene, first, rest, scene
from tests.support.service import NOW, until


def path_of(application_id: str) -> str:
    """Return the path of an application."""
    return f"/v1/income/applications/{application_id}"


def ids_of(records: Any) -> list[str]:
    """Return the ids of records."""
    return sorted(record.application_id for record in records)


NO_ID: Final = {name: value for name, value in row_of_list().items() if name != "application_id"}
"""A row of the list without its id."""
FAULTS: dict[str, dict[str, Any]] = {
    "deleted": {"kind": "status", "status": 404},
    "undecodable": {"kind": "body", "body": b'{"application_id": 7}'},
    "forbidden": {"kind": "status", "status": 403},
    "failing": {"kind": "status", "status": 500},
    "another's": {"kind": "body", "body": b"{}"},
}


@pytest.mark.parametrize("name", FAULTS)
async def test_an_unreadable_record_becomes_a_dead_letter(name: str) -> None:
    """The others are delivered, the checkpoint moves on, and the dead letter has the reason."""
    async with scene() as place:
        bad, *good = place.touch(1, 2, 3, 4)
        place.service.faults.add(Fault(path=path_of(bad), times=None, **FAULTS[name]))
        place.service.advance(10)
        assert ids_of(await rest(place.poll())) == sorted(good)
        (letter,) = await place.store.dead_letters("default")
        assert letter.application_id == bad
        assert letter.window.after <= NOW < letter.window.before + 1
        assert letter.attempts in (2, 3)
        assert bad in letter.reason or "Error" in letter.reason
        assert await rest(place.poll()) == []


@pytest.mark.parametrize("name", ["deleted", "failing"])
async def test_a_dead_letter_is_tried_again_and_taken_out(name: str) -> None:
    """Retries get rarer and survive a restart; once read, the record is delivered."""
    async with scene() as place:
        bad, good = place.touch(1, 2)
        fault = Fault(path=path_of(bad), times=None, **FAULTS[name])
        place.service.faults.add(fault)
        place.service.advance(10)
        assert ids_of(await rest(place.poll())) == [good]
        tries = len(asked_for(place, bad))
        for _ in range(10):
            place.service.advance(600)
            assert await rest(place.poll()) == []
        (letter,) = await place.store.dead_letters("default")
        assert 4 <= letter.attempts <= 9
        assert len(asked_for(place, bad)) > tries
        place.service.faults.clear()
        place.service.advance(40_000)
        assert ids_of(await rest(place.poll())) == [bad]
        assert await place.letters() == []
        place.service.advance(90_000)
        assert await rest(place.poll()) == []


async def test_a_dead_letter_is_kept_until_it_is_forgotten() -> None:
    """After that it is not tried any more; if it fails when it is listed again, it is a new one."""
    async with scene() as place:
        store = place.store = MemoryCheckpointStore()
        (bad,) = place.touch(1)
        place.service.faults.add(Fault(path=path_of(bad), times=None, **FAULTS["deleted"]))
        place.service.advance(10)
        await rest(place.poll())
        for _ in range(3):
            place.service.advance(100_000)
            await rest(place.poll())
            assert await place.letters() == [bad]
        assert await store.forget("default", [f"application:{bad}"]) == (f"application:{bad}",)
        tries = len(asked_for(place, bad))
        place.service.advance(100_000)
        await rest(place.poll())
        assert (await place.letters(), len(asked_for(place, bad))) == ([], tries)
        place.touch(1)
        place.service.advance(10)
        await rest(place.poll())
        (letter,) = await store.dead_letters("default")
        assert (letter.application_id, letter.attempts) == (bad, 2)


async def test_a_newer_version_that_is_read_removes_the_dead_letter() -> None:
    """A dead letter is removed once the newest version of its application is delivered."""
    async with scene() as place:
        (bad,) = place.touch(1)
        place.service.faults.add(Fault("status", status=404, path=path_of(bad), times=2))
        place.service.advance(10)
        assert await rest(place.poll()) == []
        assert await place.letters() == [bad]
        place.touch(1)
        place.service.advance(10)
        assert ids_of(await rest(place.poll())) == [bad]
        assert await place.letters() == []


async def test_an_outage_makes_no_dead_letters() -> None:
    """While no record can be read the poll fails, and is retried until the service is back."""
    async with scene() as place:
        updated = place.touch(*range(8))
        everything = Fault("status", status=503, path=path_of("*"), times=400)
        place.service.faults.add(everything)
        place.service.advance(10)
        assert ids_of(await first(place.poll(), 8)) == sorted(updated)
        assert await place.letters() == []


async def test_a_lone_failing_record_does_not_stop_a_first_poll() -> None:
    """Where its page holds nothing else, the next pages show that the service works."""
    times = [NOW - 90_000_000, *range(NOW - 1060, NOW - 1000)]
    async with scene(times, order="shuffled") as place:
        bad = place.service.world.id_of(0)
        place.service.faults.add(Fault("status", status=500, path=path_of(bad), times=None))
        with pages_of(20):
            records = await rest(place.poll(start="2020-01-01"))
        assert len(records) == 60
        assert await place.letters() == [bad]


async def test_a_bad_row_does_not_hold_up_the_others() -> None:
    """The poller needs only the id of a row, so other faults in it do no harm."""
    async with scene() as place:
        one, two = place.touch(1, 2)
        page = {
            "updated_after": "2026-06-30T11:59:59",
            "updated_before": "2026-06-30T12:00:10",
            "applications": [
                row_of_list(one),
                row_of_list(two, application_date=None),
            ],
        }
        body = json.dumps(page).encode()
        place.service.faults.add(Fault("body", body=body, path="/v1/income/applications"))
        assert ids_of(await first(place.poll(), 2)) == sorted([one, two])


async def test_a_saturated_second_is_reported_and_not_raised() -> None:
    """Its visible rows are delivered; the hidden ones come once the second has fewer rows."""
    second = NOW - 500
    async with scene([second] * 25, order="shuffled") as place:
        with pages_of(20):
            poller = place.poll(start="2026-06-30")
        given = await rest(poller)
        assert len(given) == 20
        assert [window.after for window in poller.status.saturated] == [second]
        (letter,) = await place.store.dead_letters("default")
        assert (letter.application_id, letter.window.after) == (None, second)
        place.service.advance(40)
        hidden = set(place.ids) - set(ids_of(given))
        for one in ids_of(given)[:10]:
            place.service.touch(one)
        with pages_of(20):
            assert len(await rest(place.poll())) == 10
            place.service.advance(4000)
            assert hidden <= set(ids_of(await rest(place.poll())))
        assert await place.letters() == []


def spoiled(place: Scene, row: Any, **fault: Any) -> Fault:
    """Return a fault that shows the first two applications and a row that is none."""
    page = {
        "updated_after": "2026-06-30T11:59:59",
        "updated_before": "2026-06-30T12:00:10",
        "applications": [
            *map(row_of_list, place.ids[:2]),
            row,
        ],
    }
    body = json.dumps(page).encode()
    return Fault("body", body=body, path="/v1/income/applications", **fault)


@pytest.mark.parametrize("row", [None, NO_ID, row_of_list(application_id=None), "invented"])
async def test_a_row_without_an_id_does_not_hold_up_the_others(row: Any) -> None:
    """It is a dead letter without an id, which polls of the same seconds do not repeat."""
    async with scene() as place:
        place.touch(0, 1)
        place.service.faults.add(spoiled(place, row, times=3))
        place.service.advance(10)
        poller = place.poll()
        assert ids_of(await rest(poller)) == sorted(place.ids[:2])
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


async def test_a_row_without_an_id_is_looked_for_again() -> None:
    """Its dead letter stays while the list shows it, and is resolved once the list does not.

    What stood in its place is delivered then.
    """
    async with scene() as place:
        hidden = place.touch(0, 1, 2)[-1]
        place.service.faults.add(spoiled(place, None))
        place.service.advance(10)
        assert hidden not in ids_of(await rest(place.poll()))
        place.service.advance(4000)
        place.service.faults.add(spoiled(place, None, skip=1))
        await rest(place.poll())
        (letter,) = await place.store.dead_letters("default")
        assert letter.attempts == 2
        place.service.advance(4000)
        assert hidden in ids_of(await rest(place.poll()))
        assert await place.letters() == []


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


async def test_an_unreadable_list_holds_the_checkpoint_back() -> None:
    """The checkpoint does not move, and the poll is retried."""
    async with scene() as place:
        updated = place.touch(1)
        for body in (b"{}", b"[]", b'{"applications": [{}]}', b"null"):
            place.service.faults.add(Fault("body", body=body, path="/v1/income/applications"))
        poller = place.poll()
        assert ids_of(await first(poller, 1)) == updated
        assert poller.status.last_error is not None


async def test_an_invalid_id_is_a_dead_letter() -> None:
    """A listed id is untrusted text, and no request is sent for one that changes the path."""
    async with scene() as place:
        page = {
            "updated_after": "2026-06-30T11:59:59",
            "updated_before": "2026-06-30T12:00:10",
            "applications": [row_of_list(one) for one in ("..", "a\u0007", "", "b\0")],
        }
        body = json.dumps(page).encode()
        place.service.faults.add(Fault("body", body=body, path="/v1/income/applications"))
        await rest(place.poll())
        assert sorted(map(str, await place.letters())) == ["", "..", "a\u0007", "b\\x00"]
        assert place.requests("get_application") == 0
        reasons = [letter.reason for letter in await place.store.dead_letters("default")]
        path = "DecodeError: $.applications[*].application_id: "
        assert all(reason.startswith(path) for reason in reasons)


async def test_an_id_that_is_too_long_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    """Neither the store nor the log takes all of it, and each has a dead letter of its own."""
    ids = [f"{'x' * 100_000}{end}" for end in "ab"]
    async with scene() as place:
        for one in ids:
            row = row_of_list(one)
            place.service.faults.add(spoiled(place, row))
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


async def test_half_a_character_in_a_row_does_not_hold_up_the_others() -> None:
    """A partner's reference may be cut inside a character, which the strict reader refuses."""
    async with scene() as place:
        one, two = place.touch(1, 2)
        page = {
            "updated_after": "2026-06-30T11:59:59",
            "updated_before": "2026-06-30T12:00:10",
            "applications": [
                row_of_list(one, application_reference_id="LOAN \ud83d"),
                row_of_list(two),
            ],
        }
        body = json.dumps(page).encode()
        path = "/v1/income/applications"
        place.service.faults.add(Fault("body", body=body, path=path, times=3))
        assert ids_of(await first(place.poll(), 2)) == sorted([one, two])


async def test_a_second_that_cannot_be_listed_again_does_not_stop_polling() -> None:
    """The service may refuse old windows; the dead letter stays, and its attempts count."""
    second = NOW - 500
    async with scene([second] * 25, order="shuffled") as place:
        with pages_of(20):
            await rest(place.poll(start="2026-06-30"))
            place.service.advance(4000)
            refusal = Fault("status", status=400, path="/v1/income/applications", skip=3)
            place.service.faults.add(refusal)
            updated = place.touch(3)
            assert ids_of(await rest(place.poll())) == updated
        (letter,) = await place.store.dead_letters("default")
        assert (letter.application_id, letter.attempts) == (None, 2)
        assert letter.reason.startswith("InvalidRequestError: ")


@pytest.mark.parametrize("hours", [1, 24 * 400])
async def test_polling_continues_after_the_service_s_clock_ran_ahead(
    hours: int,
) -> None:
    """The checkpoint stays ahead; what is updated meanwhile is still delivered."""
    async with scene() as place:
        poller = place.poll()
        place.touch(1)
        assert len(await first(poller, 1)) == 1
        ahead = place.service.now + 3600 * hours
        page = {
            "updated_after": "2026-06-30T11:59:59",
            "updated_before": stamp(ahead),
            "applications": [],
        }
        path = "/v1/income/applications"
        headers = {"Date": http_date(ahead)}
        body = json.dumps(page).encode()
        place.service.faults.add(Fault("body", body=body, headers=headers, path=path))
        waiting = asyncio.create_task(anext(poller))
        asked = place.requests("list_applications")
        await until(lambda: place.requests("list_applications") > asked + 2)
        assert place.touch(9) == [(await waiting).application_id]
        for number in range(2, 9):
            updated = place.touch(number)
            assert ids_of(await first(poller, 1)) == updated
            if number == 5:
                assert await rest(poller) == []
                poller = place.poll()
        reached = poller.status.reached
        assert reached is not None
        assert reached > EPOCH + timedelta(seconds=NOW + 3500 * hours)


def asked_for(place: Scene, application_id: str) -> list[Any]:
    """Return the requests about an application."""
    service: Emulator = place.service
    return [request for request in service.requests if request.path == path_of(application_id)]


FIVE_MINUTES: Final = 300.0
LIST: Final = "/v1/income/applications"
ONE: Final = "/v1/income/applications/*"


def refusing(path: str = "*", times: int | None = None) -> Fault:
    """Return a fault: the service, including its token endpoint, answers 401."""
    return Fault("status", status=401, path=path, times=times)


@define
class Refused:
    """A service, a poller of it, and the times of the poller's failures."""

    service: Emulator
    client: IncomeClient
    clock: JumpingClock
    failed: list[tuple[float, PollFailed]] = field(factory=list)
    look: Callable[[float], None] = lambda _: None

    def poll(self, **options: Any) -> Poller:
        """Return a poller that begins at the present."""
        usual: dict[str, Any] = {"start": "2026-06-30T12:00:00", "documents": False}
        return self.client.poll(MemoryCheckpointStore(), **usual | options)

    def hear(self, event: Event) -> None:
        """Record a failure and its time; let the test change the service at that moment."""
        if isinstance(event, PollFailed):
            self.failed.append((self.clock.monotonic(), event))
            self.look(self.since_first)

    @property
    def since_first(self) -> float:
        """Return the seconds from the first failure to the last."""
        return self.failed[-1][0] - self.failed[0][0]


@contextlib.asynccontextmanager
async def refused() -> AsyncIterator[Refused]:
    """Run a service that can refuse credentials, and a client of it."""
    clock = JumpingClock()
    scene: list[Refused] = []

    def hear(event: Event) -> None:
        scene[0].hear(event)

    times = range(NOW - 100, NOW - 80)
    async with (
        Emulator(times, clock=clock, time_flows=True) as service,
        IncomeClient(
            service.url,
            auth=service.oauth2,
            clock=clock,
            on_event=hear,
        ) as client,
    ):
        scene.append(Refused(service, client, clock))
        yield scene[0]


async def worked(scene: Refused, **options: Any) -> "tuple[Poller, asyncio.Task[str | None]]":
    """Return a poller that has polled once, and a task that waits for its next record."""
    poller = scene.poll(**options)

    async def next_id() -> str | None:
        record = await anext(poller, None)
        return None if record is None else record.application_id

    waiting = asyncio.create_task(next_id())
    await until(lambda: poller.status.polls == 1)
    return poller, waiting


@pytest.mark.parametrize("path", ["*", "/token", LIST])
async def test_wrong_credentials_at_the_start_end_a_poller(path: str) -> None:
    """They are not retried, as they have never worked in this run."""
    async with refused() as scene:
        scene.service.faults.add(refusing(path))
        with pytest.raises(AuthenticationError):
            await anext(scene.poll())
        ((_, failed),) = scene.failed
        assert (failed.is_last, failed.status) == (True, 401)


async def test_wrong_credentials_end_a_poller_that_asks_for_the_time() -> None:
    """A poller without `start` first asks for the time, and fails at that."""
    async with refused() as scene:
        scene.service.faults.add(refusing())
        with pytest.raises(AuthenticationError):
            await anext(scene.poll(start=None))
        assert len(scene.failed) == 1


@pytest.mark.parametrize("interval", [1, 30, 36_000])
async def test_five_minutes_of_refusals_end_a_poller(interval: float) -> None:
    """Until then it retries at least once a minute, whatever its interval."""
    async with refused() as scene:
        _, waiting = await worked(scene, interval=interval)
        scene.service.faults.add(refusing())
        with pytest.raises(AuthenticationError) as caught:
            await waiting
        moments = [moment for moment, _ in scene.failed]
        assert FIVE_MINUTES <= scene.since_first <= FIVE_MINUTES + 60
        assert moments[-2] - moments[0] < FIVE_MINUTES
        assert max(later - earlier for earlier, later in pairwise(moments)) <= 60
        assert [failed.is_last for _, failed in scene.failed].index(True) == len(moments) - 1
        assert (caught.value.__cause__, caught.value.__context__) == (None, None)


async def test_refusals_of_less_than_five_minutes_are_survived() -> None:
    """Identity providers refuse everything while they are deployed; the status shows it."""
    async with refused() as scene:
        poller, waiting = await worked(scene)
        shown = []

        def look(seconds: float) -> None:
            shown.append((poller.status.failures, type(poller.status.last_error)))
            if seconds > FIVE_MINUTES / 2:
                scene.service.faults.clear()

        scene.look = look
        scene.service.faults.add(refusing())
        await until(lambda: not scene.service.faults)
        updated = scene.service.world.ids[3]
        scene.service.touch(updated)
        assert await waiting == updated
        assert shown == [(n, AuthenticationError) for n in range(1, len(shown) + 1)]
        assert poller.status.failures == 0


async def test_five_minutes_count_from_the_first_refusal_since_it_worked() -> None:
    """Several short refusals do not add up to a long one."""
    async with refused() as scene:
        poller, waiting = await worked(scene)
        for _ in range(4):
            polls = poller.status.polls
            scene.failed.clear()
            scene.look = lambda seconds: (
                scene.service.faults.clear() if seconds > FIVE_MINUTES / 2 else None
            )
            scene.service.faults.add(refusing())
            await until(lambda polls=polls: poller.status.polls > polls)  # type: ignore[misc]
        poller.stop()
        assert await waiting is None


async def test_an_outage_between_refusals_is_not_counted_as_a_refusal() -> None:
    """During other failures it is unknown whether the credentials work."""
    async with refused() as scene:
        poller, waiting = await worked(scene)
        outage = Fault("status", status=503, path="*", times=None)

        def look(seconds: float) -> None:
            _, last = scene.failed[-1]
            faults = scene.service.faults
            if seconds > 2 * FIVE_MINUTES:
                faults.clear()
            elif last.status == 401:
                faults.clear()
                faults.add(outage)
            else:
                faults.clear()
                faults.add(refusing())

        scene.look = look
        scene.service.faults.add(refusing())
        await until(lambda: not scene.service.faults)
        updated = scene.service.world.ids[3]
        scene.service.touch(updated)
        assert await waiting == updated
        assert {failed.status for _, failed in scene.failed} == {401, 503}
        assert poller.status.failures == 0


async def test_five_minutes_of_refused_applications_end_a_poller() -> None:
    """Credentials that can list applications but read none end it after five minutes."""
    async with refused() as scene:
        scene.service.faults.add(refusing(ONE))
        scene.service.touch(scene.service.world.ids[3])
        with pytest.raises(AuthenticationError):
            await anext(scene.poll())
        assert scene.since_first >= FIVE_MINUTES


async def test_one_refused_application_among_others_is_a_dead_letter() -> None:
    """If other applications can be read, the credentials are not the cause."""
    async with refused() as scene:
        ids = scene.service.world.ids
        scene.service.faults.add(refusing(f"*/{ids[3]}"))
        store = MemoryCheckpointStore()
        poller = scene.client.poll(store, start="2026-06-30T11:00:00", documents=False)
        poller.stop(after_poll=True)
        assert {record.application_id for record in [r async for r in poller]} == {*ids} - {ids[3]}
        (letter,) = await store.dead_letters("default")
        assert letter.application_id == ids[3]


async def test_a_dead_letter_that_is_refused_again_does_not_end_a_poller() -> None:
    """However often it is refused, and although nothing else is read beside it."""
    async with refused() as scene:
        ids = scene.service.world.ids
        scene.service.faults.add(refusing(f"*/{ids[3]}"))
        store = MemoryCheckpointStore()
        poller = scene.client.poll(store, start="2026-06-30T11:00:00", documents=False)
        for _ in range(len(ids) - 1):
            await anext(poller)
        waiting = asyncio.create_task(anext(poller, None))
        attempts = 0
        while attempts < 8:
            await polled_since(poller, poller.status.polls)
            (letter,) = await store.dead_letters("default")
            attempts = letter.attempts
        assert letter.application_id == ids[3]
        assert poller.status.failures == 0
        poller.stop()
        assert await waiting is None


async def polled_since(poller: Poller, polls: int) -> None:
    """Wait until another poll has ended."""
    await until(lambda: poller.status.polls > polls)


@pytest.mark.parametrize("status", [403, 400, 404, 302])
async def test_other_refusals_of_the_list_never_end_a_poller(status: int) -> None:
    """Not even the first poll: a firewall may answer so during a deployment."""
    async with refused() as scene:
        fault = Fault("status", status=status, path=LIST, times=None)
        scene.service.faults.add(fault)
        scene.look = lambda seconds: (
            scene.service.faults.clear() if seconds > 10 * FIVE_MINUTES else None
        )
        poller = scene.poll()
        updated = scene.service.world.ids[3]
        scene.service.touch(updated)
        assert (await anext(poller)).application_id == updated
        assert not any(failed.is_last for _, failed in scene.failed)
        if status == 403:
            assert isinstance(poller.status.last_error, PermissionDeniedError)


async def test_a_single_poll_raises_a_refusal_at_once() -> None:
    """A job with one poll does not retry refused credentials."""
    async with refused() as scene:
        poller, waiting = await worked(scene)
        poller.stop(after_poll=True)
        scene.service.faults.add(refusing())
        with pytest.raises(AuthenticationError):
            await waiting
        assert len(scene.failed) == 1
