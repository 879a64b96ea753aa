"""Where a file may go: folders, paths, open files; nothing is overwritten silently."""

import io
from pathlib import Path

import pytest
from attrs import evolve

from income_client import (
    ConfigurationError,
    DocumentEntry,
    DownloadError,
)
from tests.support.downloads import scene


async def test_in_a_folder_names_come_from_a_template(tmp_path: Path) -> None:
    """By default application, type and id; the partner's own name on request."""
    async with scene() as play:
        document = await play.document()
        source = document.source
        assert source is not None
        first = await play.client.download(document, tmp_path)
        assert first.path == tmp_path / source.application_id / source.document_type / (
            f"{document.document_id}-0.pdf"
        )
        named = await play.client.download(
            document, f"{tmp_path}/new/", names="{file_reference_id}.{ext}"
        )
        assert isinstance(named.path, Path)
        assert named.path.parent == tmp_path / "new"
        assert named.path.stem.startswith(document.file_reference_ids[0].partition(".")[0])


async def test_a_document_can_be_given_with_its_type(tmp_path: Path) -> None:
    """An entry of `all()` is as good as its document, also without a source."""
    async with scene() as play:
        document = evolve(await play.document(), source=None)
        entry = DocumentEntry("unknown_form", document)
        file = await play.client.download(entry, tmp_path, names="{document_type}-{document_id}")
        assert file.path == tmp_path / f"unknown_form-{document.document_id}"
        assert file.application_id is None
        with pytest.raises(ConfigurationError, match="application_id"):
            await play.client.download(document, tmp_path)


async def test_an_open_file_gets_all_of_it_or_nothing(tmp_path: Path) -> None:
    """It is written once the file is whole, and stays open."""
    async with scene() as play:
        document = await play.document()
        target = io.BytesIO()
        play.fail("cut", keep=5000)
        file = await play.client.download(document, target)
        assert file.path is None
        assert target.getvalue() == play.content(document)
        play.fail("status", status=400)
        with pytest.raises(DownloadError):
            await play.client.download(document, target)
        assert target.getvalue() == play.content(document)
