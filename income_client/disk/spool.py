"""The bytes of a file between the network and the disk; knows neither of the two.

While a block is written and hashed in a thread, the next one is gathered, so
that the disk and the network work at the same time. Faults come back as
values: the frames that write hold what is in a file.
"""

import asyncio
import hashlib
from collections.abc import Callable
from concurrent.futures import Executor
from types import TracebackType
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from attrs import frozen

from income_client.concurrency import outlast, run_to_the_end
from income_client.errors import DownloadError

from .faults import disk_fault
from .hashed_file import HashedFile, UnnamedFile

T = TypeVar("T")

AT_ONCE: Final = 128 * 1024
"""Bytes that are written at once. A process that is killed loses what it has gathered since."""


class SpoolFile(Protocol):
    """What a spool writes to: a partial file, or one without a name."""

    content: HashedFile
    mark: str | None

    def discard(self) -> None:
        """Throw it away."""

    def keep(self) -> None:
        """Leave it for the next process, if that could use it."""


F = TypeVar("F", bound=SpoolFile)
F_co = TypeVar("F_co", bound=SpoolFile, covariant=True)


class FileSource(Protocol[F_co]):
    """Where a spool gets its file from."""

    def create(self, mark: str | None) -> F_co:
        """Make an empty file for the content with this mark."""

    def close(self) -> None:
        """Let go of what files are made in."""


class UnnamedSource:
    """Makes files without a name, for places that take a file only once it is whole."""

    def create(self, mark: str | None) -> UnnamedFile:
        """Make an empty file."""
        return UnnamedFile(mark)

    def close(self) -> None:
        """Do nothing: they are nowhere."""


@frozen
class Digest:
    """What came of writing a file to its end."""

    size: int
    """Bytes."""
    sha256: str
    """In hex."""


_OF_NOTHING: Final = Digest(0, hashlib.sha256().hexdigest())
_CLOSED: Final = "the file is closed"


class Spool(Generic[F]):
    """A file that is being written, in an event loop that never waits for the disk.

    Leaving it as a context discards it, unless it was kept or concluded.

    Args:
        source: makes the file, with the first block.
        held: what an earlier process has left, to be gone on with.

    Attributes:
        size: bytes accepted so far, those of an earlier process included.
        mark: the mark of what is being written.
        digest: what was written, once `finish` or `conclude` was awaited; of nothing before.
    """

    def __init__(self, source: FileSource[F], held: F | None = None) -> None:
        self._source = source
        self._file = held
        self.size: int = 0 if held is None else held.content.size
        self.mark = None if held is None else held.mark
        self._pieces: list[bytes] = []
        self._gathered = 0
        self._is_to_restart = held is None
        self._in_flight: asyncio.Future[DownloadError | None] | None = None
        self._fault: DownloadError | None = None
        self._is_over = False
        self.digest: Digest = _OF_NOTHING

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.discard()

    @property
    def content(self) -> HashedFile | None:
        """What was written, once `finish` was awaited."""
        return None if self._file is None or self._is_over else self._file.content

    @property
    def head(self) -> bytes:
        """The first bytes, once `finish` was awaited."""
        return b"" if self._file is None else self._file.content.head

    async def write(self, piece: bytes) -> DownloadError | None:
        """Append a piece; wait only while another block is on its way to the disk.

        Returns:
            The fault of this or an earlier block, None if there was none.
        """
        self._pieces.append(piece)
        self._gathered += len(piece)
        self.size += len(piece)
        if self._gathered < AT_ONCE:
            return self._fault
        fault = await self._settled()
        if fault is None:
            self._send_off()
        return fault

    async def start_over(self, mark: str | None) -> DownloadError | None:
        """Forget what was written, for other content or for the same from its front.

        Args:
            mark: the mark of what will come; only a strong one is remembered on disk.
        """
        fault = await self._settled()
        self._pieces = []
        self._gathered = self.size = 0
        self.mark = mark
        self._is_to_restart = True
        return fault

    async def finish(self) -> Digest | DownloadError:
        """Write what is left and tell what the file is, from its first byte on."""
        fault = await self._settled()
        if fault is None and (self._gathered or self._is_to_restart):
            self._send_off()
            fault = await self._settled()
        if fault is not None:
            return fault
        if self._file is None or self._is_over:
            return DownloadError(_CLOSED)
        self.digest = _digest_of(self._file)
        return self.digest

    async def conclude(
        self,
        work: Callable[[F], T],
        on_cancel: Callable[[], None] | None = None,
        executor: Executor | None = None,
    ) -> T | DownloadError:
        """Write what is left, and run the last work on the file in the same thread, to its end.

        The spool is over then, unless the work failed; it is the work that
        publishes the file, or discards it.

        Args:
            work: what to do; an OSError of it becomes a fault.
            on_cancel: called in the event loop to ask the work to end early.
            executor: whose thread, where the work waits for others than the disk.
        """
        fault = await self._settled()
        if fault is not None:
            return fault
        if self._is_over:
            return DownloadError(_CLOSED)
        pieces, self._pieces = self._pieces, []
        return await run_to_the_end(lambda: self._concluded(work, pieces), on_cancel, executor)

    async def discard(self) -> None:
        """Throw the file away; does nothing once it was concluded or kept."""
        await self._end(is_kept=False)

    async def keep(self) -> None:
        """Leave what was written for the next process, if that can go on with it."""
        await self._end(is_kept=True)

    def _send_off(self) -> None:
        pieces, self._pieces = self._pieces, []
        self._gathered = 0
        loop = asyncio.get_running_loop()
        self._in_flight = loop.run_in_executor(None, self._put, pieces)

    async def _settled(self) -> DownloadError | None:
        """Wait for the block that is on its way; it stays so if the wait is cancelled."""
        if self._in_flight is not None:
            await asyncio.wait((self._in_flight,))
            done, self._in_flight = self._in_flight, None
            self._fault = self._fault or done.result()
        return self._fault

    def _put(self, pieces: list[bytes]) -> DownloadError | None:
        try:
            if self._is_to_restart:
                self._restart()
            if self._file is not None:
                self._file.content.write(*pieces)
        except OSError as error:
            return disk_fault(error)
        return None

    def _restart(self) -> None:
        old, self._file = self._file, None
        if old is not None:
            old.discard()
        self._file = self._source.create(self.mark)
        self._is_to_restart = False

    def _concluded(self, work: Callable[[F], T], pieces: list[bytes]) -> T | DownloadError:
        self._fault = self._put(pieces)
        if self._fault is not None or self._file is None:
            return self._fault or DownloadError(_CLOSED)
        self.digest = _digest_of(self._file)
        try:
            outcome = work(self._file)
        except OSError as error:
            return disk_fault(error)
        if not isinstance(outcome, DownloadError):
            self._is_over = True
            self._source.close()
        return outcome

    async def _end(self, *, is_kept: bool) -> None:
        if self._is_over:
            return
        self._is_over = True
        cancellation = None
        if self._in_flight is not None:
            cancellation = await outlast(self._in_flight)
            self._fault = self._fault or self._in_flight.result()
        pieces, self._pieces = self._pieces, []
        await run_to_the_end(lambda: self._ended(pieces, is_kept=is_kept))
        if cancellation is not None:
            raise cancellation

    def _ended(self, pieces: list[bytes], *, is_kept: bool) -> None:
        has_some = bool(pieces) or not self._is_to_restart
        try:
            is_kept = is_kept and has_some and self._fault is None and self._put(pieces) is None
            if self._file is not None and is_kept:
                self._file.keep()
            elif self._file is not None:
                self._file.discard()
        except OSError:
            pass  # who goes away is told nothing more
        finally:
            self._source.close()


def _digest_of(file: SpoolFile) -> Digest:
    return Digest(file.content.size, file.content.sha256)


SomeSpool = Spool[Any]
"""A spool, whatever it writes to."""
