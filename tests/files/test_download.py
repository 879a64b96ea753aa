"""One file: it comes whole, at its place, over cuts and changes, or not at all."""

import hashlib
from pathlib import Path

import pytest
from attrs import evolve

from income_client import (
    ClientClosedError,
    DownloadedFile,
    DownloadError,
    DownloadProgress,
    IncomeClient,
    RetryPolicy,
)
from income_client.emulator import Fault
from tests.support.downloads import files_below, mode_of, scene


async def test_a_file_is_whole_and_private_at_its_path(tmp_path: Path) -> None:
    """What is returned tells what is there: path, size, hash, and whose it is."""
    async with scene() as play:
        document = await play.document()
        path = tmp_path / "slip.pdf"
        file = await play.client.download(document, path)
        content = play.content(document)
        assert files_below(tmp_path) == {"slip.pdf": content}
        assert mode_of(path) == 0o600
        assert document.source is not None
        assert file == DownloadedFile(
            document_id=document.document_id,
            application_id=document.source.application_id,
            document_type=document.source.document_type,
            file=0,
            path=path,
            size=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
            content_type="application/pdf",
            was_there=False,
        )
        assert document.url.partition("?")[2] not in repr(file)


@pytest.mark.parametrize("kind", ["reset", "drop", "garbage", "status"])
async def test_what_does_not_help_is_tried_again_within_the_policy(
    tmp_path: Path, kind: str
) -> None:
    """After a pause, as often as the policy says; then it is an error, and nothing is left."""
    async with scene(retry=RetryPolicy(max_attempts=3)) as play:
        document = await play.document()
        play.fail(kind, times=2)
        await play.client.download(document, tmp_path / "slip.pdf")
        assert len(play.clock.slept) == 2
        play.fail(kind, times=None)
        with pytest.raises(DownloadError) as caught:
            await play.client.download(document, tmp_path / "other.pdf")
        assert caught.value.attempts == 3
        assert caught.value.retryable
        assert list(files_below(tmp_path)) == ["slip.pdf"]


async def test_a_storage_that_asks_for_a_pause_gets_it(tmp_path: Path) -> None:
    """Retry-After is waited for, as it is for the API."""
    async with scene() as play:
        document = await play.document()
        play.fail("status", status=503, headers={"Retry-After": "9"})
        await play.client.download(document, tmp_path / "slip.pdf")
        assert play.clock.slept == [9]


async def test_the_error_of_a_final_status_has_its_code(tmp_path: Path) -> None:
    """What the storage calls it is in the error, the rest of its text is not."""
    body = b"<Error><Code>InvalidObjectState</Code><Message>secret of a bucket</Message></Error>"
    async with scene() as play:
        document = await play.document()
        play.fail("status", status=400, body=body)
        with pytest.raises(DownloadError, match="400 InvalidObjectState") as caught:
            await play.client.download(document, tmp_path / "slip.pdf")
        assert (caught.value.status, caught.value.code) == (400, "InvalidObjectState")
        assert "secret" not in str(caught.value)
        assert len(play.asked) == 1


async def test_a_file_beyond_the_limit_is_not_begun(tmp_path: Path) -> None:
    """`max_bytes` is the policy's."""
    async with scene() as play:
        document = await play.document()
        policy = evolve(play.service.download_policy, max_bytes=19_999)
        service = play.service
        async with IncomeClient(service.url, auth=service.oauth2, downloads=policy) as client:
            with pytest.raises(DownloadError, match="longer than 19999 bytes"):
                await client.download(document, tmp_path / "slip.pdf")
        assert files_below(tmp_path) == {}


async def test_progress_begins_at_what_is_there_and_ends_at_the_total(tmp_path: Path) -> None:
    """After a cut it continues; the last one says that all is there."""
    reported: list[DownloadProgress] = []
    async with scene({"file_bytes": 500_000}) as play:
        document = await play.document()
        play.fail("cut", keep=200_000)
        await play.client.download(document, tmp_path / "slip.pdf", on_progress=reported.append)
    places = [progress.received for progress in reported]
    assert places == sorted(places)
    assert 200_000 in places
    assert (places[-1], reported[-1].total) == (500_000, 500_000)


async def test_a_client_that_is_closed_downloads_nothing(tmp_path: Path) -> None:
    """Its connections for files are closed with it."""
    async with scene() as play:
        document = await play.document()
        await play.client.download(document, tmp_path / "slip.pdf")
        await play.client.aclose()
        with pytest.raises(ClientClosedError):
            await play.client.download(document, tmp_path / "other.pdf")


async def test_views_have_their_own_limits(tmp_path: Path) -> None:
    """`with_options` counts for files as well."""
    async with scene() as play:
        document = await play.document()
        play.service.faults.add(Fault("status", path="/documents/*", times=None))
        view = play.client.with_options(retry=RetryPolicy(max_attempts=1))
        with pytest.raises(DownloadError):
            await view.download(document, tmp_path / "slip.pdf")
        assert len(play.asked) == 1
