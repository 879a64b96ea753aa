"""A file that is written from front to back and hashed on the way; knows no name and no place.

Everything here is done in threads, by one at a time.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from income_client.downloads.naming import HEAD_BYTES

from .folders import sync_descriptor

BLOCK: Final = 2**20
"""Bytes that are read at once."""

_AHEAD: Final = 32 * BLOCK


class HashedFile:
    """An open file, its size and the SHA-256 of what is in it.

    Args:
        descriptor: opened for reading and writing; closed with it.
        is_lasting: whether it is to be brought to the disk in the end.

    Attributes:
        size: bytes written.
        head: the first of them, enough to tell the format.
    """

    def __init__(self, descriptor: int, *, is_lasting: bool = False) -> None:
        self._file = os.fdopen(descriptor, "r+b", buffering=0)
        self._is_lasting = is_lasting
        self.rewind()

    @property
    def is_closed(self) -> bool:
        """Whether it was let go of."""
        return self._file.closed

    @property
    def descriptor(self) -> int:
        """What the operating system knows it by."""
        return self._file.fileno()

    @property
    def sha256(self) -> str:
        """The SHA-256 of what was written so far, in hex."""
        return self._hash.hexdigest()

    def write(self, *pieces: bytes) -> None:
        """Append all of them.

        Raises:
            OSError: the disk does not take them.
        """
        block = b"".join(pieces)
        rest = memoryview(block)
        while rest:
            rest = rest[os.write(self.descriptor, rest) :]
        self._count(block)
        if self._is_lasting and self.size - self._handed_over >= _AHEAD:
            self._hand_over()

    def read_in(self) -> None:
        """Count and hash what was in the file before it was opened."""
        self.rewind()
        while block := os.read(self.descriptor, BLOCK):
            self._count(block)

    def rewind(self) -> None:
        """Start again from the front."""
        self._hash = hashlib.sha256()
        self.size: int = 0
        self._handed_over = 0
        self.head: bytes = b""
        if self._file.seekable():
            self._file.seek(0)

    def truncate(self) -> None:
        """Throw away what was written.

        Raises:
            OSError: the disk refuses.
        """
        os.ftruncate(self.descriptor, 0)
        self.rewind()

    def sync(self) -> None:
        """Bring it to the disk.

        Raises:
            OSError: the disk fails.
        """
        sync_descriptor(self.descriptor)

    def blocks(self, size: int = BLOCK) -> Iterator[bytes]:
        """Yield what was written, in blocks of so many bytes."""
        for start in range(0, self.size, size):
            self._file.seek(start)
            yield self._file.read(min(size, self.size - start))

    def close(self) -> None:
        """Let go of it; a second time does nothing."""
        self._file.close()

    def _hand_over(self) -> None:
        """Have the disk begin with what it would have to do at the end, all at once."""
        # Linux starts to write such pages back, and does not wait for it.
        if hasattr(os, "posix_fadvise"):
            length = self.size - self._handed_over
            with suppress(OSError):
                os.posix_fadvise(self.descriptor, self._handed_over, length, os.POSIX_FADV_DONTNEED)
        self._handed_over = self.size

    def _count(self, data: bytes) -> None:
        self._hash.update(data)
        self.size += len(data)
        if len(self.head) < HEAD_BYTES:
            self.head += data[: HEAD_BYTES - len(self.head)]


class UnnamedFile:
    """A temporary file without a name: it is gone with its last descriptor, whatever happens.

    Attributes:
        content: what is in it.
        mark: the mark of what is being written.
    """

    def __init__(self, mark: str | None) -> None:
        with tempfile.TemporaryFile(buffering=0) as file:
            self.content: HashedFile = HashedFile(os.dup(file.fileno()))
        self.mark = mark

    def discard(self) -> None:
        """Throw it away."""
        self.content.close()

    def keep(self) -> None:
        """Throw it away: nobody could find it again."""
        self.content.close()
