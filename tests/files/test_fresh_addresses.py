"""Fresh addresses in place of expired ones: asked for once for all downloads of a client."""

import asyncio
from functools import partial
from pathlib import Path

import pytest
from attrs import evolve

from income_client import (
    ApplicationDocuments,
    AuthenticationError,
    Document,
    DownloadError,
    IncomeClient,
    RetryPolicy,
)
from income_client.downloads.downloader import FreshAddresses
from income_client.emulator import Fault
from income_client.errors import ServerError
from income_client.testing import JumpingClock
from tests.support.downloads import Scene, files_below, scene
from tests.support.storage import Storage, document_at, storing

MANY = 16


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
    expected = {f"doc-{number}": b"content of %d" % number for number in range(count)}
    assert files_below(folder) == expected


async def download(client: IncomeClient, document: Document, folder: Path) -> None:
    await client.download(document, folder / document.document_id)


async def test_parallel_downloads_of_an_application_ask_once(tmp_path: Path) -> None:
    """However many find their addresses expired, in whichever order; views share the answer."""
    async with storing() as (storage, client):
        documents = expired(storage, MANY)
        users = (client, client.with_options(retry=RetryPolicy(max_attempts=1))) * (MANY // 2)
        pairs = zip(users, documents, strict=True)
        await asyncio.gather(*(download(user, one, tmp_path) for user, one in pairs))
        assert len(storage.api_asked) == 1
    check(tmp_path, MANY)


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
    assert files_below(tmp_path).keys() >= {one.document_id for one in documents[cancelled:]}


async def test_an_answer_is_used_for_a_minute(tmp_path: Path) -> None:
    clock = JumpingClock()
    async with storing(clock=clock) as (storage, client):
        for number, document in enumerate(expired(storage, 6)):
            await download(client, document, tmp_path)
            assert len(storage.api_asked) == 1 + number // 3
            clock.advance(25)
    check(tmp_path, 6)


async def test_a_file_that_is_gone_is_not_looked_for_at_an_older_address(tmp_path: Path) -> None:
    """One guess is made where no storage speaks of expiry, so it is made with a new answer."""
    clock = JumpingClock()
    async with storing(clock=clock) as (storage, client):
        for number in range(2):
            storage.store(f"/doc-{number}", b"moved")
        storage.tell("doc-0", storage.address("/doc-0"))
        storage.tell("doc-1", storage.address("/gone-too"))
        await download(client, document_at(storage.address("/gone"), "doc-0"), tmp_path)
        clock.advance(1)
        storage.documents.clear()
        storage.tell("doc-1", storage.address("/doc-1"))
        await download(client, document_at(storage.address("/gone"), "doc-1"), tmp_path)
        assert len(storage.api_asked) == 2
    assert files_below(tmp_path) == {"doc-0": b"moved", "doc-1": b"moved"}


async def test_an_id_under_two_types_has_two_addresses(play: Scene) -> None:
    """And one under one type twice has none that could be trusted."""
    one = await play.client.get_documents(play.service.world.ids[0])
    ((_, first), (_, second), *_) = one.all()
    twin = evolve(second, document_id=first.document_id)

    async def asked(_: str) -> ApplicationDocuments:
        return evolve(
            one, documents={"unknown_form": (first,), "w3": (twin,), "both": (first, twin)}
        )

    addresses = FreshAddresses(JumpingClock(), "app-1")
    for document_type, address in (("unknown_form", first.url), ("w3", twin.url), ("both", None)):
        fresh = addresses.get(document_type, first.document_id, stale="old", since=0, ask=asked)
        if address is None:
            with pytest.raises(DownloadError, match="several"):
                await fresh
        else:
            assert await fresh == address


async def test_a_failure_to_renew_is_shared_by_those_who_wait() -> None:
    times = 0

    async def asked(_: str) -> ApplicationDocuments:
        nonlocal times
        times += 1
        await asyncio.sleep(0)
        raise ServerError("get_documents: 500", status=500)

    addresses = FreshAddresses(JumpingClock(), "app-1")
    fresh = partial(addresses.get, "unknown_form", stale="old", since=0, ask=asked)
    found = await asyncio.gather(
        *(fresh(f"doc-{number}") for number in range(5)), return_exceptions=True
    )
    assert times == 1
    assert all(isinstance(one, ServerError) for one in found)
    with pytest.raises(ServerError):
        await fresh("doc-1")
    assert times == 2


async def test_addresses_that_never_are_fresh_are_given_up(tmp_path: Path) -> None:
    """Those handed out expired are replaced three times; without a source there is none to ask."""
    async with scene({"url_age": 3600}) as play:
        document = await play.document()
        play.service.advance(1)
        with pytest.raises(DownloadError, match="403"):
            await play.client.download(document, tmp_path / "slip.pdf")
        assert len(play.asked) <= 4
        assert 1 <= play.renewals <= 3
        play.service.requests.clear()
        with pytest.raises(DownloadError, match="403"):
            await play.client.download(evolve(document, source=None), tmp_path / "slip.pdf")
        assert play.renewals == 0


async def test_credentials_that_are_refused_meanwhile_are_told(tmp_path: Path, play: Scene) -> None:
    document = await play.document()
    play.service.advance(1000)
    play.service.faults.add(Fault("status", status=401, path="/v1/*", times=None))
    with pytest.raises(AuthenticationError):
        await play.client.download(document, tmp_path / "slip.pdf")
