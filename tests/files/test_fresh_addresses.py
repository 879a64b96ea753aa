"""Fresh addresses in place of expired ones: asked for once for all downloads of a client."""

import asyncio
from pathlib import Path

import pytest

from income_client import Document, IncomeClient, RetryPolicy
from income_client.testing import JumpingClock
from tests.support.folders import files_in
from tests.support.storage import Storage, document_at, storing

MANY = 40


def expired(storage: Storage, count: int) -> list[Document]:
    """Store files whose documents have expired addresses, and have the service tell fresh ones."""
    storage.expired.add("old")
    documents = []
    for number in range(count):
        path = f"/doc-{number}"
        storage.store(path, b"content of %d" % number)
        storage.tell(path[1:], storage.address(path, "new"))
        documents.append(document_at(storage.address(path, "old"), path[1:]))
    return documents


def check(folder: Path, count: int) -> None:
    """Check that all files are there."""
    expected = {f"doc-{number}": b"content of %d" % number for number in range(count)}
    assert files_in(folder) == expected


async def download(client: IncomeClient, document: Document, folder: Path) -> None:
    """Download a document under its id."""
    await client.download(document, folder / document.document_id)


async def test_parallel_downloads_of_an_application_ask_once(tmp_path: Path) -> None:
    """However many of them find their addresses expired, and in whichever order."""
    async with storing() as (storage, client):
        documents = expired(storage, MANY)
        await asyncio.gather(*(download(client, one, tmp_path) for one in documents))
        assert len(storage.api_asked) == 1
    check(tmp_path, MANY)


async def test_views_of_a_client_share_the_answer(tmp_path: Path) -> None:
    """A view has limits of its own, and the same service."""
    async with storing() as (storage, client):
        view = client.with_options(retry=RetryPolicy(max_attempts=1))
        for one, user in zip(expired(storage, 4), (client, view) * 2, strict=True):
            await download(user, one, tmp_path)
        assert len(storage.api_asked) == 1
    check(tmp_path, 4)


@pytest.mark.parametrize("cancelled", [1, MANY // 2])
async def test_who_is_cancelled_while_it_asks_harms_nobody(tmp_path: Path, cancelled: int) -> None:
    """One of the others asks in its place."""
    async with storing() as (storage, client):
        documents = expired(storage, MANY)
        tasks = [asyncio.ensure_future(download(client, one, tmp_path)) for one in documents]
        while not storage.api_asked:  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0)
        for task in tasks[:cancelled]:
            task.cancel()
        await asyncio.gather(*tasks[cancelled:])
        await asyncio.wait(tasks)
        assert len(storage.api_asked) <= 2
    assert files_in(tmp_path).keys() >= {one.document_id for one in documents[cancelled:]}


async def test_an_answer_is_used_for_a_minute(tmp_path: Path) -> None:
    """Files that are got one after the other share it, and later ones ask again."""
    clock = JumpingClock()
    async with storing(clock=clock) as (storage, client):
        for number, document in enumerate(expired(storage, 6)):
            await download(client, document, tmp_path)
            assert len(storage.api_asked) == 1 + number // 3
            clock.advance(25)
    check(tmp_path, 6)


async def test_an_answer_that_has_expired_as_well_is_replaced(tmp_path: Path) -> None:
    """Addresses may live for less than a minute: then one request more is made."""
    async with storing() as (storage, client):
        first, second = expired(storage, 2)
        await download(client, first, tmp_path)
        storage.expired.add("new")
        storage.documents.clear()
        storage.tell("doc-1", storage.address("/doc-1", "newest"))
        await download(client, second, tmp_path)
        assert len(storage.api_asked) == 2
    check(tmp_path, 2)


async def test_a_file_that_is_gone_is_not_looked_for_at_an_older_address(tmp_path: Path) -> None:
    """One guess is made where no storage speaks of expiry, so it is made with a new answer."""
    clock = JumpingClock()
    async with storing(clock=clock) as (storage, client):
        storage.store("/doc-0", b"moved")
        storage.store("/doc-1", b"moved")
        storage.tell("doc-0", storage.address("/doc-0"))
        storage.tell("doc-1", storage.address("/gone-too"))
        await download(client, document_at(storage.address("/gone"), "doc-0"), tmp_path)
        clock.advance(1)
        storage.documents.clear()
        storage.tell("doc-1", storage.address("/doc-1"))
        await download(client, document_at(storage.address("/gone"), "doc-1"), tmp_path)
        assert len(storage.api_asked) == 2
    assert files_in(tmp_path) == {"doc-0": b"moved", "doc-1": b"moved"}
