"""Filters of the list: each is an argument, and a walk or a poll keeps its own to the end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC
from inspect import signature
from typing import Any

import attrs
import pytest

from income_client import CheckpointError, IncomeClient, MemoryCheckpointStore
from income_client.emulator import Emulator
from income_client.emulator.api import LIST_PARAMETERS
from income_client.http.endpoints import EVERY_APPLICATION, ListFilter
from income_client.http.session import SessionManager
from income_client.polling.checkpoint import Checkpoint, read_checkpoint
from income_client.polling.poller import Poller
from income_client.polling.reading import PollSource
from income_client.system.clock import SystemClock
from income_client.walk import ApplicationPaginator
from tests.support.clients import session_to
from tests.support.service import list_queries, served

REFERENCE = "LOAN-00000001"
ONE = ListFilter(application_reference_id=REFERENCE)
ANOTHER = ListFilter(application_reference_id="LOAN-00000002")


async def list_by(client: IncomeClient, method: str, **filters: Any) -> None:
    """Make the list calls of a method."""
    match method:
        case "list_applications":
            _ = [row async for row in client.list_applications(**filters)]
        case "poll":
            _ = [one async for one in client.poll(MemoryCheckpointStore(), once=True, **filters)]
        case _:
            await client.get_application_page(**filters)


@pytest.mark.parametrize("name", [field.name for field in attrs.fields(ListFilter)])
async def test_each_filter_is_an_argument_of_the_methods_that_list(name: str) -> None:
    """A reference is of one application, which `find_application` finds without a walk."""
    assert name in LIST_PARAMETERS, f"the emulator knows no {name}: see emulator/api.py"
    methods = ["get_application_page", "list_applications", "poll"]
    async with served(3) as (service, client):
        for method in methods[:1] if name == "application_reference_id" else methods:
            arguments = signature(getattr(IncomeClient, method)).parameters
            assert name in arguments, f"{method} does not take {name}: see client.py"
            before = len(list_queries(service))
            await list_by(client, method, **{name: REFERENCE})
            queries = list_queries(service)[before:]
            assert queries
            assert all(query.get(name) == REFERENCE for query in queries), f"{method} in client.py"


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[Emulator, SessionManager]]:
    """Run a service of three applications, and a session to it."""
    async with Emulator(3) as service:
        session = session_to(service.url, auth=service.basic)
        try:
            yield service, session
        finally:
            await session.aclose()


def walk(
    session: SessionManager, list_filter: ListFilter, resume: str | None = None
) -> ApplicationPaginator:
    """Begin or resume a walk over all of time."""
    return ApplicationPaginator(
        session,
        None,
        None,
        resume,
        limit=2,
        concurrency=1,
        on_saturated="raise",
        clock=SystemClock(),
        zone=UTC,
        list_filter=list_filter,
    )


async def test_a_walk_is_resumed_with_its_own_filter_only() -> None:
    """With another one it would pass over what the first did not list; no value is stored."""
    async with serving() as (service, session):
        paginator = walk(session, ONE)
        assert [row.application_reference_id async for row in paginator] == [REFERENCE]
        checkpoint = paginator.checkpoint
        assert REFERENCE not in checkpoint
        for other in (EVERY_APPLICATION, ANOTHER):
            with pytest.raises(CheckpointError, match="another filter"):
                walk(session, other, checkpoint)
        with pytest.raises(CheckpointError, match="another filter"):
            walk(session, ONE, walk(session, EVERY_APPLICATION).checkpoint)
        resumed = [row.application_reference_id async for row in walk(session, ONE, checkpoint)]
        assert resumed in ([], [REFERENCE])
        sent = {query.get("application_reference_id") for query in list_queries(service)}
    assert sent == {REFERENCE}


def poller(
    session: SessionManager,
    store: MemoryCheckpointStore,
    list_filter: ListFilter,
    start: Checkpoint | int = 0,
) -> Poller:
    """Return a poller that polls once."""
    source = PollSource(
        session=session,
        zone=UTC,
        documents=False,
        pages=False,
        concurrency=2,
        list_filter=list_filter,
    )
    return Poller(
        source, store, name="default", start=start, interval=30, settle=5, lookback=0, once=True
    )


async def test_a_poller_resumes_with_its_own_filter_only() -> None:
    """With another one it would never list what was updated before and is not hidden now."""
    store = MemoryCheckpointStore()
    async with serving() as (service, session):
        batches = [batch async for batch in poller(session, store, ONE).batches()]
        ((record,),) = [batch.records for batch in batches]
        assert record.application.application_reference_id == REFERENCE
        async for _ in poller(session, store, ONE):
            pass
        stored, start = await store.load("default"), read_checkpoint(batches[-1].checkpoint)
        assert REFERENCE not in str(stored)
        for other in (EVERY_APPLICATION, ANOTHER):
            with pytest.raises(CheckpointError, match="another filter"):
                await anext(poller(session, store, other))
            with pytest.raises(CheckpointError, match="another filter"):
                await anext(poller(session, MemoryCheckpointStore(), other, start))
        assert await store.load("default") == stored
        sent = {query.get("application_reference_id") for query in list_queries(service)}
    assert sent == {REFERENCE}
