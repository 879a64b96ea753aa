"""Files for their owner alone, on file systems of any kind."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from income_client.cli.looking.page_file import write_private
from income_client.cli.private_files import make_folder, put, write


def mode_of(path: Path) -> int:
    """Return who may do what with it."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def without_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no file system know second names, as FAT and some of the network do not."""

    def refused(*_: Any, **__: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)


@pytest.mark.usefixtures("without_links")
def test_a_page_needs_no_second_names(tmp_path: Path) -> None:
    """Where there are none the page is put at its place all the same, and nothing else is left."""
    write_private(tmp_path / "page.html", b"content", overwrite=False)
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]
    assert (tmp_path / "page.html").read_bytes() == b"content"
    assert mode_of(tmp_path / "page.html") == 0o600


@pytest.mark.usefixtures("without_links")
def test_nothing_is_replaced_without_second_names_either(tmp_path: Path) -> None:
    """What stands there stays, a link to nowhere too, and so does the part."""
    (tmp_path / "part").write_text("new")
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("file", "link"):
        with pytest.raises(FileExistsError):
            put(tmp_path / "part", tmp_path / name)
    assert (tmp_path / "file").read_text() == "old"
    assert (tmp_path / "part").read_text() == "new"


def test_what_was_left_half_is_written_anew(tmp_path: Path) -> None:
    """Whatever mode it had; a link's target is left alone."""
    (tmp_path / "other").write_text("other")
    (tmp_path / "file").symlink_to(tmp_path / "other")
    before = os.umask(0o777)
    try:
        write(tmp_path / "file", b"content")
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "file") == 0o600
    assert (tmp_path / "file").read_bytes() == b"content"
    assert (tmp_path / "other").read_text() == "other"


def test_folders_above_are_private_too(tmp_path: Path) -> None:
    """All that were not there, and those that were stay as they are."""
    tmp_path.chmod(0o755)
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    assert mode_of(tmp_path / "a") == mode_of(tmp_path / "a" / "b") == 0o700
    assert mode_of(tmp_path) == 0o755
