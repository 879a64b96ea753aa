"""A file that is in its place already is compared, kept, replaced or refused."""

from pathlib import Path

import pytest

from income_client import DownloadError
from tests.support.downloads import files_below, mode_of, scene
from tests.support.storage import storing
from tests.support.temporary_files import left


def names_in(folder: Path) -> list[str]:
    """Return the names of all that is in a folder."""
    return [one.name for one in folder.iterdir()]


async def test_a_whole_file_that_finds_another_in_its_place_is_discarded(tmp_path: Path) -> None:
    """The one that is there stays, and nothing is left beside it."""
    async with storing() as (storage, client):
        document = storage.store("/a", b"a" * 3_000_000)
        (tmp_path / "slip").write_bytes(b"b" * 3_000_000)
        with pytest.raises(DownloadError, match="another file"):
            await client.download(document, tmp_path / "slip")
        assert files_below(tmp_path) == {"slip": b"b" * 3_000_000}


async def test_the_second_name_of_a_finished_file_is_removed(tmp_path: Path) -> None:
    """It is left by a kill between the two steps that give a file its name."""
    async with scene({"file_bytes": 2_000_000}) as play:
        document = await play.document()
        path = tmp_path / "slip.pdf"
        path.hardlink_to(left(tmp_path, play.content(document)))
        file = await play.client.download(document, path)
        assert file.was_there
        assert play.ranges == ["bytes=0-0"]
        assert list(files_below(tmp_path)) == ["slip.pdf"]


async def test_the_same_file_under_another_extension_is_the_file(tmp_path: Path) -> None:
    """And one that is another is replaced by overwriting, whatever it was called."""
    async with storing() as (storage, client):
        document = storage.store("/a", b"1,2,3", content_type="text/csv")
        names = "{document_id}.{ext}"
        first = await client.download(document, tmp_path, names=names)
        assert isinstance(first.path, Path)
        assert first.path.suffix == ".csv"
        storage.store("/a", b"1,2,3", content_type="application/json")
        again = await client.download(document, tmp_path, names=names)
        assert (again.was_there, again.path) == (True, first.path)
        storage.store("/a", b"[1,2]", content_type="application/json")
        with pytest.raises(DownloadError, match="another file"):
            await client.download(document, tmp_path, names=names)
        new = await client.download(document, tmp_path, names=names, overwrite=True)
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
