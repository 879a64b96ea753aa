"""What every iterator of a client keeps: it ends with its loop, and leaves nothing behind."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import frozen

from income_client import ClientClosedError, ConfigurationError, IncomeClient, MemoryCheckpointStore
from income_client.concurrency import BoundedTasks
from income_client.emulator import Emulator, Fault
from tests.support.downloads import documents_of
from tests.support.service import client_tasks, quiet, served, until

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
