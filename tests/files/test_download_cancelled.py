"""A download that is cancelled, wherever it is, leaves no file, no connection and no task."""

import asyncio
from pathlib import Path

from tests.support.downloads import files_below, scene
from tests.support.service import until


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
