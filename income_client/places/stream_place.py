"""A file that is handed to an object of the caller's with ``write``; knows nothing of that object.

What has begun to go out cannot be taken back, so the file is on this machine,
whole, before its first byte goes.
"""

import errno
import inspect
import io
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol

from income_client.disk.hashed_file import UnnamedFile
from income_client.disk.spool import SomeSpool
from income_client.errors import DownloadError

from .place import Present, Published, unnamed_spool


class BinaryStream(Protocol):
    """What a caller gives to be written to."""

    def write(self, data: bytes, /) -> Any:
        """Take bytes, and tell how many if not all.

        None stands for all of them; of an `io.RawIOBase`, for none.
        """


_STOPPED: Final = "the copy was stopped"
_NO_THREAD: Final = "no thread can be started to write to the stream"


class StreamPlace:
    """A stream of the caller's, written to in a thread of its own, flushed and never closed.

    A stream may keep its writer waiting for as long as its reader likes. Cancelling
    waits too, for the ``write`` or ``flush`` that is under way; no other follows it.

    Args:
        stream: a binary one. Others leave it alone until the file is published.
    """

    def __init__(self, stream: BinaryStream) -> None:
        self._stream = stream
        self._is_stopped = False

    async def begin(self) -> SomeSpool | DownloadError:
        """See `Place.begin`; nothing is ever left for a later process."""
        return unnamed_spool()

    async def present(self) -> tuple[Present, ...] | DownloadError:
        """Return nothing: of a stream nothing is known."""
        return ()

    async def publish(
        self,
        spool: SomeSpool,
        *,
        content_type: str | None = None,  # noqa: ARG002 - a stream has no name
        overwrite: bool = False,  # noqa: ARG002 - nor anything to replace
    ) -> Published | DownloadError:
        """See `Place.publish`; a copy that fails or is cancelled has gone out in part."""
        # Streams that nobody reads would hold all threads of the event loop.
        executor = ThreadPoolExecutor(1, "income_client.stream")
        try:
            return await spool.conclude(self._copy, self._stop, executor)
        except RuntimeError:
            return DownloadError(_NO_THREAD)
        finally:
            executor.shutdown(wait=False)

    def _stop(self) -> None:
        self._is_stopped = True

    def _copy(self, file: UnnamedFile) -> Published | DownloadError:
        fault = self._tried(file)
        if fault is not None:
            return fault
        file.discard()
        return Published(None, was_there=False)

    def _tried(self, file: UnnamedFile) -> DownloadError | None:
        try:
            for block in file.content.blocks():
                self._write(block)
                if self._is_stopped:
                    return DownloadError(_STOPPED)
            flush = getattr(self._stream, "flush", None)
            if callable(flush):
                flush()
        except OSError:
            raise  # told like a fault of the disk
        except Exception as error:  # noqa: BLE001 - the stream is the caller's
            return DownloadError(f"the stream does not take the file: {type(error).__name__}")
        return None

    def _write(self, block: bytes) -> None:
        rest = block
        while rest and not self._is_stopped:
            taken = self._stream.write(rest)
            if inspect.isawaitable(taken):
                if inspect.iscoroutine(taken):
                    taken.close()
                raise TypeError("write() returned an awaitable, so it has written nothing")
            # A raw stream may take less; one that does not say took all.
            if taken is None and isinstance(self._stream, io.RawIOBase):
                raise BlockingIOError(errno.EAGAIN, "the stream would block")
            if not isinstance(taken, int):
                return
            if not 0 < taken <= len(rest):
                raise ValueError("a stream takes at least one byte")
            rest = rest[taken:]
