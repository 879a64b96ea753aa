"""Many callbacks, and equal ones: a bounded queue, shared runs, repeats that are told."""

import asyncio
from typing import Literal

import pytest

from income_client import Callback
from income_client.protocol.callbacks.exchange import Answer
from income_client.receivers import CallbackReceiver
from tests.support.callback_requests import BASIC, EVENT, HandClock, Heard, ring, until_waiting


def retry_after(answer: Answer) -> str | None:
    """Return how long the service is asked to wait."""
    return dict(answer.headers).get("Retry-After")


async def test_a_full_queue_is_answered_with_503() -> None:
    """At once, and without harm to those who wait."""
    let = asyncio.Event()
    heard = Heard()

    async def handle(callback: Callback) -> None:
        heard(callback)
        await let.wait()

    receiver = CallbackReceiver(handle, auth=BASIC, concurrency=2, queue=3)
    tasks = [asyncio.create_task(ring(receiver, {"event_type": str(n)})) for n in range(5)]
    await until_waiting(receiver, 5)
    full = await ring(receiver, {"event_type": "5"})
    assert (full.status, retry_after(full)) == (503, "5")
    assert len(heard.callbacks) == 2
    let.set()
    assert [answer.status for answer in await asyncio.gather(*tasks)] == [200] * 5
    assert len(heard.callbacks) == 5
    assert receiver.status.refused == {"queue_full": 1}


async def test_repeats_are_told_and_run_all_the_same() -> None:
    """What looks the same may be another event; after a failure, it is no repeat."""
    clock, heard = HandClock(), Heard()
    receiver = CallbackReceiver(heard, auth=BASIC, clock=clock)
    for _ in range(2):
        assert (await ring(receiver)).status == 200
    await ring(receiver, {**EVENT, "event_type": "extractions"})
    clock.seconds += 600
    await ring(receiver)
    assert [callback.is_repeat for callback in heard.callbacks] == [False, True, False, False]
    assert (receiver.status.handled, receiver.status.repeats) == (4, 1)


async def test_repeats_are_skipped_if_one_says_so() -> None:
    """Only once they were handled."""
    heard, fails = Heard(), [True, False, False]

    def handle(callback: Callback) -> None:
        heard(callback)
        if fails.pop(0):
            raise ValueError

    receiver = CallbackReceiver(handle, auth=BASIC, on_repeat="skip")
    assert [(await ring(receiver)).status for _ in range(4)] == [503, 200, 200, 200]
    assert len(heard.callbacks) == 2
    assert (receiver.status.handled, receiver.status.repeats) == (3, 2)


@pytest.mark.parametrize(("on_repeat", "repeats"), [("run", [False, True]), ("skip", [False])])
async def test_a_repeat_that_comes_meanwhile_is_known_once_the_first_is_done(
    on_repeat: Literal["run", "skip"], repeats: list[bool]
) -> None:
    """As when the service has waited for too short a time, and sends again."""
    let, heard = asyncio.Event(), Heard()

    async def handle(callback: Callback) -> None:
        heard(callback)
        await let.wait()

    receiver = CallbackReceiver(handle, auth=BASIC, on_repeat=on_repeat)
    tasks = [asyncio.create_task(ring(receiver)) for _ in range(2)]
    await until_waiting(receiver, 2)
    let.set()
    assert [answer.status for answer in await asyncio.gather(*tasks)] == [200, 200]
    assert [callback.is_repeat for callback in heard.callbacks] == repeats
    assert receiver.status.repeats == 1


async def test_equal_callbacks_at_once_share_a_run() -> None:
    """One that began before they came is not shared."""
    let, heard = asyncio.Event(), Heard()

    async def handle(callback: Callback) -> None:
        heard(callback)
        await let.wait()

    receiver = CallbackReceiver(handle, auth=BASIC)
    tasks = [asyncio.create_task(ring(receiver)) for _ in range(20)]
    await until_waiting(receiver, 20)
    let.set()
    assert {answer.status for answer in await asyncio.gather(*tasks)} == {200}
    assert len(heard.callbacks) == 2
