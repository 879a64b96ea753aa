"""Waking the poller that works from a process in which another one of its name waits."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from income_client import (
    CheckpointError,
    ConfigurationError,
    MemoryCheckpointStore,
    SQLiteCheckpointStore,
)
from tests.support import clocks
from tests.support.polling import Cluster, Replica, Scene, cluster, ids_of, leader_and_standby

LOGGER = "income_client.poller.bell"


class Bells(MemoryCheckpointStore):
    """Counts rings and looks, and fails as often as it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.rings = self.looks = 0
        self.ring_failures = self.look_failures = 0
        self.failure: Exception = OSError("postgresql://lender:c4n4ry@db")
        self.answers = asyncio.Event()
        self.answers.set()

    async def ring(self, name: str) -> bool:
        self.rings += 1
        if self.ring_failures:
            self.ring_failures -= 1
            raise CheckpointError("the line is cut", retryable=True)
        await self.answers.wait()
        return await super().ring(name)

    async def count_rings(self, name: str) -> int:
        self.looks += 1
        if self.look_failures:
            self.look_failures -= 1
            raise self.failure
        return await super().count_rings(name)


@pytest.fixture
def bells() -> Bells:
    return Bells()


@pytest.fixture
async def made(bells: Bells) -> AsyncIterator[Cluster]:
    async with cluster(bells) as made:
        yield made


class Plain(MemoryCheckpointStore):
    """A store that has no bell."""

    has_bell = False


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == LOGGER]


async def pass_time(made: Cluster, seconds: int) -> None:
    """Let time pass for the pollers, and for the processes that they run in."""
    for _ in range(seconds):
        clocks.pass_time(1)
        await made.pass_time(1)


async def resting(made: Cluster) -> tuple[Replica, Replica]:
    leader, standby = await leader_and_standby(made)
    await made.pass_time(5)
    return leader, standby


@pytest.mark.parametrize("is_file", [False, True])
async def test_a_wake_up_in_a_standby_reaches_the_leader(tmp_path: Path, *, is_file: bool) -> None:
    """The wake-up arrives within seconds, though the interval is an hour.

    The standby stays one.
    """
    async with cluster(SQLiteCheckpointStore(tmp_path / "store") if is_file else None) as made:
        leader, standby = await resting(made)
        for number in (1, 2, 3):
            (updated,) = made.place.touch(number)
            assert standby.poller.wake() is True
            await pass_time(made, 4)
            assert ids_of(leader.records)[-1:] == [updated]
        assert standby.poller.status.is_standby
        assert standby.records == []


async def test_wake_ups_at_the_same_time_are_one_ring_and_one_poll(
    made: Cluster, bells: Bells
) -> None:
    """A later one is rung by itself, since what it is for may be newer than that poll."""
    leader, standby = await resting(made)
    polls = leader.poller.status.polls
    for _ in range(5):
        standby.poller.wake()
    await pass_time(made, 60)
    assert (bells.rings, leader.poller.status.polls) == (1, polls + 1)
    bells.answers.clear()
    standby.poller.wake()
    await made.settle()
    standby.poller.wake()
    standby.poller.wake()
    bells.answers.set()
    await pass_time(made, 60)
    assert bells.rings == 3
    assert polls + 2 <= leader.poller.status.polls <= polls + 3


async def test_a_wake_up_of_the_leader_rings_nothing(made: Cluster, bells: Bells) -> None:
    """Nor does one of a poller that has no standbys, or that was stopped."""
    leader, standby = await resting(made)
    updated = made.place.touch(1)
    assert leader.poller.wake() is True
    await made.pass_time(2)
    assert ids_of(leader.records) == updated
    standby.poller.stop()
    assert standby.poller.wake() is False
    single = made.add(name="other", standby=False)
    assert single.poller.wake() is True
    await made.settle()
    assert bells.rings == 0


async def test_a_poll_that_was_woken_delivers_what_was_updated_in_that_very_second(
    made: Cluster,
) -> None:
    """Other polls leave the current second, which the list may hide, to the next one."""
    leader, _ = await resting(made)
    updated = made.place.touch(1)
    leader.poller.wake()
    await made.settle()
    assert ids_of(leader.records) == updated


async def test_a_wake_up_before_the_first_poll_counts_for_it(made: Cluster) -> None:
    """A standby that takes over lists what was updated in that very second."""
    leader, standby = await resting(made)
    await made.kill(leader)
    updated = made.place.touch(1)
    assert standby.poller.wake() is True
    await made.pass_time(18)
    assert ids_of(standby.records) == updated


async def test_a_ring_reaches_a_poller_without_standby(made: Cluster, bells: Bells) -> None:
    """Also one that comes during a poll, or in the pause after a poll that has failed."""
    poller = await made.started(5, standby=False, interval=3600.0)
    updated = made.place.touch(1)
    await bells.ring("default")
    await bells.ring("other")
    await pass_time(made, 4)
    assert ids_of(poller.records) == updated
    polls = poller.poller.status.polls
    made.place.service.faults.add("list_applications: 503 x1000")
    await bells.ring("default")
    while not poller.poller.status.failures:
        await pass_time(made, 1)
    made.place.service.faults.clear()
    updated += made.place.touch(2)
    await bells.ring("default")
    await pass_time(made, 4)
    assert ids_of(poller.records) == updated
    assert poller.poller.status.polls <= polls + 2


async def test_a_poller_looks_in_its_pauses_only(made: Cluster, bells: Bells) -> None:
    """Every two seconds; not while its consumer works, nor while it stands by."""
    _, batches, batch = await made.batch(standby=False, interval=3600.0, start="2026-01-01")
    looks = bells.looks
    await pass_time(made, 60)
    assert bells.looks == looks
    async with batch:
        pass
    waiting = asyncio.ensure_future(anext(batches))
    await made.settle()
    while bells.looks == looks:
        await pass_time(made, 1)
    looks = bells.looks
    await pass_time(made, 20)
    assert bells.looks - looks == 10
    waiting.cancel()
    await asyncio.wait([waiting])
    await batches.aclose()


async def test_a_poller_that_was_replaced_rings_for_what_it_was_woken_for(
    made: Cluster, bells: Bells
) -> None:
    """The replaced poller learns of the takeover at its next poll."""
    leader, standby = await resting(made)
    await made.pass_time(20, paused=leader)
    updated = made.place.touch(1)
    leader.poller.wake()
    await pass_time(made, 6)
    assert bells.rings == 1
    assert not standby.poller.status.is_standby
    assert ids_of(standby.records) == updated


async def test_a_store_without_a_bell_is_a_warning_once(caplog: pytest.LogCaptureFixture) -> None:
    """The result says it each time; everything else works."""
    async with cluster(Plain()) as made:
        leader, standby = await resting(made)
        with caplog.at_level(logging.WARNING, LOGGER):
            assert [standby.poller.wake() for _ in range(3)] == [False] * 3
        assert leader.poller.wake() is True
        (said,) = warnings(caplog)
        assert "'default'" in said
        assert "Plain has no bell" in said


async def test_a_ring_that_fails_is_tried_again(
    made: Cluster, bells: Bells, caplog: pytest.LogCaptureFixture
) -> None:
    """The failure is warned of once.

    After some tries the ring is dropped, and the next one is new.
    """
    leader, standby = await resting(made)
    bells.ring_failures = 2
    updated = made.place.touch(1)
    standby.poller.wake()
    await pass_time(made, 10)
    assert ids_of(leader.records) == updated
    assert [said.partition("reach the leader: ")[2] for said in warnings(caplog)] == [
        "the line is cut"
    ]
    bells.ring_failures, bells.rings = 1000, 0
    standby.poller.wake()
    await made.pass_time(60)
    assert 2 < bells.rings < 10
    assert len(warnings(caplog)) == 2
    bells.ring_failures = 0
    updated = made.place.touch(2)
    standby.poller.wake()
    await pass_time(made, 10)
    assert ids_of(leader.records)[1:] == updated


@pytest.mark.parametrize("is_final", [False, True])
async def test_a_bell_that_cannot_be_read_is_tried_again(
    made: Cluster, bells: Bells, caplog: pytest.LogCaptureFixture, *, is_final: bool
) -> None:
    """The failure is warned of once; when the bell can be read again, the leader polls.

    It never can be where a user lacks rights: what was said once is enough then.
    """
    bells.look_failures = 5
    bells.failure = CheckpointError("no rights") if is_final else bells.failure
    leader, _ = await leader_and_standby(made)
    updated = made.place.touch(1)
    await bells.ring("default")
    await pass_time(made, 8)
    assert bells.looks == (1 if is_final else 5)
    assert leader.records == []
    await pass_time(made, 8)
    assert ids_of(leader.records) == ([] if is_final else updated)
    (said,) = warnings(caplog)
    assert said.endswith("no rights" if is_final else "OSError")
    leader.poller.wake()
    await made.pass_time(2)
    assert ids_of(leader.records) == updated


async def test_a_wake_up_of_a_standby_needs_an_event_loop(place: Scene) -> None:
    """A thread without one has no way to ring."""
    poller = place.poll(standby=True)
    with pytest.raises(ConfigurationError, match="event loop"):
        await asyncio.to_thread(poller.wake)
