"""Streams of the caller's: nothing goes out before all is there, and what goes wrong is told."""

import asyncio
import io
import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from income_client.downloads.destinations import StreamPlace
from income_client.downloads.part_file import PartFile
from income_client.errors import DownloadError
from tests.support.cancelled import CancelledAt
from tests.support.places import LONG, PDF, Landed, put


class Picky(io.RawIOBase):
    """A raw stream that takes little at a time."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.taken = b""
        self._most = most

    def writable(self) -> bool:
        """Say that it is."""
        return True

    def write(self, data: object) -> int:
        """Take some."""
        piece = bytes(data)[: self._most]  # type: ignore[call-overload]
        self.taken += piece
        return len(piece)


def descriptors() -> int:
    """Return how many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_stream_gets_the_whole_file() -> None:
    """It is written to where it stands, and stays open."""
    stream = io.BytesIO()
    stream.write(b"before ")
    place = StreamPlace(stream)
    assert await place.present() == ()
    assert await put(place, LONG) == Landed(None, was_there=False)
    assert stream.getvalue() == b"before " + LONG


async def test_a_stream_is_flushed(tmp_path: Path) -> None:
    """What has come through is there for others to read."""
    with (tmp_path / "a").open("wb") as stream:
        await put(StreamPlace(stream), PDF)
        assert (tmp_path / "a").stat().st_size == len(PDF)
        assert not stream.closed


async def test_nothing_goes_out_of_a_file_that_is_not_whole() -> None:
    """A download that ends early has written nothing."""
    stream = io.BytesIO()
    spool = await StreamPlace(stream).begin()
    async with spool:
        await spool.start_over(None)
        await spool.write(LONG)
    assert stream.getvalue() == b""


async def test_a_stream_that_takes_little_gets_all() -> None:
    """A raw stream says how much it took; the rest is offered again."""
    stream = Picky(300_000)
    assert await put(StreamPlace(stream), LONG) == Landed(None, was_there=False)
    assert stream.taken == LONG


async def test_a_stream_that_would_block_has_not_taken_the_file() -> None:
    """A raw stream that returns None took nothing, and the rest would be missing."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with io.FileIO(reading) as reader:
        with io.FileIO(writing, "w") as stream:
            outcome = await put(StreamPlace(stream), LONG)
        assert isinstance(outcome, DownloadError)
        assert str(outcome) == "the file cannot be kept: the stream would block"
        assert len(reader.readall()) < len(LONG)


async def test_a_stream_that_does_not_say_took_all() -> None:
    """An object that is not of the standard library need not count."""

    class Silent:
        taken = b""

        def write(self, data: bytes) -> None:
            """Take all."""
            self.taken += data

    stream = Silent()
    assert await put(StreamPlace(stream), LONG) == Landed(None, was_there=False)
    assert stream.taken == LONG


async def test_a_full_stream_is_told() -> None:
    """An error of the system comes with its own words."""
    with io.FileIO("/dev/full", "w") as stream:
        outcome = await put(StreamPlace(stream), PDF)
    assert isinstance(outcome, DownloadError)
    assert str(outcome) == "the file cannot be kept: no space left on device"


@pytest.mark.parametrize("fault", [ValueError, RuntimeError, KeyError])
async def test_another_error_of_a_stream_is_told_without_its_text(fault: type[Exception]) -> None:
    """What is in it is not known; its kind is enough."""

    class Broken(io.BytesIO):
        def write(self, data: object) -> int:
            raise fault("S3CRET")

    outcome = await put(StreamPlace(Broken()), PDF)
    assert isinstance(outcome, DownloadError)
    assert str(outcome) == f"the stream does not take the file: {fault.__name__}"
    assert (outcome.__cause__, outcome.__context__) == (None, None)


async def test_a_stream_that_takes_nothing_is_not_asked_for_ever() -> None:
    """It is told, like any other that fails."""
    assert isinstance(await put(StreamPlace(Picky(0)), PDF), DownloadError)


async def test_a_copy_that_is_cancelled_ends_between_two_blocks() -> None:
    """Nobody writes to the stream once the cancellation has come through."""
    gate, began = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    class Slow(io.BytesIO):
        def write(self, data: object) -> int:
            loop.call_soon_threadsafe(began.set)
            gate.wait()
            return super().write(data)  # type: ignore[arg-type]

    stream = Slow()
    task = asyncio.create_task(put(StreamPlace(stream), LONG))
    await began.wait()
    task.cancel()
    await asyncio.sleep(0)
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(stream.getvalue()) == 2**20


async def test_cancelled_at_any_await_it_leaves_no_descriptor() -> None:
    """Temporary files have no names, and their descriptors go with them."""
    await put(StreamPlace(io.BytesIO()), PDF)
    before = descriptors()
    for number in range(1000):
        attempt = CancelledAt(put(StreamPlace(io.BytesIO()), LONG), number)
        with suppress(asyncio.CancelledError):
            await attempt
        assert descriptors() == before
        if not attempt.is_cancelled:
            break
    assert number > 3


async def test_a_spool_serves_once() -> None:
    """What was published is not published again."""
    place = StreamPlace(io.BytesIO())
    spool = await place.begin()
    async with spool:
        await spool.write(PDF)
        await place.publish(spool)
        for work in (place.publish(spool), spool.finish(PartFile.discard)):
            with pytest.raises(DownloadError, match="closed"):
                await work
