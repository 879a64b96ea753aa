"""Nothing of an address or of a file is told by errors, their frames, logs or what is returned."""

import asyncio
import io
import logging
import traceback
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from income_client import Document, DownloadPolicy, IncomeClientError
from tests.support.downloads import Scene, files_below, scene
from tests.support.leaks import held_by
from tests.support.service import until

CANARY = "canary5e1f"


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], str]]:
    """Log all there is at DEBUG, attributes included."""
    caplog.set_level(logging.DEBUG)
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logging.getLogger().addHandler(handler)
    yield lambda: stream.getvalue() + "".join(repr(vars(line)) for line in caplog.records)
    logging.getLogger().removeHandler(handler)


def marked(document: Document) -> Document:
    """Return a document whose address holds the canary; the signature is wrong by that."""
    return evolve(document, url=f"{document.url}{CANARY}", source=None)


BODY = f"<Error><Code>AccessDenied</Code><Message>{CANARY}</Message></Error>".encode()
FAULTS: dict[str, tuple[str, dict[str, Any]]] = {
    "refused with a text": ("status", {"status": 403, "body": BODY}),
    "final": ("status", {"status": 400, "body": BODY}),
    "in trouble": ("status", {"status": 503, "body": BODY}),
    "a code that is none": ("status", {"status": 400, "body": f"<Code>{CANARY} x</Code>".encode()}),
    "reset": ("reset", {}),
    "garbage": ("garbage", {"body": CANARY.encode()}),
    "cut": ("cut", {"keep": 0}),
    "sent elsewhere": ("redirect", {"location": f"https://evil.example/{CANARY}"}),
    "sent nowhere": ("redirect", {"location": f"gopher://{CANARY}/"}),
    "encoded": ("body", {"body": CANARY.encode(), "headers": {"Content-Encoding": CANARY}}),
    "a strange part": ("body", {"status": 206, "headers": {"Content-Range": CANARY}}),
    "a strange tag": ("body", {"status": 206, "headers": {"ETag": CANARY}}),
}


async def failure(download: Awaitable[object]) -> IncomeClientError:
    """Return what a download fails of, as it is raised into a frame that holds nothing."""
    with pytest.raises(IncomeClientError) as caught:
        await download
    error = caught.value
    del caught
    return error


@pytest.mark.parametrize("name", FAULTS)
async def test_no_failure_tells_an_address_or_a_body(
    name: str, tmp_path: Path, logged: Callable[[], str]
) -> None:
    """Neither in its text, nor in an attribute, nor in a frame that raised it."""
    kind, settings = FAULTS[name]
    async with scene() as play:
        document = marked(await play.document())
        play.fail(kind, times=None, **settings)
        error = await failure(play.client.download(document, tmp_path / "slip.pdf"))
        assert CANARY not in held_by(error)
        assert CANARY not in logged()
        async for one in play.client.download_all(
            [document], tmp_path, names="{document_id}", on_error="yield"
        ):
            assert CANARY not in repr(one)
        stream = play.client.download_all([document], tmp_path, names="{document_id}")
        assert CANARY not in held_by(await failure(anext(stream)))
        assert files_below(tmp_path) == {}


@pytest.mark.parametrize(
    "address",
    [
        f"https://evil.example/{CANARY}",
        f"https://user:{CANARY}@bucket.s3.amazonaws.com/x",
        f"http://bucket.s3.amazonaws.com/{CANARY}",
        f"{CANARY} is no address",
        f"https://bucket.s3.amazonaws.com/{CANARY}\n",
    ],
)
async def test_no_refusal_tells_the_address(tmp_path: Path, address: str) -> None:
    """Not even that of an address that nobody would use."""
    async with scene(downloads=DownloadPolicy()) as play:
        document = evolve(await play.document(), url=address)
        error = await failure(play.client.download(document, tmp_path / "slip.pdf"))
        assert CANARY not in held_by(error)


async def test_no_refusal_tells_the_name_of_the_file(tmp_path: Path) -> None:
    """Partners name files after people."""
    async with scene(downloads=DownloadPolicy()) as play:
        document = evolve(
            await play.document(),
            url="https://evil.example/file",
            file_reference_ids=(f"{CANARY}.pdf",),
        )
        error = await failure(play.client.download(document, tmp_path / "slip.pdf"))
        assert CANARY not in held_by(error)


async def test_what_is_returned_and_told_meanwhile_holds_no_address(tmp_path: Path) -> None:
    """A downloaded file and its progress can be logged."""
    told: list[object] = []
    async with scene() as play:
        document = await play.document()
        file = await play.client.download(document, tmp_path, on_progress=told.append)
        signature = document.url.rpartition("=")[2]
        assert len(signature) == 64
        assert signature not in repr((file, told))


async def cancelled(play: Scene, document: Document, path: Path) -> str:
    """Cancel a download that waits, and return the frames of its cancellation."""
    task = asyncio.ensure_future(play.client.download(document, path))
    await until(lambda: len(play.asked) == 1)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError as error:
        report = traceback.TracebackException.from_exception(error, capture_locals=True)
        return "".join(report.format())
    raise AssertionError("it was not cancelled")


@pytest.mark.parametrize("kind", ["stall", "cut"])
async def test_a_cancellation_tells_no_address(tmp_path: Path, kind: str) -> None:
    """Its frames are those of the caller."""
    async with scene() as play:
        document = await play.document()
        play.fail(kind, times=None)
        report = await cancelled(play, document, tmp_path / "slip.pdf")
        assert document.url.rpartition("=")[2] not in report


async def test_a_progress_callback_that_fails_tells_no_address(tmp_path: Path) -> None:
    """Its own error comes out, through frames that show none."""

    def fail(_: object) -> None:
        raise ZeroDivisionError

    async with scene() as play:
        document = await play.document()
        with pytest.raises(ZeroDivisionError) as caught:
            await play.client.download(document, tmp_path / "slip.pdf", on_progress=fail)
        report = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
        assert document.url.rpartition("=")[2] not in "".join(report.format())
        assert files_below(tmp_path) == {}
