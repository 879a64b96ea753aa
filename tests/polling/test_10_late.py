"""Promise 10: an update that is listed at most settle late is delivered, when it is listed."""

import json
from collections.abc import AsyncIterator, Callable
from functools import partial
from random import Random
from typing import Any

import pytest
from attrs import evolve

from income_client.emulator import Fault
from income_client.events import Event, PollFinished
from income_client.events.instrumentation import Instrumentation
from income_client.polling.checkpoint import read_checkpoint
from income_client.polling.cycle import PollerState
from income_client.polling.reading import PollSource
from income_client.polling.status import Monitor
from income_client.records.window import Window
from income_client.testing import JumpingClock
from income_client.walk.checkpoint import write_checked
from income_client.walk.windows import Answer, Bounds
from tests.support.polling import Cluster, Replica, cluster, ids_of, reached


@pytest.fixture
async def made() -> AsyncIterator[Cluster]:
    async with cluster() as made:
        yield made


def show_late(made: Cluster, seconds: int) -> None:
    service = made.place.service
    service.rules = evolve(service.rules, visibility_delay=seconds)


@pytest.mark.parametrize("settle", [20, 60, 120])
async def test_a_version_is_read_twice_whatever_settle_is(made: Cluster, settle: int) -> None:
    """Once when it is listed, and once when settle has passed; twice at most at edges."""
    poller = (await made.started(1, interval=1.0, settle=settle)).poller
    for number in range(settle + 30):
        made.place.touch(number % 20)
        await made.pass_time(1)
    before, delivered = made.place.requests("get_application"), poller.status.records
    for number in range(60):
        made.place.touch(number % 20)
        await made.pass_time(1)
    assert poller.status.records - delivered == 60
    assert made.place.requests("get_application") - before <= 60 * 3.8


@pytest.mark.parametrize("late", [2, 9, 25, 59])
async def test_an_update_that_is_listed_late_comes_within_a_quarter_more(
    made: Cluster, late: int
) -> None:
    """Although polls before have listed its second without it."""
    replica = await made.started(30, interval=1.0, settle=60)
    replica.records.clear()
    show_late(made, late)
    (updated,) = made.place.touch(3)
    show_late(made, 0)
    made.place.touch(4)
    await made.pass_time(late - 1)
    assert ids_of(replica.records) == [made.place.ids[4]]
    await made.pass_time(3 + late // 4)
    assert ids_of(replica.records) == [made.place.ids[4], updated]
    assert 3 * late // 4 - 1 <= replica.poller.status.late <= late
    assert replica.poller.status.late_p999 == replica.poller.status.late


async def test_lateness_beyond_half_of_settle_is_warned_of(
    made: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """An update is not late that no poll could list earlier: after a beginning, or an outage."""
    made.place.touch(1, 2)
    events: list[Event] = []
    replica = await made.started(30, interval=1.0, settle=60, on_event=events.append)
    made.place.service.faults.add(Fault("status", status=503, times=None))
    made.place.touch(3)
    await made.pass_time(45)
    made.place.service.faults.clear()
    await made.pass_time(70)
    assert len(replica.records) == 3
    assert replica.poller.status.late == 0
    show_late(made, 40)
    for number in (4, 5):
        made.place.touch(number)
        await made.pass_time(55)
    assert len(replica.records) == 5
    (warning,) = [one for one in caplog.records if "listed" in one.getMessage()]
    late = vars(warning)["seconds"]
    assert 30 < late <= replica.poller.status.late <= 40
    assert f"listed {late} s late" in warning.getMessage()
    assert max(event.late for event in events if isinstance(event, PollFinished)) >= late


def test_lateness_is_warned_of_once_below_settle_and_once_above(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Above it, others are missed already."""
    monitor = Monitor("default", Instrumentation(), JumpingClock())
    for seconds in (0, 30, 31, 45, 60, 61, 75, 40):
        monitor.warn_of_lateness(seconds, 60)
    assert [vars(one)["seconds"] for one in caplog.records] == [31, 61]


async def test_the_lateness_of_the_day_survives_a_takeover(made: Cluster) -> None:
    """And the takeover adds nothing to it, although its first poll lists what is an hour old."""
    leader = await made.started(30, interval=1.0, settle=60)
    show_late(made, 20)
    made.place.touch(3)
    await made.pass_time(30)
    show_late(made, 0)
    await made.pass_time(70)
    late = leader.poller.status.late
    assert 14 <= late <= 20
    checkpoint = read_checkpoint(await made.place.text())
    assert (checkpoint.lateness.greatest, checkpoint.lateness.updates) == (late, 1)
    assert checkpoint.settle == 60
    await made.kill(leader)
    made.place.touch(4)
    made.place.service.advance(3_600)
    successor = await made.started(30, interval=1.0, settle=90)
    assert ids_of(successor.records) == [made.place.ids[4]]
    assert successor.poller.status.late == late
    assert read_checkpoint(await made.place.text()).lateness == checkpoint.lateness
    made.place.service.advance(86_400)
    await made.pass_time(30)
    assert successor.poller.status.late == 0
    stored = read_checkpoint(await made.place.text())
    assert (stored.lateness.updates, stored.settle) == (0, 90)


async def test_an_update_of_what_was_updated_shortly_before_comes_at_once(made: Cluster) -> None:
    """The list shows the application either way; another second tells the two apart."""
    replica = await made.started(30, interval=1.0, settle=60)
    replica.records.clear()
    for _ in range(4):
        made.place.touch(3)
        await made.pass_time(2)
    assert ids_of(replica.records) == [made.place.ids[3]] * 4


async def test_two_updates_in_one_second_come_both(made: Cluster) -> None:
    """The first one is read before the second: no time of the list or of a record differs then."""
    replica = await made.started(30, interval=1.0, settle=20)
    replica.records.clear()
    made.place.service.advance(1)
    made.place.touch(3)
    replica.poller.wake()
    replica.clock.advance(1)
    await made.settle()
    assert len(replica.records) == 1
    made.place.touch(3)
    await made.pass_time(2)
    assert ids_of(replica.records) == [made.place.ids[3]] * 2


async def test_lateness_is_not_overstated_where_an_earlier_update_hides_a_later_one(
    made: Cluster,
) -> None:
    """The list shows the application for either; it is read once settle has passed."""
    replica = await made.started(30, interval=1.0, settle=60)
    made.place.touch(3)
    await made.pass_time(1)
    show_late(made, 2)
    made.place.touch(3)
    await made.pass_time(75)
    assert len(replica.records) == 2
    assert replica.poller.status.late <= 2


async def touch_and_wake(made: Cluster, replica: Replica, number: int) -> str:
    """Let a second begin in which an application is updated, and a callback wakes the poller."""
    made.place.service.advance(1)
    (updated,) = made.place.touch(number % 20)
    replica.poller.wake()
    replica.clock.advance(1)
    await made.settle()
    return updated


@pytest.mark.parametrize("upper_closed", [False, True])
@pytest.mark.parametrize("lower_closed", [False, True])
async def test_a_poll_a_second_makes_two_list_calls_whatever_the_bounds_mean(
    made: Cluster, lower_closed: bool, upper_closed: bool
) -> None:
    """Each update is delivered by the poll that was woken for it."""
    service = made.place.service
    service.rules = evolve(service.rules, lower_closed=lower_closed, upper_closed=upper_closed)
    replica = await made.started(30, interval=30.0, settle=60)
    replica.records.clear()
    updated = [await touch_and_wake(made, replica, number) for number in range(80)]
    calls, reads = made.place.requests("list_applications"), made.place.requests("get_application")
    updated += [await touch_and_wake(made, replica, number) for number in range(60)]
    assert ids_of(replica.records) == updated
    # One for what is new, half a one for recent seconds, a quarter of one for older ones, and a
    # tenth for those that are due.
    assert made.place.requests("list_applications") - calls <= 60 * 2.2
    # Once, once more by the next poll since its second was not over, and once when it is due.
    assert made.place.requests("get_application") - reads <= 60 * 3.3


@pytest.mark.parametrize("future", ["refuse", "clamp"])
async def test_a_woken_poll_delivers_after_the_service_has_changed_what_it_accepts(
    made: Cluster, future: Any
) -> None:
    """It has accepted bounds in the future before."""
    service = made.place.service
    replica = await made.started(30, interval=30.0, settle=60)
    replica.records.clear()
    updated = [await touch_and_wake(made, replica, number) for number in range(5)]
    service.rules = evolve(service.rules, future=future)
    updated += [await touch_and_wake(made, replica, number) for number in range(5, 9)]
    await made.pass_time(5)
    updated += [await touch_and_wake(made, replica, number) for number in range(9, 15)]
    await made.pass_time(5)
    assert ids_of(replica.records) == updated


async def test_a_wrong_belief_about_the_lower_bound_costs_time_and_no_update(
    made: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later poll finds what the bound has hidden, also of applications updated shortly before."""
    believing = partial(PollerState, includes_first=True)
    monkeypatch.setattr("income_client.polling.poller.PollerState", believing)
    service = made.place.service
    service.rules = evolve(service.rules, lower_closed=False)
    replica = await made.started(30, interval=30.0, settle=20)
    replica.records.clear()
    updated = []
    for number in range(60):
        updated.append(await touch_and_wake(made, replica, number))
        updated += made.place.touch((number + 10) % 20)
    await made.pass_time(60)
    assert sorted(ids_of(replica.records)) == sorted(updated)


class Servers:
    """Servers of one service, whose clocks differ; each list call is answered by one of them."""

    def __init__(self, made: Cluster, *, have_dates: bool) -> None:
        self.behind: Callable[[Bounds], int] = lambda _: 0
        """Seconds by which the clock of the server that answers a call is behind."""
        self.is_bound_lowered = False
        """Whether a server applies no bound that is later than its present."""
        self._world = made.place.service.world
        self.have_dates = have_dates
        self._ask_list = PollSource.ask_list

    async def ask_list(self, source: PollSource, bounds: Bounds | None, **options: Any) -> Answer:
        if bounds is None:
            return await self._ask_list(source, bounds, **options)
        present = self._world.now - self.behind(bounds)
        before = present if bounds.before is None else bounds.before
        if self.is_bound_lowered:
            before = min(before, present)
        echo = Window(bounds.after, max(before, bounds.after))
        answer = await self._ask_list(source, Bounds(echo.after, echo.before), **options)
        if before < echo.after:
            page = evolve(answer.page, applications=())
            answer = evolve(answer, page=page, rows={}, is_full=False)
        served_at = present if self.have_dates else None
        return evolve(answer, echo=echo, served_at=served_at)

    def touch(self, application_id: str, behind: int) -> None:
        """Update an application by a server whose clock is behind."""
        self._world.now -= behind
        self._world.touch(application_id)
        self._world.now += behind


@pytest.fixture(params=[True, False], ids=["Date", "no Date"])
def servers(
    made: Cluster, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Servers:
    servers = Servers(made, have_dates=request.param)

    async def ask_list(source: PollSource, bounds: Bounds | None, **options: Any) -> Answer:
        return await servers.ask_list(source, bounds, **options)

    monkeypatch.setattr(PollSource, "ask_list", ask_list)
    return servers


@pytest.mark.parametrize("is_older_slow", [False, True])
async def test_servers_whose_clocks_differ_a_little_cost_little_and_lose_nothing(
    made: Cluster, servers: Servers, is_older_slow: bool
) -> None:
    """Any of them may answer a call or make an update; none of that is a clock that went back."""
    chance = Random(7)

    def behind(bounds: Bounds) -> int:
        if is_older_slow:
            return 0 if bounds.before is None else 3
        return chance.choice([0, 1, 3])

    servers.behind = behind
    replica = await made.started(30, interval=1.0, settle=30)
    replica.records.clear()
    before, began = made.place.requests("get_application"), await reached(made.place)
    for number in range(100):
        servers.touch(made.place.ids[number % 20], chance.choice([0, 1, 3]))
        await made.pass_time(1)
    assert made.place.requests("get_application") - before <= 100 * 4
    await made.pass_time(15)
    assert ids_of(replica.records).count(made.place.ids[3]) == 5
    assert len(replica.records) == 100
    assert await reached(made.place) - began >= 100
    assert replica.poller.status.late <= 4


@pytest.mark.parametrize("answers_all", [False, True])
async def test_a_server_far_behind_moves_no_checkpoint_over_what_it_does_not_list(
    made: Cluster, servers: Servers, answers_all: bool
) -> None:
    """Only it answers about seconds that are due, or about all; the checkpoint moves afterwards."""
    servers.is_bound_lowered = True
    replica = await made.started(30, interval=1.0, settle=60)
    replica.records.clear()
    world = made.place.service.world
    began = world.now

    def behind(bounds: Bounds) -> int:
        is_answering = answers_all or bounds.before is not None
        return 71 if is_answering and 59 <= world.now - began <= 75 else 0

    servers.behind = behind
    show_late(made, 59)
    (updated,) = made.place.touch(3)
    await made.pass_time(150)
    assert ids_of(replica.records) == [updated]
    assert await reached(made.place) >= world.now - 72


async def test_a_service_that_always_applies_an_earlier_bound_holds_no_checkpoint_back(
    made: Cluster, servers: Servers
) -> None:
    """Then each poll after one that has met this lists everything, and moves the checkpoint."""
    servers.is_bound_lowered = True
    servers.behind = lambda bounds: 0 if bounds.before is None else 70
    replica = await made.started(30, interval=1.0, settle=60)
    for number in range(100):
        made.place.touch(number % 20)
        await made.pass_time(1)
    await made.pass_time(5)
    assert len(replica.records) == 100
    assert await reached(made.place) >= made.place.service.world.now - 80


async def test_a_woken_poll_delivers_where_replies_have_lost_their_date(
    made: Cluster, servers: Servers
) -> None:
    """Without it, a page up to the future would not show the present."""
    replica = await made.started(30, interval=30.0, settle=60)
    replica.records.clear()
    updated = [await touch_and_wake(made, replica, number) for number in range(5)]
    servers.have_dates = not servers.have_dates
    updated += [await touch_and_wake(made, replica, number) for number in range(5, 15)]
    assert ids_of(replica.records) == updated


@pytest.mark.parametrize("missing", [{"late", "settle"}, {"late", "settle", "holder", "service"}])
async def test_a_checkpoint_of_an_earlier_version_is_continued(
    made: Cluster, missing: set[str]
) -> None:
    """Without lateness and settle, or like that of 0.2.0; no update is lost or delivered again."""
    leader = await made.started(30, interval=1.0, settle=20)
    show_late(made, 5)
    delivered = made.place.touch(1, 2)
    await made.pass_time(30)
    show_late(made, 0)
    assert ids_of(leader.records) == delivered
    await made.kill(leader)
    state = json.loads(await made.place.text())
    earlier = {name: value for name, value in state.items() if name not in {*missing, "check"}}
    version = await made.version()
    await made.place.store.save("default", write_checked(earlier), version=version)
    updated = made.place.touch(2, 3)
    successor = await made.started(60, interval=1.0, settle=60)
    assert sorted(ids_of(successor.records)) == sorted(updated)
    checkpoint = read_checkpoint(await made.place.text())
    assert (checkpoint.settle, checkpoint.lateness.greatest) == (60, 0)
    assert checkpoint.reached >= state["reached"]
