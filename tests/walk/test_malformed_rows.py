"""A walk reports a row that cannot be read, and continues behind it when it is iterated again."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from income_client import DecodeError
from tests.support.canaries import held_by
from tests.support.listing import BASE, ListService, serving
from tests.support.walks import MALFORMED, MEANINGS, WITHOUT_ID, collect, ids_of, read_on, walk


def service_of(*kinds: str, times: Iterable[int] = range(0, 120, 10), **rules: Any) -> ListService:
    """Return a service whose first rows are malformed in these ways."""
    service = ListService.of(times, **rules)
    service.malformed = {
        key: MALFORMED[kind](key) for key, kind in zip(service.rows, kinds, strict=False)
    }
    return service


async def test_each_malformed_row_is_raised_once_and_named_without_its_value() -> None:
    """Good rows of the page come first.

    Then each iteration raises the error of one row, and ends.
    """
    service = service_of(*MALFORMED)
    found: list[str] = []
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, BASE + 200)
        for place, (key, kind) in enumerate(zip(service.malformed, MALFORMED, strict=True)):
            with pytest.raises(DecodeError) as caught:
                await collect(paginator, found)
            assert len(found) == len(service.ids) - len(MALFORMED)
            error, fault = caught.value, caught.value.faults[0]
            assert (error.retryable, error.status, error.is_row) == (False, 200, True)
            assert error.__cause__ is error.__context__ is None
            assert "ref-" not in held_by(error)
            assert fault.path.startswith(f"$.applications[{place}]")
            if kind in WITHOUT_ID:
                assert error.subject is None
                assert error.message.startswith(f"list_applications: {fault.path}: ")
            else:
                assert error.subject == key
                assert error.message == f"list_applications: application {key}: {fault}"
        await collect(paginator, found)
        assert len(service.queries) == 1
    assert set(found) == service.ids - service.malformed.keys()
    assert paginator.progress.rows == len(service.ids)
    assert paginator.progress.covered_fraction == 1.0


async def test_pages_hold_neither_rows_taken_before_nor_malformed_ones() -> None:
    """Each row is raised once, however the rest of its page is read; no page is empty."""
    service = service_of("null", "no date", times=range(6))
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, BASE + 200)
        found = [(await anext(paginator)).application_id]
        pages = paginator.pages()
        found += [row.application_id for row in (await anext(pages)).applications]
        with pytest.raises(DecodeError):
            await anext(pages)
        rest, errors = await read_on(paginator)
    assert sorted(found + rest) == sorted(service.ids - service.malformed.keys())
    assert len(errors) == 1
    async with serving(service_of("null", times=[0])) as client:
        paginator = walk(client, BASE - 1, BASE + 200)
        with pytest.raises(DecodeError):
            await anext(paginator.pages())
        assert [page async for page in paginator.pages()] == []


async def test_the_checkpoint_covers_a_malformed_row_once_it_was_raised_and_passed() -> None:
    """Before the consumer came back for more, a resumed walk raises it again; afterwards not."""
    service = service_of("null")
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, BASE + 200)
        with pytest.raises(DecodeError):
            await ids_of(paginator)
        before = paginator.checkpoint
        assert await ids_of(paginator) == []
        after = paginator.checkpoint
        found, errors = await read_on(client.list_applications(resume=before))
        assert len(errors) == 1
        assert set(found) == service.ids - service.malformed.keys()
        assert await ids_of(client.list_applications(resume=after)) == []


@pytest.mark.parametrize(
    ("kind", "on_saturated"), [("null", "raise"), ("no id", "raise"), ("no object", "report")]
)
async def test_a_malformed_row_of_a_saturated_second_is_raised_too(
    kind: str, on_saturated: Any
) -> None:
    """The error about the second does not contain the row, since it cannot be read."""
    service = service_of(kind, times=[0, 0, 0, 0, 50])
    async with serving(service) as client:
        paginator = walk(client, BASE - 3, BASE + 100, limit=3, on_saturated=on_saturated)
        found, errors = await read_on(paginator)
    assert len(errors) == 1
    assert len(paginator.saturated) == 1
    good = service.ids - service.malformed.keys()
    assert set(found) <= good
    assert len(set(found)) == 3


@pytest.mark.parametrize(
    ("place", "victim", "limit"),
    [(4, 0, 2), (4, 3, 2), (4, 1, 1_000), (4, 3, 1_000), (0, 1, 1_000)],
)
async def test_a_malformed_row_with_the_id_of_another_application_does_not_hide_it(
    place: int, victim: int, limit: int
) -> None:
    """On one page or on neighbouring ones: every sound row comes once, the other is raised once."""
    service = service_of(times=range(5), **MEANINGS["both inclusive"])
    ids = list(service.rows)
    service.malformed = {ids[place]: MALFORMED["null"](ids[victim])}
    async with serving(service) as client:
        found, errors = await read_on(walk(client, BASE - 1, BASE + 200, limit=limit))
    assert sorted(found) == sorted(set(ids) - {ids[place]})
    assert [error.subject for error in errors] == [ids[victim]]


async def test_nothing_is_in_flight_after_a_malformed_row() -> None:
    """The iteration has ended with the error: its requests end with it, and are made again."""
    service = service_of("null", times=range(0, 6_000, 100))
    async with serving(service) as client:
        before = asyncio.all_tasks()
        paginator = walk(client, BASE - 1, BASE + 7_000, limit=5, concurrency=4)
        found: list[str] = []
        with pytest.raises(DecodeError):
            await collect(paginator, found)
        assert {task for task in asyncio.all_tasks() - before if "_ask" in repr(task)} == set()
        await collect(paginator, found)
    assert sorted(found) == sorted(service.ids - service.malformed.keys())
