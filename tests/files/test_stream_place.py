"""Streams of the caller's: nothing goes out before all is there, and what goes wrong is told."""

import asyncio
import io
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from income_client.downloads.destinations import StreamPlace
from income_client.downloads.temporary_file import Spool, TemporaryFile
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
    assert await place.find_existing() == ()
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
    async with Spool(StreamPlace(stream).create) as spool:
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
    async with Spool(place.create) as spool:
        await spool.write(PDF)
        await place.publish(spool)
        for work in (place.publish(spool), spool.finish(TemporaryFile.discard)):
            with pytest.raises(DownloadError, match="closed"):
                await work


class Gated(io.BytesIO):
    """A stream that nobody reads before the gate is open, and that takes so much at a time.

    Attributes:
        began: set once a write is under way.
        flushes: how often it was flushed.
        thread: the one that writes.
    """

    def __init__(self, gate: threading.Event, most: int = len(LONG)) -> None:
        super().__init__()
        self.flushes = 0
        self._most = most
        self.began = asyncio.Event()
        self.thread: threading.Thread | None = None
        self._gate = gate
        self._loop = asyncio.get_running_loop()

    def write(self, data: object) -> int:
        """Wait for the gate."""
        self.thread = threading.current_thread()
        self._loop.call_soon_threadsafe(self.began.set)
        self._gate.wait()
        return super().write(bytes(data)[: self._most])  # type: ignore[call-overload]

    def flush(self) -> None:
        """Count."""
        self.flushes += 1


async def test_streams_that_block_leave_the_threads_of_the_loop_alone() -> None:
    """With more of them than it has threads, the disk and name lookups go on."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
    gate = threading.Event()
    streams = [Gated(gate) for _ in range(5)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(put(StreamPlace(stream), LONG)) for stream in streams]
        try:
            for stream in streams:
                await stream.began.wait()
            assert await asyncio.to_thread(lambda: 5) == 5
            elsewhere = await put(StreamPlace(io.BytesIO()), LONG)
            assert elsewhere == Landed(None, was_there=False)
            assert not any(task.done() for task in tasks)
        finally:
            gate.set()
    assert [stream.getvalue() == LONG for stream in streams] == [True] * 5


@pytest.mark.parametrize(("content", "most"), [(LONG, 7), (LONG, 2**20), (PDF, 2**20)])
async def test_after_a_cancelled_write_the_stream_is_left_alone(content: bytes, most: int) -> None:
    """What is under way comes to its end; neither the rest nor a flush follows."""
    gate = threading.Event()
    stream = Gated(gate, most)
    task = asyncio.create_task(put(StreamPlace(stream), content))
    await stream.began.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stream.getvalue() == content[:most]
    assert stream.flushes == 0


async def test_the_thread_is_let_go() -> None:
    """Once the file is there, the thread that wrote it ends."""
    gate = threading.Event()
    gate.set()
    stream = Gated(gate)
    await put(StreamPlace(stream), PDF)
    assert stream.thread is not None
    stream.thread.join()


async def test_a_thread_that_cannot_be_started_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes back as a value, and the stream was not written to."""
    stream = io.BytesIO()
    real = threading.Thread.start

    def refused_once(thread: threading.Thread) -> None:
        monkeypatch.setattr(threading.Thread, "start", real)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused_once)
    outcome = await put(StreamPlace(stream), PDF)
    assert isinstance(outcome, DownloadError)
    assert str(outcome) == "no thread can be started to write to the stream"
    assert (outcome.__cause__, outcome.__context__) == (None, None)
    assert stream.getvalue() == b""
