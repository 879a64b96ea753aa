"""A file that is handed to an object of the caller's with ``write``; knows nothing of that object.

What has begun to go out cannot be taken back, so the file is on this machine,
whole, before its first byte goes.
"""

from typing import Any, Final, Protocol

from income_client.disk.hashed_file import UnnamedFile
from income_client.disk.spool import SomeSpool
from income_client.errors import DownloadError

from .place import Present, Published, unnamed_spool


class BinaryStream(Protocol):
    """What a caller gives to be written to."""

    def write(self, data: bytes, /) -> Any:
        """Take bytes, and tell how many if not all."""


_STOPPED: Final = "the copy was stopped"


class StreamPlace:
    """A stream of the caller's, written to in a thread, flushed and never closed.

    Args:
        stream: a binary one. Others leave it alone until the file is published.
    """

    def __init__(self, stream: BinaryStream) -> None:
        self._stream = stream
        self._is_stopped = False

    async def begin(self) -> SomeSpool | DownloadError:
        """See `Place.begin`; nothing is ever left for a later process."""
        return unnamed_spool()

    async def present(self) -> Present | DownloadError | None:
        """Return None: of a stream nothing is known."""
        return None

    async def publish(
        self,
        spool: SomeSpool,
        *,
        content_type: str | None = None,  # noqa: ARG002 - a stream has no name
        overwrite: bool = False,  # noqa: ARG002 - nor anything to replace
    ) -> Published | DownloadError:
        """See `Place.publish`; a copy that fails or is cancelled has gone out in part."""
        return await spool.conclude(self._copy, on_cancel=self._stop)

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
                if self._is_stopped:
                    return DownloadError(_STOPPED)
                self._write(block)
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
        while rest:
            taken = self._stream.write(rest)
            # A raw stream may take less; one that does not say took all.
            if not isinstance(taken, int):
                return
            if not 0 < taken <= len(rest):
                raise ValueError("a stream takes at least one byte")
            rest = rest[taken:]
