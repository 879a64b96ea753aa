"""What is a fault of the network, and what is a bug that no retry would mend."""

from pathlib import Path

import aiohttp
import pytest

from income_client import DownloadProgress
from income_client.testing import JumpingClock
from tests.support.folders import files_in
from tests.support.storage import storing


async def test_a_bug_is_not_taken_for_a_fault_of_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes out as it is, at once, and nothing is left of the file."""

    async def broken(*_: object) -> bytes:
        raise AttributeError("a bug")

    def broken_at_once(*_: object) -> bytes:
        raise AttributeError("a bug")

    monkeypatch.setattr(aiohttp.StreamReader, "read_nowait", broken_at_once)
    for name in ("read", "readany", "readchunk"):
        monkeypatch.setattr(aiohttp.StreamReader, name, broken)
    async with storing() as (storage, client):
        document = storage.store("/a", b"file")
        with pytest.raises(AttributeError, match="a bug"):
            await client.download(document, tmp_path / "slip")
        assert len(storage.asked) == 1
    assert files_in(tmp_path) == {}


async def test_a_file_that_came_too_slowly_is_continued_without_a_gap(tmp_path: Path) -> None:
    """The piece after which the connection was given up is in the file, too."""
    clock, content = JumpingClock(), bytes(range(256)) * 16_384
    async with storing(clock=clock) as (storage, client):
        document = storage.store("/slip", content)

        def wait(progress: DownloadProgress) -> None:
            if len(storage.asked) == 1:
                clock.advance(100_000)

        await client.download(document, tmp_path / "slip", on_progress=wait)
        assert storage.asked[1].headers["range"] != "bytes=0-"
    assert (tmp_path / "slip").read_bytes() == content
