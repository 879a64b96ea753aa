"""A download that is cancelled, wherever it is, leaves no file, no connection and no task."""

import asyncio
from pathlib import Path

import pytest

from income_client import Document
from tests.support.downloads import Scene, files_below, scene
from tests.support.service import client_tasks, until


async def cancelled_after(play: Scene, document: Document, path: Path, turns: int) -> bool:
    """Cancel a download after some turns of the loop; tell whether it was still under way."""
    task = asyncio.ensure_future(play.client.download(document, path))
    for _ in range(turns):
        await asyncio.sleep(0)
    was_running = task.cancel()
    await asyncio.wait([task])
    assert not client_tasks() - {task}
    return was_running


@pytest.mark.parametrize("fault", [None, "cut"])
async def test_cancelled_at_any_moment_it_leaves_nothing(tmp_path: Path, fault: str | None) -> None:
    """The file is there, whole, or nothing is."""
    async with scene({"file_bytes": 3_000_000}) as play:
        document = await play.document()
        turns, is_running = 0, True
        while is_running:
            if fault is not None:
                play.service.faults.clear()
                play.fail(fault)
            path = tmp_path / f"{turns}.pdf"
            is_running = await cancelled_after(play, document, path, turns)
            left = files_below(tmp_path)
            assert left in ({}, {path.name: play.content(document)})
            path.unlink(missing_ok=True)
            turns += 1 + turns // 4


async def test_what_came_can_be_kept_for_the_next_call(tmp_path: Path) -> None:
    """The part is private, hidden, and gone on with."""
    async with scene({"file_bytes": 3_000_000}) as play:
        document = await play.document()
        play.fail("cut", keep=2_500_000)
        play.fail("stall")
        path = tmp_path / "slip.pdf"
        task = asyncio.ensure_future(play.client.download(document, path, keep_partial=True))
        await until(lambda: len(play.asked) == 2)
        task.cancel()
        await asyncio.wait([task])
        ((name, content),) = files_below(tmp_path).items()
        assert name.startswith(".")
        assert len(content) == 2_500_000
        assert content == play.content(document)[:2_500_000]
        await play.client.download(document, path)
        assert play.ranges[-1] == "bytes=2500000-"
        assert files_below(tmp_path) == {"slip.pdf": play.content(document)}


async def test_what_was_kept_of_another_version_is_void(tmp_path: Path) -> None:
    """Nothing of it is in the file, nor beside it."""
    async with scene({"file_bytes": 3_000_000}) as play:
        document = await play.document()
        play.fail("cut", keep=2_500_000)
        play.fail("stall")
        path = tmp_path / "slip.pdf"
        task = asyncio.ensure_future(play.client.download(document, path, keep_partial=True))
        await until(lambda: len(play.asked) == 2)
        task.cancel()
        await asyncio.wait([task])
        play.service.replace_file(document.document_id)
        await play.client.download(document, path)
        assert files_below(tmp_path) == {"slip.pdf": play.content(document)}


async def test_cancelling_one_harms_no_other(tmp_path: Path) -> None:
    """Two that wait for the same fresh addresses do not depend on each other."""
    async with scene() as play:
        documents = await play.client.get_documents(play.service.world.ids[1])
        first, second, *_ = (document for _, document in documents.all())
        play.service.advance(1000)
        one = asyncio.ensure_future(play.client.download(first, tmp_path / "1"))
        other = asyncio.ensure_future(play.client.download(second, tmp_path / "2"))
        await until(lambda: play.renewals > 0)
        one.cancel()
        await other
        await asyncio.wait([one])
        assert files_below(tmp_path)["2"] == play.content(second)
