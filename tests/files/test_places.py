"""Places of files: which one a destination means, and what disks and streams get."""

import asyncio
import io
import os
import socket
import tempfile
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from income_client.downloads.destinations import DiskPlace, StreamPlace
from income_client.downloads.many import places_in
from income_client.downloads.temporary_file import Spool, TemporaryFile
from income_client.errors import ConfigurationError, DownloadError
from tests.support.downloads import (
    FACTS,
    FLAT,
    LONG,
    PDF,
    SORTED,
    Landed,
    files_below,
    mode_of,
    put,
)

WHERE = "app-1/paystub/doc-1-0.pdf"


# Which place a destination means


async def test_a_path_is_a_folder_or_a_file(tmp_path: Path) -> None:
    """A folder exists, or ends with a separator; any other path is that of a file."""
    (tmp_path / "old").mkdir()
    for folder in ("old", "new/"):
        where = await put(places_in(f"{tmp_path}/{folder}", FLAT)(FACTS), PDF)
        assert where == Landed(tmp_path / folder / "doc-1.pdf", was_there=False)
    for path in (str(tmp_path / "a"), tmp_path / "b", PurePosixPath(tmp_path / "c")):
        assert await put(places_in(path, FLAT)(FACTS), PDF) == Landed(Path(path), was_there=False)


def test_a_stream_has_write() -> None:
    with tempfile.NamedTemporaryFile() as file:
        for stream in (io.BytesIO(), Stream(len), file):
            assert isinstance(places_in(stream, FLAT)(FACTS), StreamPlace)


async def take(_data: bytes) -> None:
    """Take bytes, later."""


def promise(data: bytes) -> Awaitable[None]:
    """Return what takes bytes once it is awaited."""
    return take(data)


class AsyncCallable:
    """An object that is called and awaited."""

    async def __call__(self, _data: bytes) -> None:
        """Take bytes, later."""


class Stream:
    """A destination made of functions."""

    def __init__(self, write: Callable[..., Any], flush: Callable[..., Any] = lambda: None) -> None:
        self.write = write
        self.flush = flush


def test_a_stream_that_must_be_awaited_is_refused() -> None:
    """No byte would be written to it, whatever form its coroutine function has."""
    forms: list[Callable[..., Any]] = [take, partial(take), AsyncCallable()]
    forms.append(partial(AsyncCallable()))
    for stream in (*map(Stream, forms), Stream(io.BytesIO().write, partial(take, b""))):
        with pytest.raises(ConfigurationError, match="not awaited"):
            places_in(stream, FLAT)(FACTS)


async def test_plain_functions_of_any_form_are_taken() -> None:
    """Unless what they return has to be awaited: only the first call tells."""
    for wrap in (lambda write: write, partial, lambda write: partial(partial(write))):
        target = io.BytesIO()
        assert isinstance(await put(StreamPlace(Stream(wrap(target.write))), PDF), Landed)
        assert target.getvalue() == PDF
    outcome = await put(StreamPlace(Stream(promise)), PDF)
    assert str(outcome) == "the stream does not take the file: TypeError"


async def test_a_stream_that_cannot_take_a_file_is_refused(tmp_path: Path) -> None:
    """Text files, closed ones and ones for reading are told apart at once.

    No thread may write to one of the event loop: what to use instead is said.
    """
    closed = io.BytesIO()
    closed.close()
    path = tmp_path / "a"
    with (
        path.open("w") as text,
        path.open("rb") as reading,
        tempfile.NamedTemporaryFile("w") as wrapped,
    ):
        for stream in (io.StringIO(), text, closed, reading, wrapped):
            with pytest.raises(ConfigurationError):
                places_in(stream, FLAT)(FACTS)
    near, far = socket.socketpair()
    with far:
        _, writer = await asyncio.open_connection(sock=near)
        for of_the_loop in (writer, writer.transport):
            with pytest.raises(ConfigurationError, match=r"use io\.BytesIO\(\) or a path"):
                places_in(of_the_loop, FLAT)(FACTS)
        writer.close()
        await writer.wait_closed()


# On the disk


async def test_a_file_lands_below_its_folder(tmp_path: Path) -> None:
    """Missing folders are made for their owner alone, once; to look makes none."""
    top = tmp_path / "new" / "er"
    before = os.umask(0)
    try:
        place = DiskPlace.below(top, SORTED, FACTS)
        assert await place.find_existing() == ()
        assert os.listdir(tmp_path) == []  # noqa: PTH208 - a folder counts too
        assert await put(place, PDF) == Landed(top / WHERE, was_there=False)
    finally:
        os.umask(before)
    assert files_below(tmp_path / "new") == {f"er/{WHERE}": PDF}
    assert mode_of(top / WHERE) == 0o600
    folders = [tmp_path / "new", top, top / "app-1", top / "app-1" / "paystub"]
    assert {mode_of(one) for one in folders} == {0o700}
    folders[-1].chmod(0o755)
    assert await put(place, PDF) == Landed(top / WHERE, was_there=True)
    assert mode_of(folders[-1]) == 0o755


async def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "any name.x"
    assert await put(DiskPlace.at(path), PDF) == Landed(path, was_there=False)
    assert files_below(tmp_path) == {"any name.x": PDF}
    assert mode_of(path) == 0o600
    missing = DiskPlace.at(tmp_path / "missing" / "a")
    assert str(await put(missing, PDF)).endswith("no such file or directory")
    with pytest.raises(DownloadError, match="no such file"):
        await missing.find_existing()
    for no_file in ("", ".", "..", "/", "a/.."):
        with pytest.raises(ConfigurationError):
            DiskPlace.at(Path(no_file))


async def test_a_path_is_fixed_when_it_is_given_and_a_folder_may_be_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later change of the working folder has no effect; links in the path are followed."""
    (tmp_path / "true").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "true")
    monkeypatch.chdir(tmp_path)
    places = DiskPlace.at(Path("a")), *(DiskPlace.below(Path(x), FLAT, FACTS) for x in ("", "link"))
    monkeypatch.chdir("/")
    for place in places:
        await put(place, PDF)
    assert files_below(tmp_path).keys() >= {"a", "doc-1.pdf", "true/doc-1.pdf"}


# Streams


class Slow(io.BytesIO):
    """A stream that takes so much at a time, and nothing before its gate is open.

    Attributes:
        began: set once a write is under way.
        flushes: how often it was flushed.
        thread: the one that writes.
    """

    def __init__(self, most: int = len(LONG), gate: threading.Event | None = None) -> None:
        super().__init__()
        self.flushes = 0
        self.began = asyncio.Event()
        self.thread: threading.Thread | None = None
        self._most = most
        self._gate = gate
        self._loop = asyncio.get_running_loop()

    def write(self, data: object) -> int:
        """Wait for the gate."""
        self.thread = threading.current_thread()
        self._loop.call_soon_threadsafe(self.began.set)
        if self._gate is not None:
            self._gate.wait()
        return super().write(bytes(data)[: self._most])  # type: ignore[call-overload]

    def flush(self) -> None:
        """Count."""
        self.flushes += 1


async def test_a_stream_gets_the_whole_file(tmp_path: Path) -> None:
    """The file is written at the stream's position, once it is whole; the stream stays open."""
    stream = io.BytesIO()
    async with Spool(StreamPlace(stream).create) as spool:
        await spool.write(LONG)
    assert stream.getvalue() == b""
    stream.write(b"before ")
    place = StreamPlace(stream)
    assert await place.find_existing() == ()
    assert await put(place, LONG) == Landed(None, was_there=False)
    assert stream.getvalue() == b"before " + LONG
    with (tmp_path / "a").open("wb") as buffered:
        await put(StreamPlace(buffered), PDF)
        assert (tmp_path / "a").stat().st_size == len(PDF)
        assert not buffered.closed


async def test_a_stream_says_how_much_it_takes() -> None:
    """The rest is offered again; one that does not say took all, one that takes none is left."""
    for content, most in ((LONG, 300_000), (PDF, 1)):
        stream = Slow(most)
        assert await put(StreamPlace(stream), content) == Landed(None, was_there=False)
        assert stream.getvalue() == content
    taken: list[bytes] = []
    assert isinstance(await put(StreamPlace(Stream(taken.append)), LONG), Landed)
    assert b"".join(taken) == LONG
    assert isinstance(await put(StreamPlace(Slow(0)), PDF), DownloadError)


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


async def test_an_error_of_a_stream_is_told_without_its_text() -> None:
    """The text may be private: the error has only its class, or the words of the system."""
    for fault in (ValueError, RuntimeError, KeyError):

        def fail(_data: bytes, fault: type[Exception] = fault) -> None:
            raise fault("S3CRET")

        outcome = await put(StreamPlace(Stream(fail)), PDF)
        assert str(outcome) == f"the stream does not take the file: {fault.__name__}"
    with io.FileIO("/dev/full", "w") as stream:
        outcome = await put(StreamPlace(stream), PDF)
    assert str(outcome) == "the file cannot be kept: no space left on device"


async def test_a_spool_serves_once() -> None:
    place = StreamPlace(io.BytesIO())
    async with Spool(place.create) as spool:
        await spool.write(PDF)
        await place.publish(spool)
        for work in (place.publish(spool), spool.finish(TemporaryFile.discard)):
            with pytest.raises(DownloadError, match="closed"):
                await work


async def test_streams_that_block_leave_the_threads_of_the_loop_alone() -> None:
    """With more of them than it has threads, the disk and name lookups go on."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
    gate = threading.Event()
    streams = [Slow(gate=gate) for _ in range(5)]
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
    for stream in streams:
        assert stream.getvalue() == LONG
        assert stream.thread is not None
        stream.thread.join()


@pytest.mark.parametrize(("content", "most"), [(LONG, 7), (LONG, 2**20), (PDF, 2**20)])
async def test_after_a_cancelled_write_the_stream_is_left_alone(content: bytes, most: int) -> None:
    """The write under way ends; neither the rest of the file nor a flush follows."""
    gate = threading.Event()
    stream = Slow(most, gate)
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


async def test_a_thread_that_cannot_be_started_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
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
