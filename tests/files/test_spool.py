"""The spool: blocks in flight, one at a time, and what is there in the end."""

import asyncio
import hashlib
import resource
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from income_client.downloads.temporary_file import AT_ONCE, Spool, TemporaryFile
from income_client.errors import DownloadError
from tests.support.temporary_files import contents

MANY = [bytes([number]) * 100_000 for number in range(40)]


def spool_in(path: Path) -> Spool:
    """Return a spool that writes to a folder."""
    return Spool(partial(TemporaryFile.create, path))


async def write_all(spool: Spool, pieces: list[bytes]) -> None:
    """Write all of them."""
    for piece in pieces:
        await spool.write(piece)


async def finished(spool: Spool) -> tuple[int, str]:
    """Write what is left, and return size and hash of the file."""
    file = await spool.finish(lambda file: file)
    return file.size, file.sha256


def digest_of(content: bytes) -> tuple[int, str]:
    """Return size and hash of a content."""
    return len(content), hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("pieces", [[], [b"x"], [b"x" * AT_ONCE], [b"x" * (3 * AT_ONCE + 1)], MANY])
async def test_pieces_become_a_file(tmp_path: Path, pieces: list[bytes]) -> None:
    """Whatever their size, all are in the file, in order, and so its digest says."""
    async with spool_in(tmp_path) as spool:
        await spool.start_over()
        for piece in pieces:
            await spool.write(piece)
        whole = b"".join(pieces)
        assert await finished(spool) == digest_of(whole)
        assert contents(tmp_path) == {".part": whole}
    assert contents(tmp_path) == {}


async def test_a_small_file_is_one_hop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of it goes to a thread before its last piece, which makes, writes and publishes."""
    hops: list[object] = []
    loop = asyncio.get_running_loop()
    real = loop.run_in_executor

    def counted(*work: Any) -> Any:
        hops.append(work)
        return real(*work)

    monkeypatch.setattr(loop, "run_in_executor", counted)
    async with spool_in(tmp_path) as spool:
        for piece in (b"a" * 50_000, b"b" * 50_000):
            await spool.write(piece)
        assert hops == []
        await spool.finish(lambda file: file.publish(tmp_path / "a", overwrite=False))
    assert len(hops) == 1
    assert len(contents(tmp_path)["a"]) == 100_000


async def test_one_block_is_in_flight_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow disk slows the writer down; memory holds two blocks, and no thread meets another."""
    gate = threading.Event()
    at_work: list[int] = []
    real = TemporaryFile.write

    def slow(file: TemporaryFile, block: bytes) -> None:
        at_work.append(len(block))
        assert len(at_work) == 1
        gate.wait()
        at_work.clear()
        real(file, block)

    monkeypatch.setattr(TemporaryFile, "write", slow)
    async with Spool(TemporaryFile.unnamed) as spool:
        await spool.write(b"a" * AT_ONCE)  # not waited for
        await spool.write(b"b" * (AT_ONCE - 1))
        blocked = asyncio.ensure_future(spool.write(b"b"))
        await asyncio.sleep(0)
        assert not blocked.done()
        gate.set()
        await blocked
        assert await finished(spool) == digest_of(b"a" * AT_ONCE + b"b" * AT_ONCE)


@pytest.mark.parametrize("pieces", [MANY, [b"short"]])
async def test_another_version_starts_from_its_front(tmp_path: Path, pieces: list[bytes]) -> None:
    """What was written of the old one is gone, on disk too, whether it was written or gathered."""
    async with spool_in(tmp_path) as spool:
        await write_all(spool, pieces)
        await spool.start_over()
        await spool.write(b"new")
        assert await finished(spool) == digest_of(b"new")
        assert contents(tmp_path) == {".part": b"new"}
    assert contents(tmp_path) == {}


async def test_an_empty_new_version_is_empty(tmp_path: Path) -> None:
    """Starting over and then finishing without a piece is a file without content."""
    async with spool_in(tmp_path) as spool:
        await write_all(spool, MANY)
        await spool.start_over()
        assert await finished(spool) == digest_of(b"")
    assert contents(tmp_path) == {}


async def test_a_full_disk_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    """It comes in the system's own words, and nothing can follow what is missing."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with spool_in(tmp_path) as spool:
        resource.setrlimit(resource.RLIMIT_FSIZE, (AT_ONCE, hard))
        try:
            with pytest.raises(DownloadError) as caught:
                await write_all(spool, MANY)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        assert str(caught.value) == "the file cannot be kept: file too large"
        assert not caught.value.retryable
        with pytest.raises(DownloadError, match="closed"):
            await finished(spool)
    assert contents(tmp_path) == {}


async def test_a_folder_that_cannot_take_a_file_is_an_error(tmp_path: Path) -> None:
    """A folder that was removed meanwhile is a download error."""
    path = tmp_path / "folder"
    path.mkdir()
    async with spool_in(path) as spool:
        path.rmdir()
        await spool.write(b"x")
        with pytest.raises(DownloadError, match="kept: no such file or directory"):
            await finished(spool)
