"""What every place offers; knows none of them.

Faults come back as values, to be raised by a frame that holds nothing of a file.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Protocol

from attrs import field, frozen

from income_client.disk.spool import SomeSpool, UnnamedSource
from income_client.errors import DownloadError

ANOTHER: Final = "another file is there already; it was left as it is, for want of overwrite=True"
"""What is said when a place is taken."""

_Hashing = Callable[[str], Awaitable[str | DownloadError]]
_Acceptance = Callable[[], Awaitable[None]]


async def _nothing() -> None:
    """Do nothing."""


@frozen
class Present:
    """A file that stands at a place already."""

    path: Path | str
    """Where: a path, or a key in a store."""
    size: int
    """Its length in bytes."""
    _hash: _Hashing = field(repr=False, eq=False)
    """Reads all of it through the hash of this name."""
    _accept: _Acceptance = field(repr=False, eq=False, default=_nothing)
    """Makes it what a file put there would be, its content aside."""

    async def sha256(self) -> str | DownloadError:
        """Read the file and return its SHA-256 in hex, or why it cannot be read."""
        return await self._hash("sha256")

    async def md5(self) -> str | DownloadError:
        """Read the file and return its MD5 in hex, or why it cannot be read."""
        return await self._hash("md5")

    async def accept(self) -> None:
        """Take it for the file that was to come: private, and nothing left of its parts."""
        await self._accept()


@frozen
class Published:
    """A file that is at its place, whole."""

    path: Path | str | None
    """Where: a path, or a key in a store; None for a stream."""
    was_there: bool
    """Whether a file with the same content was there before, and was left."""


class Place(Protocol):
    """Where one file goes."""

    async def begin(self) -> SomeSpool | DownloadError:
        """Return what the bytes are written to, with what an earlier process has left.

        It is left as a context: what is neither kept nor published is thrown away.
        """

    async def present(self) -> tuple[Present, ...] | DownloadError:
        """Return what stands there already; several, where the extension is not known yet."""

    async def publish(
        self,
        spool: SomeSpool,
        *,
        content_type: str | None = None,
        overwrite: bool = False,
    ) -> Published | DownloadError:
        """Put what was written where it belongs, all of it or nothing.

        Args:
            spool: what `begin` of this place has returned.
            content_type: as the reply named it.
            overwrite: whether to replace a file with other content.
        """


def unnamed_spool() -> SomeSpool:
    """Return a spool whose file has no name, and is never found again."""
    return SomeSpool(UnnamedSource())
