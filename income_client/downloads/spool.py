"""The bytes of a file between the network and the disk.

While a block is written and hashed in a thread, the next one is gathered, so that the disk and
the network work at the same time, and the event loop never waits for the disk.
"""

import asyncio
import hashlib
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from attrs import frozen

from income_client.concurrency import outlast, run_to_the_end
from income_client.errors import DownloadError

from .part_file import HashedFile, disk_fault

T = TypeVar("T")
F = TypeVar("F", bound=HashedFile)

AT_ONCE: Final = 128 * 1024
"""Bytes that are written at once. A process that is killed loses what it has gathered since."""


@frozen
class Digest:
    """Length and hash of a file."""

    size: int
    """Bytes."""
    sha256: str
    """In hex."""


_OF_NOTHING: Final = Digest(0, hashlib.sha256().hexdigest())
_CLOSED: Final = "the file is closed"


class Spool(Generic[F]):
    """A file that is being written; every method raises `DownloadError` if the disk has failed.

    Leaving it as a context discards the file, unless it was kept or concluded.

    Args:
        create: makes an empty file for the content with this mark, with the first block.
        held: what an earlier process has left, to be continued.

    Attributes:
        size: bytes accepted so far, those of an earlier process included.
        mark: the mark of what is being written.
        digest: what was written, once `finish` or `conclude` was awaited; of nothing before.
    """

    def __init__(self, create: Callable[[str | None], F], held: F | None = None) -> None:
        self._create = create
        self._file = held
        self.size: int = 0 if held is None else held.size
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
    def file(self) -> F:
        """The file, once `finish` was awaited."""
        if self._file is None or self._is_over:
            raise DownloadError(_CLOSED)
        return self._file

    async def write(self, piece: bytes) -> None:
        """Append a piece; wait only while another block is on its way to the disk."""
        self._pieces.append(piece)
        self._gathered += len(piece)
        self.size += len(piece)
        if self._gathered >= AT_ONCE:
            await self._settled()
            self._send_off()
        elif self._fault is not None:
            raise self._fault

    async def start_over(self, mark: str | None) -> None:
        """Forget what was written; only a strong mark of what will come is remembered on disk."""
        await self._settled()
        self._pieces = []
        self._gathered = self.size = 0
        self.mark = mark
        self._is_to_restart = True

    async def finish(self) -> Digest:
        """Write what is left and tell what the file is, from its first byte on."""
        await self._settled()
        if self._gathered or self._is_to_restart:
            self._send_off()
            await self._settled()
        self.digest = Digest(self.file.size, self.file.sha256)
        return self.digest

    async def conclude(
        self,
        work: Callable[[F], T],
        on_cancel: Callable[[], None] | None = None,
        executor: Executor | None = None,
    ) -> T:
        """Write what is left, and run the last work on the file in the same thread, to its end.

        The spool is over then, unless the work failed; it is the work that publishes the file, or
        discards it.

        Args:
            work: what to do; an OSError of it becomes a DownloadError.
            on_cancel: called in the event loop to ask the work to end early.
            executor: whose thread, where the work waits for others than the disk.
        """
        await self._settled()
        if self._is_over:
            raise DownloadError(_CLOSED)
        pieces, self._pieces = self._pieces, []
        return await run_to_the_end(lambda: self._concluded(work, pieces), on_cancel, executor)

    async def discard(self) -> None:
        """Throw the file away; does nothing once it was concluded or kept."""
        await self._end(is_kept=False)

    async def keep(self) -> None:
        """Leave what was written for the next process, if that can continue it."""
        await self._end(is_kept=True)

    def _send_off(self) -> None:
        pieces, self._pieces = self._pieces, []
        self._gathered = 0
        loop = asyncio.get_running_loop()
        self._in_flight = loop.run_in_executor(None, self._put, pieces)

    async def _settled(self) -> None:
        """Wait for the block that is on its way; it stays so if the wait is cancelled."""
        if self._in_flight is not None:
            await asyncio.wait((self._in_flight,))
            done, self._in_flight = self._in_flight, None
            self._fault = self._fault or done.result()
        if self._fault is not None:
            raise self._fault

    def _put(self, pieces: list[bytes]) -> DownloadError | None:
        """Write a block in a thread; return the error, since nobody may wait for the thread."""
        try:
            if self._is_to_restart:
                self._restart()
            if self._file is not None:
                self._file.write(*pieces)
        except OSError as error:
            return disk_fault(error)
        return None

    def _restart(self) -> None:
        old, self._file = self._file, None
        if old is not None:
            old.discard()
        self._file = self._create(self.mark)
        self._is_to_restart = False

    def _concluded(self, work: Callable[[F], T], pieces: list[bytes]) -> T:
        self._fault = self._put(pieces)
        if self._fault is not None or self._file is None:
            raise self._fault or DownloadError(_CLOSED)
        self.digest = Digest(self._file.size, self._file.sha256)
        try:
            outcome = work(self._file)
        except OSError as error:
            raise disk_fault(error) from None
        self._is_over = True
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
        # The download has an error or a result already: this one would hide it.
        with suppress(OSError):
            is_kept = is_kept and has_some and self._fault is None and self._put(pieces) is None
            if self._file is not None and is_kept:
                self._file.keep()
            elif self._file is not None:
                self._file.discard()


SomeSpool = Spool[Any]
"""A spool, whatever it writes to."""
