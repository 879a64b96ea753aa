"""Credentials that are refused end a poller at its start, or five minutes after they worked."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
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
from income_client.testing import JumpingClock
from tests.support.service import NOW, until

FIVE_MINUTES: Final = 300.0
LIST: Final = "/v1/income/applications"
ONE: Final = "/v1/income/applications/*"


def refusing(path: str = "*", times: int | None = None) -> Fault:
    """Return a fault with which the service, the token endpoint included, answers 401."""
    return Fault("status", status=401, path=path, times=times)


@define
class Refused:
    """A service, a poller of it, and when which of its polls failed."""

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
        """Keep a failure and its time; let the test change the service at that moment."""
        if isinstance(event, PollFailed):
            self.failed.append((self.clock.monotonic(), event))
            self.look(self.since_first)

    @property
    def since_first(self) -> float:
        """Seconds from the first failure to the last."""
        return self.failed[-1][0] - self.failed[0][0]


@contextlib.asynccontextmanager
async def refused() -> AsyncIterator[Refused]:
    """Run a service that can refuse, and a client of it."""
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
async def test_wrong_credentials_end_it_at_its_start(path: str) -> None:
    """Nothing is retried: they have never worked in this run."""
    async with refused() as scene:
        scene.service.faults.add(refusing(path))
        with pytest.raises(AuthenticationError):
            await anext(scene.poll())
        ((_, failed),) = scene.failed
        assert (failed.is_last, failed.status) == (True, 401)


async def test_wrong_credentials_end_it_before_it_knows_the_present() -> None:
    """Without a start, the first call asks for the time."""
    async with refused() as scene:
        scene.service.faults.add(refusing())
        with pytest.raises(AuthenticationError):
            await anext(scene.poll(start=None))
        assert len(scene.failed) == 1


@pytest.mark.parametrize("interval", [1, 30, 36_000])
async def test_after_five_minutes_of_refusals_it_ends(interval: float) -> None:
    """They are retried until then, a minute apart at the most, whatever the interval."""
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
    """Identity providers refuse everybody while they are deployed; the status shows it."""
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


async def test_an_outage_between_refusals_is_not_counted_as_one() -> None:
    """While it fails otherwise, nobody knows what the service thinks of the credentials."""
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


async def test_applications_that_are_refused_while_the_list_is_not_end_it_too() -> None:
    """After five minutes: the credentials have worked, and read nothing."""
    async with refused() as scene:
        scene.service.faults.add(refusing(ONE))
        scene.service.touch(scene.service.world.ids[3])
        with pytest.raises(AuthenticationError):
            await anext(scene.poll())
        assert scene.since_first >= FIVE_MINUTES


async def test_one_refused_application_among_others_is_a_dead_letter() -> None:
    """The credentials are not what is wrong with it."""
    async with refused() as scene:
        ids = scene.service.world.ids
        scene.service.faults.add(refusing(f"*/{ids[3]}"))
        store = MemoryCheckpointStore()
        poller = scene.client.poll(store, start="2026-06-30T11:00:00", documents=False)
        poller.stop(after_poll=True)
        assert {record.application_id for record in [r async for r in poller]} == {*ids} - {ids[3]}
        (letter,) = await store.dead_letters("default")
        assert letter.application_id == ids[3]


@pytest.mark.parametrize("status", [403, 400, 404, 302])
async def test_other_refusals_of_the_list_never_end_it(status: int) -> None:
    """Not even at its start: a firewall may answer so while it is deployed, for one."""
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


async def test_a_single_poll_is_told_of_a_refusal_at_once() -> None:
    """Whoever started the job looks after it."""
    async with refused() as scene:
        poller, waiting = await worked(scene)
        poller.stop(after_poll=True)
        scene.service.faults.add(refusing())
        with pytest.raises(AuthenticationError):
            await waiting
        assert len(scene.failed) == 1
