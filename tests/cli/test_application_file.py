"""A private file, whole or absent."""

import os
import stat
from pathlib import Path

import pytest

from income_client import ConfigurationError
from income_client.cli.looking.page_file import check_place, write_private


def mode_of(path: Path) -> int:
    """Return who may do what with a file."""
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_whole_and_private(tmp_path: Path) -> None:
    """Only its owner can read it, whatever the mask is, and no part is left."""
    before = os.umask(0)
    try:
        write_private(tmp_path / "page.html", b"content", overwrite=False)
    finally:
        os.umask(before)
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]
    assert (tmp_path / "page.html").read_bytes() == b"content"
    assert mode_of(tmp_path / "page.html") == 0o600


def test_nothing_is_replaced_unasked(tmp_path: Path) -> None:
    """A file that is there stays as it was, and so does a link, even one to nowhere."""
    (tmp_path / "page.html").write_text("old")
    (tmp_path / "link.html").symlink_to(tmp_path / "nowhere")
    for name in ("page.html", "link.html"):
        with pytest.raises(ConfigurationError, match="is there already; --overwrite replaces it"):
            write_private(tmp_path / name, b"new", overwrite=False)
        with pytest.raises(ConfigurationError, match="is there already"):
            check_place(tmp_path / name, overwrite=False)
    assert (tmp_path / "page.html").read_text() == "old"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link.html", "page.html"]


def test_it_is_replaced_where_that_is_asked_for(tmp_path: Path) -> None:
    """What was readable by others no longer is, and what a link leads to is left alone."""
    (tmp_path / "other").write_text("other")
    (tmp_path / "other").chmod(0o644)
    (tmp_path / "page.html").symlink_to(tmp_path / "other")
    check_place(tmp_path / "page.html", overwrite=True)
    write_private(tmp_path / "page.html", b"new", overwrite=True)
    assert (tmp_path / "page.html").read_bytes() == b"new"
    assert not (tmp_path / "page.html").is_symlink()
    assert mode_of(tmp_path / "page.html") == 0o600
    assert (tmp_path / "other").read_text() == "other"


def test_a_place_that_cannot_be_is_said(tmp_path: Path) -> None:
    """A folder, and a folder that is not there, are told before anything is read."""
    with pytest.raises(ConfigurationError, match="is a folder"):
        check_place(tmp_path, overwrite=True)
    with pytest.raises(ConfigurationError, match="there is no folder"):
        check_place(tmp_path / "none" / "page.html", overwrite=False)


def test_a_failure_is_said_in_words(tmp_path: Path) -> None:
    """What the system says is passed on, and the traceback holds no content."""
    with pytest.raises(ConfigurationError, match="no such file or directory") as caught:
        write_private(tmp_path / "none" / "page.html", b"CONTENT", overwrite=False)
    frame = caught.value.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    assert frame is not None
    assert b"CONTENT" not in frame.tb_frame.f_locals.values()
    assert caught.value.__context__ is None
