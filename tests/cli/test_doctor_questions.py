"""Questions are counted, and there is an end to them."""

from collections.abc import AsyncIterator

import pytest

from income_client import IncomeClient
from income_client.cli.checking.facts import Trouble
from income_client.cli.checking.questions import MOST_CALLS, ONCE, Page, Questions
from income_client.emulator import Emulator
from income_client.emulator.faults import Fault


@pytest.fixture
async def service() -> AsyncIterator[Emulator]:
    """The emulator, in the test's own process."""
    async with Emulator(5) as emulator:
        yield emulator


@pytest.fixture
async def client(service: Emulator) -> AsyncIterator[IncomeClient]:
    """A client that repeats nothing."""
    async with IncomeClient(service.url, auth=service.basic, retry=ONCE) as opened:
        yield opened


def fault(status: int) -> Fault:
    """Return a fault of every call."""
    return Fault("status", path="/v1/*", times=None, status=status)


async def test_there_is_a_most(service: Emulator, client: IncomeClient) -> None:
    """After so many calls every answer is that there is none, and nothing is sent."""
    told: list[int] = []
    questions = Questions(client, told.append)
    answers = [await questions.page(limit=1) for _ in range(MOST_CALLS + 3)]
    assert [isinstance(each, Page) for each in answers] == [True] * MOST_CALLS + [False] * 3
    assert len(service.requests) == MOST_CALLS
    assert told == list(range(1, MOST_CALLS + 1))


async def test_there_is_a_time(service: Emulator, client: IncomeClient) -> None:
    """Once the time is over nothing more is sent."""
    questions = Questions(client, lambda _: None, seconds=0.0)
    assert isinstance(await questions.page(), Trouble)
    assert questions.left == 0
    assert service.requests == []


@pytest.mark.parametrize(("status", "sent"), [(500, 3), (429, 1), (400, 6), (404, 6)])
async def test_a_service_that_is_not_well_is_left_alone(
    service: Emulator, client: IncomeClient, status: int, sent: int
) -> None:
    """After three failures, or one wish for a pause; what is only refused is no failure."""
    service.faults.add(fault(status))
    questions = Questions(client, lambda _: None)
    answers = [await questions.page(limit=1) for _ in range(6)]
    assert all(isinstance(each, Trouble) for each in answers)
    assert len(service.requests) == sent


@pytest.mark.parametrize("second", [10**12, -(10**12)])
async def test_a_time_that_nobody_can_write_is_an_answer(
    service: Emulator, client: IncomeClient, second: int
) -> None:
    """A service whose clock is beyond all times does no harm."""
    questions = Questions(client, lambda _: None)
    assert isinstance(await questions.page(second, second + 1, 1), Trouble)
    assert service.requests == []


async def test_ids_stay_out_of_what_went_wrong(client: IncomeClient) -> None:
    """An error about an application does not say which."""
    questions = Questions(client, lambda _: None)
    trouble = await questions.updated_at("app-unknown-to-all")
    assert isinstance(trouble, Trouble)
    assert "unknown" not in trouble.text
    assert "404" in trouble.text
