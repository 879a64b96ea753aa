"""A file at exactly one path; knows nothing of what is in it."""

from functools import partial
from pathlib import Path

from income_client.disk.folders import Folder, open_folder
from income_client.disk.spool import SomeSpool
from income_client.errors import ConfigurationError, DownloadError

from . import on_disk
from .place import Present, Published


class PathPlace:
    """A path as the caller wrote it; its folder must be there.

    Args:
        path: of the file.

    Raises:
        ConfigurationError: it does not end with the name of a file.
    """

    def __init__(self, path: Path) -> None:
        if path.name in ("", ".", ".."):
            raise ConfigurationError("the destination does not end with the name of a file")
        self._folder = path.parent.absolute()
        self._name = path.name

    async def begin(self) -> SomeSpool | DownloadError:
        """See `Place.begin`."""
        return await on_disk.begun(self._open, self._name, may_make=False)

    async def present(self) -> tuple[Present, ...] | DownloadError:
        """See `Place.present`."""
        return await on_disk.found(self._open, self._name, (self._name,))

    async def publish(
        self,
        spool: SomeSpool,
        *,
        content_type: str | None = None,  # noqa: ARG002 - the name says it all
        overwrite: bool = False,
    ) -> Published | DownloadError:
        """See `Place.publish`."""
        work = partial(on_disk.publish, self._name, (), overwrite=overwrite)
        return await spool.conclude(work)

    def _open(self, make: bool) -> Folder:  # noqa: ARG002 - the folder is the caller's to make
        return open_folder(self._folder)
