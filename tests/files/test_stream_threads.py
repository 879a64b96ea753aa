"""Threads of streams: each has its own, so that slow readers hold up nobody else."""

import asyncio
import io
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from income_client.downloads.destinations import StreamPlace
from income_client.errors import DownloadError
from tests.support.places import LONG, PDF, Landed, put


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
