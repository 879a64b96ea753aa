"""Files come without the calls that only POSIX has: locks, owners, modes, reads at a place."""

import os
import sys
from pathlib import Path

import pytest

from income_client import DownloadError
from tests.support.folders import files_in
from tests.support.storage import storing
from tests.support.temporary_files import left

MISSING = ("fchmod", "geteuid", "posix_fadvise", "pread", "writev")


@pytest.mark.parametrize("size", [10, 40_000_000], ids=["short", "long"])
async def test_files_come_without_locks_owners_and_modes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """A file is put at its place, refused where another one is, or replaces that."""
    other = left(tmp_path, b"of a process that may be at work")
    for name in MISSING:
        monkeypatch.delattr(os, name)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    async with storing() as (storage, client):
        document = storage.store("/a", bytes(size))
        await client.download(document, tmp_path / "new")
        (tmp_path / "old").write_bytes(b"another")
        with pytest.raises(DownloadError, match="another file"):
            await client.download(document, tmp_path / "old")
        assert other.exists()
        other.unlink()
        assert files_in(tmp_path) == {"new": bytes(size), "old": b"another"}
        await client.download(document, tmp_path / "old", overwrite=True)
        with (tmp_path / "stream").open("wb") as stream:
            await client.download(document, stream)
    assert files_in(tmp_path) == dict.fromkeys(("new", "old", "stream"), bytes(size))
