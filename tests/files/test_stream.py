"""Many files: whatever has documents is taken, bounded, and what fails is reported."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from income_client import (
    ApplicationRecord,
    ConfigurationError,
    DocumentEntry,
    DownloadedFile,
    DownloadError,
    DownloadFailure,
    DownloadProgress,
)
from tests.support.downloads import Scene, files_below, scene
from tests.support.service import client_tasks


async def shapes(play: Scene) -> dict[str, Any]:
    """Return the documents of one application in every form in which they can be given."""
    client, application_id = play.client, play.service.world.ids[0]
    documents = await client.get_documents(application_id)
    application = await client.get_application(application_id)
    record = ApplicationRecord(application=application, documents=documents)
    entries = list(documents.all())

    async def slowly() -> AsyncIterator[DocumentEntry]:
        for entry in entries:
            await asyncio.sleep(0)
            yield entry

    return {
        "a reply": documents,
        "a record": record,
        "entries": entries,
        "an iterator": iter([entry.document for entry in entries]),
        "replies": [documents],
        "a document": entries[0].document,
        "an entry": entries[0],
        "an asynchronous iterator": slowly(),
        "fetched replies": client.fetch_documents([application_id]),
        "fetched records": client.fetch_records([application_id]),
    }


async def test_whatever_has_documents_is_taken(tmp_path: Path, play: Scene) -> None:
    application_id = play.service.world.ids[0]
    documents = await play.client.get_documents(application_id)
    wanted = [document.document_id for _, document in documents.all()]
    for name, given in (await shapes(play)).items():
        files = [file async for file in play.client.download_all(given, tmp_path / name)]
        ids = wanted[:1] if name in ("a document", "an entry") else wanted
        assert sorted(file.document_id for file in files) == sorted(ids), name
        assert len(files_below(tmp_path / name)) == len(ids)
        assert all(file.application_id == application_id for file in files)


async def test_no_more_than_asked_for_are_on_their_way(tmp_path: Path) -> None:
    """Neither beyond `concurrency` nor beyond the client's own limit."""
    for limit, concurrency in ((16, 3), (2, 8)):
        begun: set[str] = set()
        most = 0
        async with scene({"file_bytes": 100_000}, concurrency=limit) as play:

            def report(progress: DownloadProgress, begun: set[str] = begun) -> None:
                nonlocal most
                begun.add(progress.document_id)
                if progress.received == progress.total:
                    most = max(most, len(begun))
                    begun.discard(progress.document_id)

            documents = await play.documents(20)
            folder = tmp_path / str(limit)
            stream = play.client.download_all(documents, folder, concurrency, on_progress=report)
            assert len([file async for file in stream]) == 20
        assert 1 <= most <= min(limit, concurrency)


async def test_a_failure_is_raised_and_ends_the_rest_or_is_yielded(
    tmp_path: Path, play: Scene
) -> None:
    """Once it is raised nothing is under way, and no part is left; else the others come."""
    documents = await play.documents(20)
    play.fail("status", status=400, skip=5)
    with pytest.raises(DownloadError):
        async for _ in play.client.download_all(documents, tmp_path / "a"):
            pass
    assert client_tasks() == set()
    whole = {play.content(document) for document in documents}
    assert set(files_below(tmp_path / "a").values()) <= whole
    play.service.faults.clear()
    play.fail("status", status=400, times=2, skip=3)
    found: list[DownloadedFile | DownloadFailure] = [
        one
        async for one in play.client.download_all(documents[:10], tmp_path / "b", on_error="yield")
    ]
    failures = [one for one in found if isinstance(one, DownloadFailure)]
    assert (len(found), len(failures)) == (10, 2)
    assert all(isinstance(failure.error, DownloadError) for failure in failures)
    assert len(files_below(tmp_path / "b")) == 8


async def test_a_name_that_cannot_be_made_or_is_taken_is_a_failure_of_its_document(
    tmp_path: Path, play: Scene
) -> None:
    """One without a source has no place by application; of two with one name the first stays."""
    documents = await play.documents(3)
    documents[1] = evolve(documents[1], source=None)
    stream = play.client.download_all(documents, tmp_path / "a", on_error="yield")
    failures = [one async for one in stream if isinstance(one, DownloadFailure)]
    assert [failure.document_id for failure in failures] == [documents[1].document_id]
    same = [evolve(one, file_reference_ids=("slip",)) for one in documents[::2]]
    names = "{file_reference_id}"
    stream = play.client.download_all(same, tmp_path / "b", names=names, on_error="yield")
    found = [one async for one in stream]
    assert sum(isinstance(one, DownloadFailure) for one in found) == 1
    assert list(files_below(tmp_path / "b")) == ["slip"]


async def test_what_a_callback_raises_comes_out(tmp_path: Path, play: Scene) -> None:
    """It is the caller's own error, and no failure of a file."""

    def failing(_: DownloadProgress) -> None:
        raise ZeroDivisionError

    documents = await play.documents(3)
    for on_error in ("raise", "yield"):
        options: dict[str, Any] = {"on_progress": failing, "on_error": on_error}
        with pytest.raises(ZeroDivisionError):
            await anext(play.client.download_all(documents, tmp_path, **options))
        assert files_below(tmp_path) == {}


async def test_documents_must_be_meant(tmp_path: Path, play: Scene) -> None:
    """A record that was read without its documents is refused too: that it has none is a guess."""
    wrong: list[Any] = [None, 7, "doc-1", b"", ["doc-1"], [None]]
    for documents in wrong:
        with pytest.raises(ConfigurationError, match="documents are"):
            await anext(play.client.download_all(documents, tmp_path))
    assert play.service.requests == []
    records = play.client.fetch_records(play.service.world.ids[:1], documents=False)
    with pytest.raises(ConfigurationError, match="without its documents"):
        await anext(play.client.download_all(records, tmp_path))
