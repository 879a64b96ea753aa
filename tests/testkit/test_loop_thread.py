"""The thread of the service: made when it is entered, and never waiting for itself."""

import asyncio
import gc
import warnings

import pytest

from income_client import ConfigurationError
from income_client.testing import IncomeService
from income_client.testing.runner import LoopThread


def test_a_service_that_is_never_entered_leaves_nothing_open() -> None:
    """Nor does one that is refused."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        IncomeService(applications=1)
        with pytest.raises(ConfigurationError):
            IncomeService(applications=1, faults="nonsense")
        gc.collect()
    assert [str(each.message) for each in told if "event loop" in str(each.message)] == []


def test_a_call_from_within_is_refused() -> None:
    """It would wait for itself; the message says where to call from."""
    with LoopThread() as thread:

        def within() -> None:
            thread.call(lambda: None)

        with pytest.raises(ConfigurationError, match="call it from another one"):
            thread.call(within)


async def test_from_within_one_can_be_awaited() -> None:
    """A coroutine of the thread's own goes on while another one ends."""

    async def within() -> int:
        return await thread.wait_for(asyncio.sleep(0, 7))

    with LoopThread() as thread:
        assert await thread.wait_for(within()) == 7


def test_it_can_be_entered_again() -> None:
    """With another loop; between and before, it does not turn."""
    thread = LoopThread()
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="does not run; enter it first"):
            thread.call(lambda: 1)
        with thread:
            assert thread.call(lambda: 1) == 1
