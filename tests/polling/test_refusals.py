"""Refused credentials end a poller: at once at its start, after five minutes once they worked."""

import asyncio
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from typing import Any, Final

import pytest
from attrs import define, field

from income_client import AuthenticationError, Event, PermissionDeniedError, Poller, PollFailed
from income_client.emulator import Fault
from income_client.testing import JumpingClock
from tests.support import polling
from tests.support.polling import LIST, NOW_TEXT, Scene, first, ids_of
from tests.support.service import until

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
async def scene() -> AsyncIterator[Refused]:
    refused = Refused()
    async with polling.scene(clock=refused.clock, on_event=refused.hear) as refused.place:
        yield refused


@pytest.mark.parametrize(
    ("path", "start"), [("*", NOW_TEXT), ("/token", NOW_TEXT), (LIST, NOW_TEXT), ("*", None)]
)
async def test_wrong_credentials_at_the_start_end_a_poller(
    scene: Refused, path: str, start: str | None
) -> None:
    """They are not retried, as they have never worked in this run."""
    scene.refuse(path)
    with pytest.raises(AuthenticationError):
        await anext(scene.place.poll(start=start))
    ((_, failed),) = scene.failed
    assert (failed.is_last, failed.status) == (True, 401)


@pytest.mark.parametrize("interval", [1, 30, 36_000])
async def test_five_minutes_of_refusals_end_a_poller(scene: Refused, interval: float) -> None:
    """Until then it retries at least once a minute, whatever its interval."""
    _, waiting = await scene.worked(interval=interval)
    scene.refuse()
    with pytest.raises(AuthenticationError) as caught:
        await waiting
    moments = [moment for moment, _ in scene.failed]
    assert FIVE_MINUTES <= scene.since_first <= FIVE_MINUTES + 60
    assert moments[-2] - moments[0] < FIVE_MINUTES
    assert max(later - earlier for earlier, later in pairwise(moments)) <= 60
    assert [failed.is_last for _, failed in scene.failed].index(True) == len(moments) - 1
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


async def test_five_minutes_count_from_the_first_refusal_since_it_worked(scene: Refused) -> None:
    """Identity providers refuse everything while they are deployed; the status shows it."""
    poller, waiting = await scene.worked()
    for _ in range(4):
        polls, shown = poller.status.polls, list[tuple[int, Any]]()

        def look(seconds: float, shown: list[Any] = shown) -> None:
            shown.append((poller.status.failures, type(poller.status.last_error)))
            if seconds > FIVE_MINUTES / 2:
                scene.relent()

        scene.failed.clear()
        scene.look = look
        scene.refuse()
        await until(lambda polls=polls: poller.status.polls > polls)  # type: ignore[misc]
        assert shown == [(n, AuthenticationError) for n in range(1, len(shown) + 1)]
    assert poller.status.failures == 0
    updated = scene.place.touch(3)
    assert ids_of(await waiting) == updated


async def test_an_outage_between_refusals_is_not_counted_as_a_refusal(scene: Refused) -> None:
    """During other failures it is unknown whether the credentials work."""
    poller, waiting = await scene.worked()

    def look(seconds: float) -> None:
        _, last = scene.failed[-1]
        scene.relent()
        if seconds <= 2 * FIVE_MINUTES:
            scene.refuse(status=503 if last.status == 401 else 401)

    scene.look = look
    scene.refuse()
    await until(lambda: not scene.place.service.faults)
    updated = scene.place.touch(3)
    assert ids_of(await waiting) == updated
    assert {failed.status for _, failed in scene.failed} == {401, 503}
    assert poller.status.failures == 0


async def test_five_minutes_of_refused_applications_end_a_poller(scene: Refused) -> None:
    scene.refuse(f"{LIST}/*")
    scene.place.touch(3)
    with pytest.raises(AuthenticationError):
        await anext(scene.place.poll())
    assert scene.since_first >= FIVE_MINUTES


async def test_a_refused_application_among_others_is_a_dead_letter(scene: Refused) -> None:
    """It does not end the poller, however often it is refused, alone or among others."""
    ids = scene.place.ids
    scene.refuse(f"*/{ids[3]}")
    poller = scene.place.poll(start="2026-06-30T11:00:00")
    assert set(ids_of(await first(poller, len(ids) - 1))) == {*ids} - {ids[3]}
    waiting = asyncio.create_task(anext(poller, None))
    attempts = 0
    while attempts < 3:
        polls = poller.status.polls
        await until(lambda polls=polls: poller.status.polls > polls)  # type: ignore[misc]
        (letter,) = await scene.place.store.dead_letters("default")
        attempts = letter.attempts
    assert letter.application_id == ids[3]
    assert poller.status.failures == 0
    poller.stop()
    assert await waiting is None


@pytest.mark.parametrize("status", [403, 400, 404, 302])
async def test_other_refusals_of_the_list_never_end_a_poller(scene: Refused, status: int) -> None:
    """Not even the first poll: a firewall may answer so during a deployment."""
    scene.refuse(LIST, status)
    scene.look = lambda seconds: scene.relent() if seconds > 2 * FIVE_MINUTES else None
    poller = scene.place.poll()
    (updated,) = scene.place.touch(3)
    assert (await anext(poller)).application_id == updated
    assert not any(failed.is_last for _, failed in scene.failed)
    if status == 403:
        assert isinstance(poller.status.last_error, PermissionDeniedError)


async def test_a_single_poll_raises_a_refusal_at_once(scene: Refused) -> None:
    poller, waiting = await scene.worked()
    poller.stop(after_poll=True)
    scene.refuse()
    with pytest.raises(AuthenticationError):
        await waiting
    assert len(scene.failed) == 1
