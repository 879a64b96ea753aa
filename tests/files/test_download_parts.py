"""What was left of a file is gone on with only if it is of that very file, and is swept away."""

import asyncio
import os
from pathlib import Path

import pytest

from income_client import Document, DownloadError, IncomeClient
from tests.support.downloads import files_below, mode_of, scene
from tests.support.scripted_storage import storing
from tests.support.service import until

LONG = b"a" * 3_000_000
OTHER = b"b" * 3_000_000


async def left_of(client: IncomeClient, document: Document, path: Path, size: int) -> None:
    """Download until so many bytes came, and keep them."""
    task = asyncio.ensure_future(client.download(document, path, keep_partial=True))

    def is_there() -> bool:
        return any(one.stat().st_size >= size - 2**20 for one in path.parent.glob(".*.part"))

    await until(is_there)
    task.cancel()
    await asyncio.wait([task])


def part_in(folder: Path) -> Path:
    """Return the one part in a folder."""
    (part,) = folder.glob(".*.part")
    return part


def names_in(folder: Path) -> list[str]:
    """Return the names of all that is in a folder."""
    return [one.name for one in folder.iterdir()]


async def test_a_part_goes_on_and_its_type_is_asked_for(tmp_path: Path) -> None:
    """The rest of a file does not say what the file is; its first byte does."""
    async with storing({"/a": LONG}, stops_at={"/a": 2_500_000}) as (play, storage):
        document = storage.at(await play.document(), "/a")
        await left_of(play.client, document, tmp_path / "slip", 2_500_000)
        size = part_in(tmp_path).stat().st_size
        file = await play.client.download(document, tmp_path / "slip")
        assert file.content_type == "text/csv"
        assert files_below(tmp_path) == {"slip": LONG}
        assert [wanted for _, wanted in storage.asked] == [None, "bytes=0-0", f"bytes={size}-"]


async def test_a_part_that_is_whole_is_not_asked_for_again(tmp_path: Path) -> None:
    """A process that was killed before it could name its file had it all."""
    async with scene({"file_bytes": 2_000_000}) as play:
        document = await play.document()
        path = tmp_path / "slip.pdf"
        await play.client.download(document, path)
        play.fail("cut", keep=1_900_000)
        play.fail("stall")
        await left_of(play.client, document, tmp_path / "other.pdf", 1_900_000)
        part = part_in(tmp_path)
        part.write_bytes(path.read_bytes())
        play.service.requests.clear()
        play.service.faults.clear()
        await play.client.download(document, tmp_path / "other.pdf")
        assert play.ranges == ["bytes=0-0"]
        assert set(files_below(tmp_path)) == {"slip.pdf", "other.pdf"}


async def test_a_whole_file_that_finds_another_in_its_place_leaves_no_part(tmp_path: Path) -> None:
    """It came whole: there is nothing to go on with."""
    async with storing({"/a": LONG}) as (play, storage):
        document = storage.at(await play.document(), "/a")
        (tmp_path / "slip").write_bytes(OTHER)
        with pytest.raises(DownloadError, match="another file"):
            await play.client.download(document, tmp_path / "slip", keep_partial=True)
        assert files_below(tmp_path) == {"slip": OTHER}


async def test_the_second_name_of_a_finished_file_is_swept_away(tmp_path: Path) -> None:
    """It is left by a kill between the two steps that give a file its name."""
    async with scene({"file_bytes": 2_000_000}) as play:
        document = await play.document()
        play.fail("cut", keep=1_500_000)
        play.fail("stall")
        path = tmp_path / "slip.pdf"
        await left_of(play.client, document, path, 1_500_000)
        part = part_in(tmp_path)
        part.write_bytes(play.content(document))
        os.link(part, path)
        play.service.faults.clear()
        file = await play.client.download(document, path)
        assert file.was_there
        assert list(files_below(tmp_path)) == ["slip.pdf"]


async def test_the_same_file_under_another_extension_is_the_file(tmp_path: Path) -> None:
    """And one that is another is replaced by overwriting, whatever it was called."""
    async with storing({"/a": b"1,2,3"}) as (play, storage):
        document = storage.at(await play.document(), "/a")
        names = "{document_id}.{ext}"
        first = await play.client.download(document, tmp_path, names=names)
        assert isinstance(first.path, Path)
        assert first.path.suffix == ".csv"
        storage.content_type = "application/json"
        again = await play.client.download(document, tmp_path, names=names)
        assert (again.was_there, again.path) == (True, first.path)
        storage.objects["/a"] = b"[1,2]"
        with pytest.raises(DownloadError, match="another file"):
            await play.client.download(document, tmp_path, names=names)
        new = await play.client.download(document, tmp_path, names=names, overwrite=True)
        assert isinstance(new.path, Path)
        assert files_below(tmp_path) == {new.path.name: b"[1,2]"}
        assert new.path.suffix == ".json"


async def test_a_file_that_was_there_becomes_private(tmp_path: Path) -> None:
    """Whoever put it there may have let others read it."""
    async with scene() as play:
        document = await play.document()
        path = tmp_path / "slip.pdf"
        path.write_bytes(play.content(document))
        path.chmod(0o644)
        assert (await play.client.download(document, path)).was_there
        assert mode_of(path) == 0o600


async def test_a_refusal_makes_no_folder(tmp_path: Path) -> None:
    """Folders are made once there is something to put into them."""
    async with scene() as play:
        document = await play.document()
        play.fail("status", status=400)
        with pytest.raises(DownloadError):
            await play.client.download(document, tmp_path)
        assert names_in(tmp_path) == []
