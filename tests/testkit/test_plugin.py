"""The pytest plug-in: its fixtures and their options, and the clocks that they have."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

import income_client
from income_client import ClientClosedError, IncomeClient, RetryPolicy, ServerError
from income_client.emulator import Order
from income_client.testing import IncomeService, JumpingClock
from income_client.testing.clocks import LoopBoundClock
from income_client.testing.loops import LoopThread


class TestOptions:
    """The fixture's options come first, then those of markers, the closest last."""

    pytestmark = pytest.mark.income_service(applications=5, order="shuffled")

    @pytest.fixture
    def income_service_options(self) -> Mapping[str, Any]:
        """What the whole class begins with."""
        return {"applications": 9, "seed": 3}

    @pytest.mark.income_service(applications=2)
    def test_the_closest_marker_counts(self, income_service: IncomeService) -> None:
        """The order is the class's, the seed the fixture's."""
        assert len(income_service.ids) == 2
        assert income_service.rules.order is Order.SHUFFLED
        assert "secret-3" in income_service.oauth2.client_secret.reveal()


@pytest.mark.income_client(retry=RetryPolicy(max_attempts=1))
@pytest.mark.income_service(faults="get_application: 503")
async def test_the_client_has_options_too(
    income_service: IncomeService,
    income_api: income_client.IncomeClient,
    income_clock: JumpingClock,
    request: pytest.FixtureRequest,
) -> None:
    """And two names, of which one leaves the package's own name alone in a module."""
    assert request.getfixturevalue("income_client") is income_api
    with pytest.raises(ServerError, match="503"):
        await income_api.get_application(income_service.ids[0])
    assert income_service.requests.count("get_application") == 1
    assert income_clock.slept == []


# Clocks


class User:
    """Something that belongs to an event loop."""

    def __init__(self) -> None:
        self.closed_in: list[asyncio.AbstractEventLoop] = []

    async def aclose(self) -> None:
        """Remember where."""
        await asyncio.sleep(0)
        self.closed_in.append(asyncio.get_running_loop())


async def test_a_clock_can_have_its_most_pauses() -> None:
    clock = JumpingClock()
    clock.most_sleeps = 3
    for _ in range(3):
        await clock.sleep(1)
    with pytest.raises(AssertionError, match="3 pauses"):
        await clock.sleep(1)
    clock.most_sleeps = None
    await clock.sleep(1)
    assert clock.slept == [1] * 4


def test_a_loop_that_lasts_can_be_ended_by_hand() -> None:
    user = User()
    clock = LoopBoundClock(JumpingClock(), user.aclose)
    clock.monotonic()  # binds nobody, as no loop runs
    clock.close()

    async def read() -> None:
        clock.monotonic()

    with asyncio.Runner() as runner:
        runner.run(read())
        clock.close()
        assert user.closed_in == [runner.get_loop()]
    clock.close()
    assert len(user.closed_in) == 1


def test_a_loop_in_another_thread_is_waited_for() -> None:
    """The user is closed when `close` has returned, or what went wrong is raised."""
    user = User()

    async def fail() -> None:
        await user.aclose()
        raise OSError("the connection is away")

    with LoopThread() as thread:
        clock, failing = (LoopBoundClock(JumpingClock(), end) for end in (user.aclose, fail))
        thread.call(clock.monotonic)
        clock.close()
        assert len(user.closed_in) == 1
        thread.call(failing.monotonic)
        with pytest.raises(OSError, match="is away"):
            failing.close()
    assert len(user.closed_in) == 2


async def test_within_its_own_loop_the_user_is_closed_soon() -> None:
    """Waiting there would never end."""
    ended = asyncio.Event()

    async def aclose() -> None:
        ended.set()

    clock = LoopBoundClock(JumpingClock(), aclose)
    clock.monotonic()
    clock.close()
    assert not ended.is_set()
    await ended.wait()


def test_a_client_is_closed_with_its_loop(
    income_service: IncomeService, income_client: IncomeClient
) -> None:

    async def read() -> None:
        await income_client.get_application(income_service.ids[0])

    asyncio.run(read())
    with pytest.raises(ClientClosedError):
        asyncio.run(read())
