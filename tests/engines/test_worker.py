"""A worker handles each event, or moves it to the dead letters, whatever its function does."""

import asyncio
import gc
import logging
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress

import pytest

from income_client import DecodeError, IncomeClientError, NotFoundError, PayloadFault
from income_client.engines.relay import UpdateEvent
from income_client.engines.worker import Delivery, Worker
from income_client.engines.worker_rabbit import rabbit_events
from tests.support.event_source import MemorySource, event
from tests.support.loop_time import pass_time

SECRET = "S3CRET"


async def ignore(_: UpdateEvent) -> None:
    """Handle an event."""


async def hang(_: UpdateEvent) -> None:
    await asyncio.Event().wait()


def failing(error: BaseException) -> Callable[[UpdateEvent], Awaitable[None]]:
    async def handle(_: UpdateEvent) -> None:
        raise error

    return handle


async def come(condition: Callable[[], object]) -> None:
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)
    pytest.fail("it does not come")


async def later(seconds: float) -> None:
    """Let everything begin to wait that will, and so many seconds pass."""
    for _ in range(20):
        await asyncio.sleep(0)
    pass_time(seconds)


@asynccontextmanager
async def working(worker: Worker) -> AsyncIterator[asyncio.Task[None]]:
    """Run a worker, and stop it in order at the end."""
    before = asyncio.all_tasks()
    task = asyncio.create_task(worker.run())
    try:
        yield task
        worker.stop()
        await task
    finally:
        task.cancel()
        await asyncio.wait({task})
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize(
    "error", [ValueError(SECRET), KeyError(SECRET), asyncio.CancelledError(SECRET)], ids=repr
)
async def test_an_event_that_fails_comes_again_and_becomes_a_dead_letter(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """After growing pauses, whatever the function has raised; logs do not say more than that."""
    source = MemorySource(event())
    worker = Worker(failing(error), source)
    async with working(worker):
        await come(lambda: source.dead)
    assert source.pauses == [10, 20, 40, 80, 160, 320, 600]
    assert source.dead == [("failed", type(error).__name__)]
    assert source.waiting == 0
    assert source.acknowledged == []
    assert (worker.status.failed, worker.status.dead) == (8, 1)
    assert worker.status.last_error == type(error).__name__
    assert SECRET not in caplog.text
    assert "'app-1'" in caplog.text


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NotFoundError("gone", status=404), "deleted"),
        (DecodeError((PayloadFault("$", "not a record"),)), "unreadable"),
    ],
)
async def test_what_no_retry_can_mend_becomes_a_dead_letter_at_once(
    error: Exception, reason: str
) -> None:
    """An application that is gone, a record that cannot be read."""
    source = MemorySource(event())
    async with working(Worker(failing(error), source)):
        await come(lambda: source.dead)
    assert source.dead == [(reason, type(error).__name__)]
    assert source.pauses == []


async def test_what_is_no_event_becomes_a_dead_letter(caplog: pytest.LogCaptureFixture) -> None:
    source = MemorySource(b"not an event", event())
    async with working(Worker(ignore, source)):
        await come(lambda: source.acknowledged)
    assert (source.dead, source.pauses) == ([("unreadable", "DecodeError")], [])
    assert "an event became a dead letter" in caplog.text


async def test_an_event_that_has_been_handled_is_acknowledged_without_work() -> None:
    """Also one whose acknowledgement was lost, however often it has come by then."""
    source = MemorySource(event(), event())
    source.faults.append(ConnectionError(SECRET))
    worker = Worker(ignore, source)
    async with working(worker):
        await come(lambda: len(source.acknowledged) == 2)
        source.deliver(event().to_json(), 9)
        await come(lambda: len(source.acknowledged) == 3)
    assert (worker.status.handled, worker.status.dead) == (1, 0)


async def test_a_worker_remembers_a_bounded_number_of_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that it has forgotten is handled once more."""
    monkeypatch.setattr("income_client.engines.worker._MOST_IDS", 10)
    source = MemorySource(*(event(f"app-{one}", str(one)) for one in range(11)))
    worker = Worker(ignore, source)
    async with working(worker):
        await come(lambda: worker.status.handled == 11)
        assert worker.status.is_connected
        source.put(event("app-10", "10"), event("app-0", "0"))
        await come(lambda: len(source.acknowledged) == 13)
    status = worker.status
    assert (status.handled, status.failed, status.in_hand) == (12, 0, 0)
    assert (status.is_connected, source.is_closed) == (False, True)


async def test_events_of_one_application_are_handled_one_after_the_other() -> None:
    """Those of others at the same time, up to the worker's concurrency."""
    at_once: list[str] = []
    most: list[list[str]] = []

    async def handle(one: UpdateEvent) -> None:
        at_once.append(one.application_id)
        most.append(sorted(at_once))
        for _ in range(10):
            await asyncio.sleep(0)
        at_once.remove(one.application_id)

    events = [event(f"app-{one % 2}", str(one)) for one in range(8)]
    source = MemorySource(*events)
    async with working(Worker(handle, source, concurrency=4)):
        await come(lambda: len(source.acknowledged) == len(events))
    assert ["app-0", "app-1"] in most
    assert all(len(set(applications)) == len(applications) for applications in most)
    assert max(source.most) == 4


async def test_what_takes_long_is_extended_and_at_last_cancelled() -> None:
    """A function that hangs does not keep its place for ever."""
    source = MemorySource(event())
    worker = Worker(hang, source, attempts=1)
    async with working(worker):
        await come(lambda: worker.status.in_hand)
        for extended in range(1, 4):
            await later(10)
            await later(0)
            assert source.extended == extended
        source.faults.append(ConnectionError(SECRET))  # an extension that fails harms nothing
        await later(10)
        await come(lambda: not source.faults)
        await later(600)
        await come(lambda: source.dead)
    assert source.dead == [("failed", "TimeoutError")]


async def test_a_broker_that_fails_is_asked_again_after_growing_pauses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Meanwhile the status shows it; the log has a line for each failure, and one for the end."""
    caplog.set_level(logging.INFO, "income_client.worker")
    source = MemorySource(event())
    source.refusals.extend([ConnectionError(SECRET)] * 6)
    source.refusals.append(IncomeClientError("the stream is gone", retryable=True))
    worker = Worker(ignore, source)
    async with working(worker):
        for number, pause in enumerate((1, 2, 4, 8, 16, 30, 30), 1):
            await later(0)
            assert not worker.status.is_connected
            assert len(source.refusals) == 7 - number
            await later(pause * 0.9)
            await later(pause * 0.1)
            assert len(source.refusals) == 7 - number, "it was asked again too soon"
        await come(lambda: source.acknowledged)
        assert worker.status.is_connected
    assert worker.status.last_error == "IncomeClientError"
    assert SECRET not in caplog.text
    assert "the stream is gone" in caplog.text
    assert caplog.text.count("no events were received") == 7
    assert "the broker answers again" in caplog.text


@pytest.mark.parametrize("fault", ["acknowledge", "bury"])
async def test_what_the_broker_does_not_learn_comes_again(
    fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is lost while dead letters cannot be stored; errors of the client are not shown."""
    source = MemorySource(event())
    source.faults.append(ConnectionError(SECRET))
    handle = ignore if fault == "acknowledge" else failing(NotFoundError("gone", status=404))
    async with working(Worker(handle, source)):
        await come(lambda: source.acknowledged or source.dead)
    assert source.pauses == [10]
    assert SECRET not in caplog.text
    assert "(ConnectionError); it comes again" in caplog.text


async def test_a_worker_that_is_stopped_finishes_what_it_has() -> None:
    """And gives back what takes too long, so that another worker has it at once."""
    source = MemorySource(*(event(f"app-{one}", str(one)) for one in range(3)))
    slow, cancelled = asyncio.Event(), asyncio.Event()

    async def handle(one: UpdateEvent) -> None:
        try:
            await (slow if one.id == "0" else asyncio.Event()).wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    worker = Worker(handle, source, concurrency=2)
    async with working(worker) as task:
        await come(lambda: worker.status.in_hand == 2)
        worker.stop()
        await come(lambda: source.is_closed or task.done() or worker.status.in_hand == 2)
        slow.set()
        await come(lambda: source.acknowledged)
        assert not cancelled.is_set()
        await later(20)
        await task
    assert cancelled.is_set()
    assert source.pauses == [0]
    assert source.waiting == 2  # the one that it gave back, and the one that it had not taken


async def test_a_worker_that_is_cancelled_gives_back_what_it_has() -> None:
    """Nothing of it is left."""
    source = MemorySource(event())
    worker = Worker(hang, source)
    before = asyncio.all_tasks()
    task = asyncio.create_task(worker.run())
    await come(lambda: worker.status.in_hand)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == before
    assert source.pauses == [0]
    assert source.is_closed


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_a_worker_that_waits_for_it(number: signal.Signals) -> None:
    """What was there before is there again."""
    before = signal.getsignal(number)
    source = MemorySource(event())
    worker = Worker(ignore, source)
    task = asyncio.create_task(worker.run(until_signal=True))
    await come(lambda: source.acknowledged)
    assert signal.getsignal(number) is not before
    os.kill(os.getpid(), number)
    async with asyncio.timeout(30):
        await task
    assert signal.getsignal(number) is before


async def test_a_source_that_swallows_a_cancellation_does_not_keep_a_worker_from_stopping() -> None:
    """As clients of brokers do now and then."""

    class Swallowing(MemorySource):
        async def receive(self, most: int) -> Sequence[Delivery]:
            """Wait; the first time, return when it is cancelled."""
            self.most.append(most)
            with suppress(*([asyncio.CancelledError] if len(self.most) == 1 else [])):
                await asyncio.Event().wait()
            return ()

    source = Swallowing()
    worker = Worker(ignore, source)
    running = asyncio.create_task(worker.run())
    await come(lambda: source.most)
    worker.stop()
    await come(running.done)
    assert source.is_closed
    assert len(source.most) == 1


def test_a_connection_that_failed_needs_no_event_loop_at_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An error of RabbitMQ may be kept, by a log for instance, until no loop runs any more."""
    caplog.set_level(logging.CRITICAL, "aiormq.connection")  # which would keep it for longer
    kept: list[BaseException] = []

    async def fail() -> None:
        source = rabbit_events("amqp://127.0.0.1:1/")
        for _ in range(2):
            with pytest.raises(ConnectionError) as caught:
                await source.receive(1)
            kept.append(caught.value)
        await source.aclose()

    with asyncio.Runner() as runner:
        runner.run(fail())
        asyncio.set_event_loop(None)
        kept.clear()
        gc.collect()
