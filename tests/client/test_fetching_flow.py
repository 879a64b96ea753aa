"""Fetching stops with its consumer: back-pressure, closing, cancelling, dropping."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from income_client import ClientClosedError, Downloads, Fetcher
from income_client.emulator import Fault
from income_client.testing import make_record
from tests.support.service import HeldClock, client_tasks, quiet, served, until

CONCURRENCY = 4


class Source:
    """An asynchronous source that knows whether it was closed."""

    def __init__(self, ids: Any) -> None:
        self.is_closed = False
        self.taken = 0
        self._ids = iter(ids)

    def __aiter__(self) -> "Source":
        return self

    async def __anext__(self) -> str:
        """Give the next id."""
        one = next(self._ids, None)
        if one is None:
            raise StopAsyncIteration
        self.taken += 1
        return str(one)

    async def aclose(self) -> None:
        """Take note."""
        self.is_closed = True


@contextlib.asynccontextmanager
async def held_fetch() -> AsyncIterator[tuple[Any, Any, HeldClock, Source]]:
    """Fetch with every reply held back until somebody waits with all requests out."""
    held = HeldClock()
    async with served(200, clock=held, latency=1) as (service, client):
        source = Source(service.world.ids)
        fetcher = client.fetch_records(source, concurrency=CONCURRENCY)
        await anext(fetcher)
        held.is_held = True
        yield service, fetcher, held, source
        held.release_all()


async def all_of(fetcher: Any) -> list[Any]:
    """Return all that comes."""
    return [record async for record in fetcher]


async def test_no_more_requests_are_in_flight_than_allowed() -> None:
    """The service never sees more than ``concurrency`` at a time, and sees that many."""
    held = HeldClock()
    async with served(60, clock=held, latency=1) as (service, client):
        await client.get_application_page()
        held.is_held = True
        fetching = asyncio.create_task(
            all_of(client.fetch_records(service.world.ids, concurrency=CONCURRENCY))
        )
        for _ in range(10):
            await quiet(service)
            assert service._in_flight == CONCURRENCY
            held.release(last=True)
        held.release_all()
        assert len(await fetching) == 60
    assert service.max_in_flight == CONCURRENCY


async def test_a_slow_first_reply_holds_the_rest_at_the_look_ahead() -> None:
    """While the first record is not there, no more than twice ``concurrency`` are begun."""
    held = HeldClock()
    async with served(100, clock=held, latency=1) as (service, client):
        await client.get_application_page()
        held.is_held = True
        source = Source(service.world.ids)
        fetcher = client.fetch_records(source, documents=False, concurrency=CONCURRENCY)
        first = asyncio.create_task(anext(fetcher))
        for _ in range(40):
            await quiet(service)
            if service._in_flight == 1:
                break
            held.release(last=True)
        assert source.taken == 2 * CONCURRENCY
        assert not first.done()
        held.release_all()
        record = await first
        assert record.application.application_id == service.world.ids[0]
        await fetcher.aclose()


async def test_a_slow_consumer_stops_requests_and_source() -> None:
    """While a record is held, nothing more is asked after what is under way."""
    async with served(100) as (service, client):
        source = Source(service.world.ids)
        number = 0
        async for _ in client.fetch_records(source, concurrency=CONCURRENCY):
            number += 1
            if number % 10:
                continue
            asked = await quiet(service)
            assert source.taken <= number + 1 + 2 * CONCURRENCY
            assert asked <= 2 * (number + 2 * CONCURRENCY) + 1
            assert await quiet(service) == asked
    assert number == 100


async def test_closing_ends_requests_and_source() -> None:
    """After ``aclose`` no task and no request is left, and the source is closed."""
    async with held_fetch() as (service, fetcher, _, source):
        await until(lambda: service._in_flight > 0)
        await fetcher.aclose()
        assert client_tasks() == set()
        await until(lambda: service._in_flight == 0)
        assert source.is_closed
        assert await all_of(fetcher) == []
        await fetcher.aclose()


async def test_the_end_and_a_failure_close_the_source() -> None:
    """Whether it was read to its end or not."""
    async with served(3) as (service, client):
        source = Source(service.world.ids)
        assert len(await all_of(client.fetch_documents(source))) == 3
        assert source.is_closed
    async with served(30) as (service, client):
        service.faults.add(Fault("status", status=403, path="/v1/*", skip=5))
        source = Source(service.world.ids)
        with pytest.raises(Exception, match="403"):
            await all_of(client.fetch_documents(source))
        assert source.is_closed
        assert client_tasks() == set()


async def test_after_a_cancellation_going_on_is_refused() -> None:
    """Going on would leave records out in silence, so it is an error."""
    async with held_fetch() as (_, fetcher, _held, _source):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await all_of(fetcher)
        for _ in range(2):
            with pytest.raises(ClientClosedError):
                await anext(fetcher)
        assert client_tasks() == set()


@pytest.mark.parametrize("kind", ["fetching", "downloading"])
async def test_dropping_it_ends_its_tasks_at_once(kind: str) -> None:
    """It is freed with its last reference, not by the collector: none of its own refers to it."""
    record = make_record(paystubs=9)
    assert record.documents is not None
    _, first = next(record.documents.all())

    async def answer_the_first(wanted: Any) -> Any:
        if wanted not in (first, "app-0"):
            await asyncio.Event().wait()
        return wanted

    if kind == "fetching":
        ids = [f"app-{number}" for number in range(9)]
        asks = (answer_the_first,) * 5
        iterator: Any = Fetcher(ids, calls=asks, assemble=max, concurrency=7, on_error="raise")
    else:
        iterator = Downloads(record, answer_the_first, concurrency=3, on_error="raise")
    gc.disable()
    try:
        await anext(iterator)
        assert client_tasks() != set()
        del iterator
        for _ in range(5):
            await asyncio.sleep(0)
        assert client_tasks() == set()
    finally:
        gc.enable()


async def test_after_a_failure_the_rest_of_that_application_is_not_asked_for() -> None:
    """The documents of an application that is gone are not worth a request."""
    held = HeldClock()
    async with served(2, clock=held, latency=1) as (service, client):
        await client.get_application_page()
        held.is_held = True
        wanted = [service.world.ids[0], "app-nowhere"]
        fetching = asyncio.create_task(
            all_of(client.fetch_records(wanted, concurrency=3, on_error="yield"))
        )
        await quiet(service)
        assert service.requests[-1].status == 404
        held.release(last=True)
        await quiet(service)
        held.release_all()
        assert len(await fetching) == 2
    assert [request.status for request in service.requests[2:]] == [200, 200, 404]
