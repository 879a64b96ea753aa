"""Many applications at once, in input order and bounded; every iterator ends with its consumer."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from income_client import (
    ClientClosedError,
    ConfigurationError,
    DecodeError,
    FetchFailure,
    IncomeClient,
    InvalidArgumentError,
    MemoryCheckpointStore,
    NotFoundError,
)
from income_client.emulator import Emulator, Fault
from income_client.events import Event, RecordDelivered
from income_client.system.concurrency import BoundedTasks
from income_client.testing import JumpingClock
from income_client.walk import ApplicationPaginator, Fetcher
from income_client.wire.times import wire_time
from tests.support.clocks import ManualClock
from tests.support.downloads import documents_of
from tests.support.service import (
    NOW,
    client_tasks,
    collect,
    quiet,
    served,
    streamed,
    until,
)

# Shape and order


class Requests:
    """Stands for requests that take as many turns of the loop as chance says.

    Attributes:
        begun: ids asked for, in order.
        most: requests that were under way at a time, at the most.
    """

    def __init__(self, chance: Random) -> None:
        self.begun: list[str] = []
        self.most = 0
        self._under_way = 0
        self._chance = chance

    async def ask(self, application_id: str) -> str:
        """Answer with the id itself, some time later."""
        self.begun.append(application_id)
        self._under_way += 1
        self.most = max(self.most, self._under_way)
        try:
            for _ in range(self._chance.randrange(20)):
                await asyncio.sleep(0)
        finally:
            self._under_way -= 1
        return application_id

    def fetch(self, applications: Any, *, concurrency: int, parts: int = 1) -> Fetcher[list[str]]:
        """Fetch so many parts of each application."""
        return Fetcher(
            applications,
            calls=(self.ask,) * parts,
            assemble=lambda *answers: list(answers),
            concurrency=concurrency,
            on_error="raise",
        )


@given(
    size=st.integers(0, 40),
    concurrency=st.integers(1, 9),
    parts=st.integers(1, 3),
    seed=st.integers(0, 999),
    is_asynchronous=st.booleans(),
)
def test_order_and_bound_hold_for_any_shape(
    size: int, concurrency: int, parts: int, seed: int, is_asynchronous: bool
) -> None:
    """Results come in input order and never more than ``concurrency`` requests are under way."""

    async def fetch() -> None:
        requests = Requests(Random(seed))
        ids = [str(number % 17) for number in range(size)]
        source: Any = streamed(ids) if is_asynchronous else iter(ids)
        fetcher = requests.fetch(source, concurrency=concurrency, parts=parts)
        found = []
        async for answers in fetcher:
            found.append(answers)
            # Work goes on behind a slow consumer, up to the look-ahead.
            assert len(requests.begun) <= (len(found) + 2 * concurrency) * parts
        assert found == [[one] * parts for one in ids]
        assert requests.most <= concurrency
        assert client_tasks() == set()

    asyncio.run(fetch())


# What is fetched


NOWHERE = "app-nowhere"


def ids_of_records(records: list[Any]) -> list[str]:
    """Return the ids of records."""
    return [record.application.application_id for record in records]


async def test_any_source_of_applications_will_do() -> None:
    """Ids, summaries, records and walks, plain and asynchronous, are fetched in their order."""
    async with served(12) as (_, client):

        def walk() -> ApplicationPaginator:
            return client.list_applications(updated_before=wire_time(NOW), concurrency=1)

        rows = [row async for row in walk()]
        ids = [row.application_id for row in rows]
        records = [record async for record in client.fetch_records(ids)]
        applications = [record.application for record in records]
        sources: tuple[Any, ...] = (ids, iter(ids), streamed(ids), rows, walk(), applications)
        for source in sources:
            found = [record async for record in client.fetch_records(source, concurrency=5)]
            assert ids_of_records(found) == ids
            assert [one.documents and one.documents.application_id for one in found] == ids


async def test_documents_are_read_only_where_wanted() -> None:
    """Without documents one request is made for each application; pages are asked for by name."""
    async with served(5) as (service, client):
        ids = service.world.ids
        records = [record async for record in client.fetch_records(ids, documents=False)]
        assert [record.documents for record in records] == [None] * 5
        assert not any(request.name == "get_documents" for request in service.requests)
        async for record in client.fetch_records(ids, pages=True):
            assert record.documents is not None
            assert all(entry.document.pages for entry in record.documents.all())
        documents = [reply async for reply in client.fetch_documents(ids)]
    assert [reply.application_id for reply in documents] == list(ids)
    queries = [request.query for request in service.requests if request.name == "get_documents"]
    assert queries == ["pages=true"] * 5 + [""] * 5


async def test_failures_are_raised_in_their_turn() -> None:
    """Results before the failure are yielded, the failure is raised, and the iteration ends."""
    async with served(6) as (service, client):
        one, two, three = service.world.ids[:3]
        fetcher = client.fetch_records([one, two, NOWHERE, three])
        found = [await anext(fetcher), await anext(fetcher)]
        with pytest.raises(NotFoundError) as caught:
            await anext(fetcher)
        assert ids_of_records(found) == [one, two]
        assert caught.value.request_id is not None
        assert [record async for record in fetcher] == []
        assert client_tasks() == set()


async def test_failures_are_yielded_in_place_of_their_records() -> None:
    """With "yield" a deleted, an undecodable and an impossible application stand in their turn."""
    async with served(6) as (service, client):
        ids = service.world.ids
        service.faults.add(Fault("body", body=b'{"application_id": 7}', path=f"*/{ids[1]}"))
        wanted = [ids[0], ids[1], NOWHERE, "", ids[2]]
        found = [record async for record in client.fetch_records(wanted, on_error="yield")]
    kinds = [
        type(one.error) if isinstance(one, FetchFailure) else one.application.application_id
        for one in found
    ]
    assert kinds == [ids[0], DecodeError, NotFoundError, InvalidArgumentError, ids[2]]
    failures = [one.application_id for one in found if isinstance(one, FetchFailure)]
    assert failures == [ids[1], NOWHERE, ""]


@pytest.mark.parametrize("on_error", ["raise", "yield"])
async def test_an_error_of_the_source_comes_after_what_came_before(on_error: Any) -> None:
    """A source that breaks is no application: its error is raised, as for one of another type."""

    async def breaking(ids: Any) -> AsyncIterator[str]:
        for one in ids:
            yield one
        raise LookupError("the source's own")

    def breaking_now(ids: Any) -> Iterator[str]:
        yield from ids
        raise LookupError("the source's own")

    async with served(6) as (service, client):
        ids = list(service.world.ids)
        for source in (breaking(ids), breaking_now(ids)):
            found: list[Any] = []
            with pytest.raises(LookupError):
                await collect(client.fetch_records(source, on_error=on_error), found)
            assert ids_of_records(found) == ids
        wrong: Any = [ids[0], 7]
        fetcher = client.fetch_records(wrong)
        await anext(fetcher)
        with pytest.raises(ConfigurationError):
            await anext(fetcher)
        assert client_tasks() == set()


# How many requests are in flight


@pytest.mark.parametrize(
    ("way", "options", "most"),
    [
        ("fetch_records", {}, 20),
        ("fetch_records", {"concurrency": 99}, 20),
        ("fetch_documents", {"concurrency": None}, 20),
        ("fetch_documents", {"concurrency": 5}, 5),
    ],
)
async def test_as_many_are_in_flight_as_the_client_allows(
    way: str, options: dict[str, Any], most: int
) -> None:
    """Unless another number is given, and never more than the client's own."""
    clock = JumpingClock()
    async with Emulator(40, latency=0.001, clock=clock, time_flows=True) as service:
        async with IncomeClient(
            service.url, auth=service.basic, concurrency=20, clock=clock
        ) as client:
            fetch: Any = getattr(client, way)
            assert len(await all_of(fetch(service.world.ids, **options))) == 40
        assert most - 1 <= service.max_in_flight <= most


@pytest.mark.parametrize("way", ["fetch_records", "fetch_documents"])
async def test_what_is_handed_out_is_counted_once(way: str) -> None:
    """The event comes before its consumer has it; a failure that is yielded is none."""
    events: list[Event] = []
    async with served(4, on_event=events.append) as (service, client):
        ids = list(service.world.ids)
        service.faults.add(Fault("status", status=404, times=None, path=f"*/{ids[1]}*"))
        fetch: Any = getattr(client, way)
        told = [
            [event.application_id for event in events if isinstance(event, RecordDelivered)]
            async for _ in fetch(ids, on_error="yield")
        ]
        assert told == [ids[:1], ids[:1], [ids[0], ids[2]], [ids[0], ids[2], ids[3]]]


# Back-pressure, closing, cancelling, dropping


CONCURRENCY = 4


class Source:
    """An asynchronous source that knows what was taken of it, and whether it was closed."""

    def __init__(self, ids: Any) -> None:
        self.is_closed = False
        self.taken = 0
        self._ids = ids

    async def __aiter__(self) -> AsyncIterator[str]:
        try:
            for one in self._ids:
                self.taken += 1
                yield one
        finally:
            self.is_closed = True


@contextlib.asynccontextmanager
async def held_fetch() -> AsyncIterator[tuple[Any, Any, ManualClock, Source]]:
    """Fetch with every reply held back until somebody waits with all requests out."""
    held = ManualClock(is_held=False)
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


async def test_a_slow_first_reply_holds_the_rest_at_the_look_ahead() -> None:
    """While the first record is not there, no more than twice ``concurrency`` are begun."""
    held = ManualClock(is_held=False)
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


async def test_after_a_failure_the_rest_of_that_application_is_not_asked_for() -> None:
    """The documents of an application that is gone are not worth a request."""
    held = ManualClock(is_held=False)
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


# What every iterator of a client keeps: it ends with its loop, and leaves nothing behind


START: Final = "2000-01-01T00:00:00"
AFTER: Final = "2026-06-29T00:00:00"


@frozen
class Begun:
    """An iterator whose first item was taken, and which waits for the service now."""

    iterator: Any
    client: IncomeClient
    waiting: "asyncio.Task[Any]"
    """Asks for all that is left."""


def walk(client: IncomeClient) -> Any:
    """Walk in small pages."""
    return client.list_applications(updated_before=AFTER, limit=10)


def poll(client: IncomeClient) -> Any:
    """Poll from long ago."""
    return client.poll(MemoryCheckpointStore(), start=START, documents=False)


Make = Callable[[IncomeClient, Emulator], Any]
ITERATORS: Final[Mapping[str, Make]] = {
    "walk": lambda client, _: walk(client),
    "records": lambda client, _: client.fetch_records(walk(client)),
    "documents": lambda client, service: client.fetch_documents(service.world.ids),
    "poll": lambda client, _: poll(client),
}
GENERATORS: Final[Mapping[str, Make]] = {
    "pages": lambda client, _: walk(client).pages(),
    "batches": lambda client, _: poll(client).batches(),
}
"""Asynchronous generators, which Python itself keeps from being closed while they run."""

every = pytest.mark.parametrize("name", [*ITERATORS, *GENERATORS, "downloads"])
closable = pytest.mark.parametrize("name", [*ITERATORS, "downloads"])


async def made(name: str, client: IncomeClient, service: Emulator, folder: Path) -> Any:
    """Make an iterator, for which only downloads ask anything."""
    if name == "downloads":
        documents = await documents_of(client, service.world.ids[:6])
        service.faults.add(Fault("stall", times=None, skip=1))
        return client.download_all(documents, folder)
    return {**ITERATORS, **GENERATORS}[name](client, service)


@contextlib.asynccontextmanager
async def begun(name: str, folder: Path) -> AsyncIterator[Begun]:
    """Take a first item, and wait for others that the service does not give."""
    async with served(30, pattern="uniform") as (service, client):
        iterator = await made(name, client, service, folder)
        first = await anext(iterator)
        if name == "batches":
            await first.commit()
        service.faults.add(Fault("stall", times=None))

        async def rest() -> None:
            async for _ in iterator:
                pass

        waiting = asyncio.create_task(rest())
        await quiet(service)
        assert not waiting.done()
        yield Begun(iterator, client, waiting)
        await until(lambda: service._in_flight == 0)
        asked = len(service.requests)
        assert await quiet(service) == asked


async def ended(task: "asyncio.Task[Any]") -> BaseException | None:
    """Wait for a task, and return how it failed."""
    await asyncio.wait([task])
    return asyncio.CancelledError() if task.cancelled() else task.exception()


def tasks() -> set[str]:
    """Return the names of the client's tasks."""
    return {task.get_name() for task in client_tasks()}


@closable
async def test_closing_ends_what_is_under_way(name: str, tmp_path: Path) -> None:
    """A second consumer is refused; the first gets an error, or of a poller the end."""
    async with begun(name, tmp_path) as scene:
        with pytest.raises(ConfigurationError):
            await anext(scene.iterator)
        assert not scene.waiting.done()
        await scene.iterator.aclose()
        error = await ended(scene.waiting)
        assert error is None if name == "poll" else isinstance(error, ClientClosedError)
        assert tasks() == set()
        await scene.iterator.aclose()


@every
async def test_cancelling_it_often_ends_what_is_under_way(name: str, tmp_path: Path) -> None:
    async with begun(name, tmp_path) as scene:
        for _ in range(3):
            scene.waiting.cancel()
            await asyncio.sleep(0)
        assert isinstance(await ended(scene.waiting), asyncio.CancelledError)
        await until(lambda: tasks() == set())


@every
async def test_leaving_the_loop_ends_what_is_under_way(name: str, tmp_path: Path) -> None:
    """With its last reference, not by the collector, and without a complaint."""
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))
    gc.freeze()  # nothing that is older need be gone through
    gc.disable()
    try:
        async with served(30, pattern="uniform") as (service, client):
            iterator = await made(name, client, service, tmp_path)
            async for _ in iterator:
                service.faults.add(Fault("stall", times=None))
                break
            del iterator, _
            await until(lambda: tasks() == set())
            await until(lambda: service._in_flight == 0)
            gc.collect()
    finally:
        gc.enable()
    assert complaints == []


@every
async def test_an_iterator_that_was_never_begun_asks_nothing(name: str, tmp_path: Path) -> None:
    async with served(60) as (service, client):
        asked = len(service.requests)
        iterator = await made(name, client, service, tmp_path)
        asked = len(service.requests) if name == "downloads" else asked
        await iterator.aclose()
        assert await quiet(service) == asked


@every
async def test_a_closed_client_ends_it(name: str, tmp_path: Path) -> None:
    """By an error, where it would ask for more."""
    async with begun(name, tmp_path) as scene:
        await scene.client.aclose()
        assert isinstance(await ended(scene.waiting), ClientClosedError)
        await until(lambda: tasks() == set())


async def test_closing_ends_the_wait_of_a_consumer_whose_result_has_just_come() -> None:
    """The result is forgotten before the consumer sees it, so that nothing else would wake it."""
    tasks: BoundedTasks[int] = BoundedTasks()
    come = asyncio.get_running_loop().create_future()
    tasks.start(1, asyncio.wait_for(come, None))
    waiting = asyncio.create_task(tasks.next())
    await asyncio.sleep(0)
    come.set_result(None)
    while tasks.under_way:  # noqa: ASYNC110 - the very turn counts
        await asyncio.sleep(0)
    assert not waiting.done()
    await tasks.cancel()
    with pytest.raises(ClientClosedError):
        await waiting


# One record


@pytest.mark.parametrize("documents", [True, False])
async def test_a_record_is_read_as_fetch_records_reads_it(documents: bool) -> None:
    """An id, a summary, an application, its documents or a record name the application."""
    async with served(3) as (service, client):
        (expected,) = await all_of(client.fetch_records(service.world.ids[:1], documents))
        pages = [page async for page in client.list_applications().pages()]
        (summary,) = [
            row for page in pages for row in page.applications
            if row.application_id == expected.application_id
        ]  # fmt: skip
        keys = [summary.application_id, summary, expected, expected.application]
        keys += [expected.documents] if documents else []
        for key in keys:
            assert await client.get_record(key, documents) == expected
            assert await client.get_application(key) == expected.application
            assert (await client.get_documents(key)).application_id == expected.application_id
        assert await all_of(client.fetch_records(keys, documents)) == [expected] * len(keys)


@contextlib.asynccontextmanager
async def held_record() -> AsyncIterator[tuple["asyncio.Task[Any]", ManualClock]]:
    """Read a record, with both requests in flight and no reply."""
    held = ManualClock(is_held=False)
    async with served(1, clock=held, latency=1) as (service, client):
        await client.check()
        held.is_held = True
        reading = asyncio.ensure_future(client.get_record(service.world.ids[0]))
        await until(lambda: service._in_flight == 2)
        yield reading, held
        held.release_all()


async def test_both_halves_of_a_record_are_in_flight_at_once() -> None:
    async with held_record() as (reading, held):
        held.release_all()
        assert (await reading).documents is not None


@pytest.mark.parametrize("failing", ["get_application", "get_documents"])
async def test_the_error_of_one_half_of_a_record_cancels_the_other(failing: str) -> None:
    """A handler of the package's errors sees the error itself, at once, and no group."""
    other = {"get_application": "get_documents", "get_documents": "get_application"}[failing]
    async with served(1) as (service, client):
        service.faults.add(f"{failing}: 404", Fault("stall", call=other, times=None))
        with pytest.raises(NotFoundError) as caught:
            await client.get_record(service.world.ids[0])
        assert caught.value.call == failing
        assert client_tasks() == set()


async def test_a_cancelled_record_leaves_no_request_in_flight() -> None:
    async with held_record() as (reading, _):
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert client_tasks() == set()
