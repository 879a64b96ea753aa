"""Many applications at once: in input order, bounded, and nothing left behind."""

from collections.abc import AsyncIterator, Iterator
from itertools import count, repeat
from typing import Any

import pytest

from income_client import (
    ApplicationRecord,
    ConfigurationError,
    DecodeError,
    FetchFailure,
    NotFoundError,
)
from income_client.emulator import Fault
from income_client.wire.times import wire_time
from tests.support.service import NOW, client_tasks, collect, served, streamed

NOWHERE = "app-nowhere"


def ids_of_records(records: list[Any]) -> list[str]:
    """Return the ids of records."""
    return [record.application.application_id for record in records]


@pytest.mark.parametrize("kind", ["list", "generator", "stream", "summaries", "walk"])
async def test_any_source_of_applications_will_do(kind: str) -> None:
    """Ids, summaries and walks, plain and asynchronous, are fetched in their order."""
    async with served(30) as (_, client):
        walk = client.list_applications(updated_before=wire_time(NOW), concurrency=1)
        ids = [row.application_id async for row in walk]
        again = client.list_applications(updated_before=wire_time(NOW), concurrency=1)
        page = await client.get_application_page(limit=1000)
        by_id = {row.application_id: row for row in page.applications}
        sources: dict[str, Any] = {
            "list": ids,
            "generator": (one for one in ids),
            "stream": streamed(ids),
            "summaries": [by_id[one] for one in ids],
            "walk": again,
        }
        found = [record async for record in client.fetch_records(sources[kind], concurrency=5)]
        if kind == "list":
            applications = [record.application for record in found]
            found = [record async for record in client.fetch_records(applications)]
    assert ids_of_records(found) == ids
    assert all(isinstance(record, ApplicationRecord) for record in found)
    assert all(
        record.documents is not None
        and record.documents.application_id == record.application.application_id
        for record in found
    )


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


async def test_nothing_and_the_same_again_are_fetched_too() -> None:
    """An empty input gives nothing; an id given twice comes twice."""
    async with served(3) as (service, client):
        assert [record async for record in client.fetch_records([])] == []
        assert [record async for record in client.fetch_records(streamed([]))] == []
        one, other = service.world.ids[:2]
        wanted = [one, other, one, one]
        found = [record async for record in client.fetch_records(wanted)]
    assert ids_of_records(found) == wanted


async def test_failures_are_raised_in_their_turn() -> None:
    """What came before the failure is yielded, the failure is raised, and that is the end."""
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
    assert kinds == [ids[0], DecodeError, NotFoundError, ConfigurationError, ids[2]]
    failures = [one.application_id for one in found if isinstance(one, FetchFailure)]
    assert failures == [ids[1], NOWHERE, ""]


@pytest.mark.parametrize("on_error", ["raise", "yield"])
async def test_an_error_of_the_source_comes_after_what_came_before(on_error: Any) -> None:
    """A source that breaks is no application: its error is raised, in its turn."""

    async def breaking(ids: Any) -> AsyncIterator[str]:
        for one in ids:
            yield one
        raise LookupError("the source's own")

    def breaking_now(ids: Any) -> Iterator[str]:
        yield from ids
        raise LookupError("the source's own")

    async with served(6) as (service, client):
        ids = service.world.ids
        for source in (breaking(ids), breaking_now(ids)):
            found: list[Any] = []
            with pytest.raises(LookupError):
                await collect(client.fetch_records(source, on_error=on_error), found)
            assert ids_of_records(found) == list(ids)
        assert client_tasks() == set()


async def test_something_that_is_no_application_is_refused_in_its_turn() -> None:
    """An item of another kind is an error of the source."""
    async with served(2) as (service, client):
        wrong: Any = [service.world.ids[0], 7]
        fetcher = client.fetch_records(wrong)
        await anext(fetcher)
        with pytest.raises(ConfigurationError):
            await anext(fetcher)


async def test_endless_input_is_fetched_as_long_as_wanted() -> None:
    """A source without end is no trouble."""
    async with served(1) as (service, client):
        fetcher = client.fetch_records(repeat(service.world.ids[0]), concurrency=3)
        for _ in count():
            record = await anext(fetcher)
            if len(service.requests) > 20:
                break
        assert record.application.application_id == service.world.ids[0]
        await fetcher.aclose()
        assert client_tasks() == set()
